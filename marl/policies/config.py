"""Keys of ``model:``, ``exploration_config:`` and ``scripted:``, and the recipe from which a policy is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, field_validator

from marl.config import Config
from marl.needs import above, algo_needs, declare, given, needs, none_of, not_for, not_given, one_of, only_for, plays
from marl.policies.language_config import LanguageModelConfig

ActivationName: TypeAlias = Literal["tanh", "relu", "silu", "gelu", "elu"]
OTHER_NAMES = {"swish": "silu"}  # RLlib's
# The next line is written by `python benchmarks/activations.py --write`.
ACTIVATION_COST = "relu 0.90, silu 1.00, gelu 1.24, elu 1.11"
OWN_MEMORY = "a custom model brings its own memory (carry_size)"
RECURRENT = (one_of("use_lstm", True), one_of("use_gru", True))
MEMORY = declare(needs(*RECURRENT, one_of("use_attention", True), given("custom_model")))
"""A custom model may remember as well."""
LOOKS_BACK = declare(needs(*RECURRENT, given("custom_model")))
ATTENTION = declare(needs(one_of("use_attention", True)))
VISION = declare(needs(none_of("conv_filters", []), why="without layers there is no vision net"))
EPSILON = declare(needs(one_of("type", "EpsilonGreedy", "SoftQ")))
EPSILON_PER_WORKER = declare(needs(one_of("type", "PerWorkerEpsilonGreedy")))
NOISE = declare(needs(one_of("type", "GaussianNoise", "OrnsteinUhlenbeckNoise")))
DRIFT = declare(needs(one_of("type", "OrnsteinUhlenbeckNoise")))
NOISY_WEIGHTS = declare(needs(one_of("type", "ParameterNoise")))


class ModelConfig(Config):
    """What the network looks like."""

    fcnet_hiddens: list[PositiveInt] = Field([256, 256], description="Sizes of the hidden layers.")
    fcnet_activation: ActivationName = Field(
        "tanh",
        description="Activation after each hidden layer. CPU time of ppo with minibatches of 400 rows, where tanh is 1: "
        f"{ACTIVATION_COST}.",
    )
    post_fcnet_hiddens: list[PositiveInt] = Field(
        [], description="Sizes of more hidden layers after these; they stay a policy's own where the encoder is shared."
    )
    post_fcnet_activation: ActivationName = Field("relu", description="Activation after each of them.")
    shared: dict[str, str] = Field(
        {},
        description="encoder: NAME makes the layers of fcnet_hiddens the same tensors in all policies with this NAME.",
        json_schema_extra=declare(
            only_for("stochastic", "value", why="the networks of others have layers of their own")
        ),
    )
    vf_share_layers: bool = Field(
        False,
        description="The value head shares the policy's layers.",
        json_schema_extra=declare(
            only_for("stochastic", why="the networks of others give no value of a state beside their actions"),
            not_for("es", why="es learns no values"),
            not_for("deep_cfr", why="values of histories, which escher learns, are not those of what an agent sees"),
            algo_needs(none_of("objective", "pg"), why="pg learns no values"),
            algo_needs(one_of("critic_sees", "own"), why="the policy's layers see its own observation"),
            algo_needs(above("vf_coeff", 0), why="without a critic, as in bc, there is no value"),
        ),
    )
    free_log_std: bool = Field(
        False,
        description="The log standard deviation is a free parameter instead of a network output.",
        json_schema_extra=declare(
            only_for("stochastic", "squashed", why="others draw no coordinates from a distribution"),
            plays("coordinates", why="choices have no deviation"),
        ),
    )
    agent_id: Literal["auto"] | bool = Field(
        "auto",
        description="Show the policy the one-hot seat of the agent it plays. auto: when it plays several agents "
        "of a group that is mixed or shares a critic.",
    )

    conv_filters: list[tuple[PositiveInt, PositiveInt | tuple[PositiveInt, PositiveInt], PositiveInt]] | None = Field(
        None,
        description="Images: layers [channels, kernel, stride] of the vision net before fcnet_hiddens. null: by the "
        "image's size; []: no vision net, the image is flattened.",
    )
    conv_activation: ActivationName = Field(
        "relu", description="Activation after each layer of the vision net.", json_schema_extra=VISION
    )
    conv_padding: Literal["auto", "valid", "same"] = Field(
        "auto",
        description="Images: zeros around them. valid: none. same: in all layers but the last, so that a side of n pixels has "
        "ceil(n / stride) afterwards. auto: same for conv_filters that are written for it, as RLlib's are (they do not fit "
        "without, and end with one pixel), else valid.",
        json_schema_extra=declare(needs(given("conv_filters"), why="the default needs no padding")),
    )
    dim: PositiveInt | None = Field(
        None, description="Images: resized to dim x dim pixels first; null: as they are.", json_schema_extra=VISION
    )
    grayscale: bool = Field(
        False, description="Images: the mean over the colours instead of them.", json_schema_extra=VISION
    )
    zero_mean: bool = Field(
        False, description="Images: pixels from -1 to 1 instead of 0 to 1.", json_schema_extra=VISION
    )
    use_lstm: bool = Field(
        False,
        description="Remember: an LSTM after fcnet_hiddens. A value of the agent's own observation then comes from the same "
        "layers, as with vf_share_layers.",
        json_schema_extra=declare(needs(not_given("custom_model"), why=OWN_MEMORY)),
    )
    use_gru: bool = Field(
        False,
        description="The same with a GRU.",
        json_schema_extra=declare(
            needs(one_of("use_lstm", False), why="one memory is enough"),
            needs(not_given("custom_model"), why=OWN_MEMORY),
        ),
    )
    lstm_cell_size: PositiveInt = Field(
        256, description="Cells of the memory.", json_schema_extra=declare(needs(*RECURRENT))
    )
    use_attention: bool = Field(
        False,
        description="The same with attention over the last inputs (GTrXL).",
        json_schema_extra=declare(
            needs(one_of("use_lstm", False), why="one memory is enough"),
            needs(one_of("use_gru", False), why="one memory is enough"),
            needs(not_given("custom_model"), why=OWN_MEMORY),
        ),
    )
    attention_num_transformer_units: PositiveInt = Field(
        1,
        description="Units of attention, one after the other; each remembers its own inputs.",
        json_schema_extra=ATTENTION,
    )
    attention_dim: PositiveInt = Field(
        64, description="Numbers that a unit sees and gives.", json_schema_extra=ATTENTION
    )
    attention_num_heads: PositiveInt = Field(
        1, description="Heads of a unit, each of which looks back in its own way.", json_schema_extra=ATTENTION
    )
    attention_head_dim: PositiveInt = Field(
        32, description="Numbers of queries, keys and values of a head.", json_schema_extra=ATTENTION
    )
    attention_memory_inference: PositiveInt = Field(
        50, description="How many of the agent's last decisions a decision looks back at.", json_schema_extra=ATTENTION
    )
    attention_memory_training: NonNegativeInt = Field(
        50,
        description="How many of these may lie before the beginning of a training sequence; all of them where it is not fewer "
        "than attention_memory_inference.",
        json_schema_extra=ATTENTION.joined(declare(not_for("es", why="es trains on no sequences"))),
    )
    attention_position_wise_mlp_dim: PositiveInt = Field(
        32, description="Size of the hidden layer that follows the attention in a unit.", json_schema_extra=ATTENTION
    )
    attention_init_gru_gate_bias: float = Field(
        2.0,
        ge=-100,
        le=100,
        description="How firmly gates are closed at first: the larger, the more of its input a unit lets through unchanged.",
        json_schema_extra=ATTENTION,
    )
    attention_use_n_prev_actions: NonNegativeInt = Field(
        0, description="Show so many of the agent's last actions with every input.", json_schema_extra=ATTENTION
    )
    attention_use_n_prev_rewards: NonNegativeInt = Field(
        0,
        description="Show what the agent was paid after so many of its last decisions with every input.",
        json_schema_extra=ATTENTION,
    )
    max_seq_len: PositiveInt = Field(
        20,
        description="Decisions of an agent per training sequence; gradients do not go further back.",
        json_schema_extra=MEMORY.joined(declare(not_for("es", why="es trains on no sequences"))),
    )
    lstm_use_prev_action: bool = Field(
        False, description="Show the agent's last action to the memory.", json_schema_extra=LOOKS_BACK
    )
    lstm_use_prev_reward: bool = Field(
        False,
        description="Show what the agent was paid since its last decision to the memory.",
        json_schema_extra=LOOKS_BACK,
    )
    observation_filter: Literal["NoFilter", "MeanStdFilter"] = Field(
        "NoFilter",
        description="MeanStdFilter: observations minus their running mean, divided by their running deviation, cut to +-10.",
    )
    custom_model: str | None = Field(
        None,
        description="Registered name or package.module:Class of a Model; replaces the layers between features and outputs.",
    )
    custom_model_config: dict[str, Any] = Field(
        {}, description="Handed to the custom model.", json_schema_extra=declare(needs(given("custom_model")))
    )
    custom_preprocessor: str | None = Field(
        None, description="Registered name or package.module:Class of a Preprocessor of observations."
    )
    custom_preprocessor_config: dict[str, Any] = Field(
        {},
        description="Handed to the custom preprocessor.",
        json_schema_extra=declare(needs(given("custom_preprocessor"))),
    )
    custom_action_dist: str | None = Field(
        None,
        description="Registered name or package.module:Class of a Distribution over actions.",
        json_schema_extra=declare(only_for("stochastic", why="others have no distribution, or a fixed one")),
    )

    @field_validator("fcnet_activation", "post_fcnet_activation", "conv_activation", mode="before")
    @classmethod
    def _our_name(cls, value: object) -> object:
        return OTHER_NAMES.get(value, value) if isinstance(value, str) else value

    @field_validator("agent_id", mode="before")
    @classmethod
    def _no_number(cls, value: object) -> object:
        """RLlib's MADDPG numbers its policies by this key; read as true or false it would quietly mean something else."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            raise ValueError(
                f"{value!r} is a number, but here agent_id says whether the policy is shown which agent it plays (true, "
                "false or auto). Whom a policy plays says policy_mapping_fn; drop agent_id"
            )
        return value

    @property
    def recurrent(self) -> bool:
        return self.use_lstm or self.use_gru or self.use_attention

    @property
    def shows_last_action(self) -> bool:
        """Whether the memory sees the agent's last action."""
        return self.lstm_use_prev_action or self.attention_use_n_prev_actions > 0

    @property
    def shows_last_reward(self) -> bool:
        return self.lstm_use_prev_reward or self.attention_use_n_prev_rewards > 0

    @field_validator("shared")
    @classmethod
    def _only_encoders(cls, value: dict[str, str]) -> dict[str, str]:
        for key in value:
            if key != "encoder":
                raise ValueError(f"{key!r} cannot be shared; expected encoder: NAME")
        return value


class ExplorationConfig(Config):
    """How a policy explores. Which keys count depends on ``type``."""

    type: Literal[
        "EpsilonGreedy",
        "PerWorkerEpsilonGreedy",
        "StochasticSampling",
        "GaussianNoise",
        "OrnsteinUhlenbeckNoise",
        "ParameterNoise",
        "SoftQ",
        "NoisyLayers",
    ] = Field(
        description="EpsilonGreedy, PerWorkerEpsilonGreedy, SoftQ (actions are drawn by their values), NoisyLayers (of noisy "
        "algorithms; nothing else is random) or ParameterNoise for action values; StochasticSampling or "
        "GaussianNoise for stochastic policies; for deterministic ones ParameterNoise, or GaussianNoise or "
        "OrnsteinUhlenbeckNoise where they have coordinates, else StochasticSampling.",
        json_schema_extra=declare(
            algo_needs(one_of("noisy", True), why="without noisy layers nothing would explore", when=("NoisyLayers",)),
            algo_needs(none_of("noisy", True), why="noisy layers learn their own noise", when=("ParameterNoise",)),
        ),
    )
    initial_epsilon: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="Chance of a random action at the start. Default 1.0; SoftQ: 0.", json_schema_extra=EPSILON
    )
    final_epsilon: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="Chance of a random action at the end. Default 0.02; SoftQ: 0.", json_schema_extra=EPSILON
    )
    epsilon_timesteps: NonNegativeInt | None = Field(
        None,
        description="Env steps from the initial to the final value, linearly. Default 10000.",
        json_schema_extra=EPSILON.joined(
            declare(needs(not_given("epsilon_decay"), why="epsilon falls linearly or exponentially, not both"))
        ),
    )
    epsilon_decay: PositiveInt | None = Field(
        None,
        description="Epsilon falls exponentially instead: after t env steps it is final + (initial - final) * exp(-t / "
        "epsilon_decay).",
        json_schema_extra=EPSILON,
    )
    epsilon_base: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None,
        description="Chance of a random action in the first worker. Default 0.4.",
        json_schema_extra=EPSILON_PER_WORKER,
    )
    epsilon_alpha: NonNegativeFloat | None = Field(
        None,
        description="Worker i of N has epsilon_base ** (1 + epsilon_alpha * i / (N - 1)). Default 7.",
        json_schema_extra=EPSILON_PER_WORKER,
    )
    temperature: PositiveFloat | None = Field(
        None,
        description="Actions are drawn with chances proportional to exp(Q / temperature). Default: the algorithm's "
        "temperature, 1 where that is 0.",
        json_schema_extra=declare(needs(one_of("type", "SoftQ"))),
    )
    random_timesteps: NonNegativeInt | None = Field(
        None,
        description="Env steps of uniformly random actions first. Default 0.",
        json_schema_extra=declare(
            needs(none_of("type", "EpsilonGreedy", "PerWorkerEpsilonGreedy", "SoftQ", "NoisyLayers"))
        ),
    )
    initial_scale: NonNegativeFloat | None = Field(
        None,
        description="Standard deviation of the noise on normalised actions at the start. Default 1.0.",
        json_schema_extra=NOISE,
    )
    final_scale: NonNegativeFloat | None = Field(
        None, description="Standard deviation at the end. Default 0.1.", json_schema_extra=NOISE
    )
    scale_timesteps: NonNegativeInt | None = Field(
        None,
        description="Env steps from the initial to the final scale, linearly. Default 10000.",
        json_schema_extra=NOISE,
    )
    ou_theta: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None,
        description="How fast the noise comes back to 0: x - theta * x per step. Default 0.15.",
        json_schema_extra=DRIFT,
    )
    ou_sigma: NonNegativeFloat | None = Field(
        None, description="How far the noise is pushed per step: sigma * N(0, 1). Default 0.2.", json_schema_extra=DRIFT
    )
    initial_stddev: PositiveFloat | None = Field(
        None,
        description="Standard deviation of the noise on weights at the start. Default 0.1.",
        json_schema_extra=NOISY_WEIGHTS,
    )
    noise_distance: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        None,
        description="How far noisy weights may change the play. Deterministic policies: root mean square of the difference of "
        "outputs; action values: the epsilon whose random play is as far off. Default 0.1.",
        json_schema_extra=NOISY_WEIGHTS,
    )


class ScriptedConfig(Config):
    """A policy that does not learn."""

    name: str | Callable[..., Any] = Field(
        description="random, fixed, language_model, or package.module:name of a function (obs, rng) -> action or of a Policy "
        "class. A function marked by marl.data.rules.batched_rule is asked for many agents at once."
    )
    action: int | list[int] | list[float] | None = Field(
        None,
        description="The action that is always played.",
        json_schema_extra=declare(needs(one_of("name", "fixed"))),
    )
    language_model: LanguageModelConfig | None = Field(
        None,
        description="The language model that is asked.",
        json_schema_extra=declare(needs(one_of("name", "language_model"))),
    )


@dataclass(frozen=True)
class PolicySpec:
    """All that is needed to build a policy anywhere: on the driver or in a worker."""

    acts: str  # a key of policies.build.ACTS, or scripted
    kind: int  # index of the kind of agents that it plays
    model: ModelConfig = field(default_factory=ModelConfig)
    exploration: ExplorationConfig | None = None
    scripted: ScriptedConfig | None = None
    agent_id: bool = False
    seed: int = 0
    # What else the algorithm says about acting, such as dueling.
    options: Mapping[str, Any] = field(default_factory=dict)
    population: str | None = None  # a mixture of policies of this recipe; those of one name have the same members
