"""Keys of ``model:``, ``exploration_config:`` and ``scripted:``, and the recipe from which a policy is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, field_validator, model_validator

from marl.config import Config
from marl.errors import ConfigError


class ModelConfig(Config):
    """What the network looks like."""

    fcnet_hiddens: list[PositiveInt] = Field([256, 256], description="Sizes of the hidden layers.")
    fcnet_activation: Literal["tanh", "relu"] = Field("tanh", description="Activation after each hidden layer.")
    post_fcnet_hiddens: list[PositiveInt] = Field(
        [], description="Sizes of more hidden layers after these; they stay a policy's own where the encoder is shared."
    )
    post_fcnet_activation: Literal["tanh", "relu"] = Field("relu", description="Activation after each of them.")
    shared: dict[str, str] = Field(
        {},
        description="encoder: NAME makes the layers of fcnet_hiddens the same tensors in all policies with this NAME.",
    )
    vf_share_layers: bool = Field(
        False, description="The value head shares the policy's layers (only where critic_sees is own)."
    )
    free_log_std: bool = Field(
        False,
        description="Box actions: the log standard deviation is a free parameter instead of a network output.",
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
    conv_activation: Literal["tanh", "relu"] = Field(
        "relu", description="Activation after each layer of the vision net."
    )
    dim: PositiveInt | None = Field(None, description="Images: resized to dim x dim pixels first; null: as they are.")
    grayscale: bool = Field(False, description="Images: the mean over the colours instead of them.")
    zero_mean: bool = Field(False, description="Images: pixels from -1 to 1 instead of 0 to 1.")
    use_lstm: bool = Field(
        False,
        description="Remember: an LSTM after fcnet_hiddens. A value of the agent's own observation then comes from the same "
        "layers, as with vf_share_layers.",
    )
    use_gru: bool = Field(False, description="The same with a GRU.")
    lstm_cell_size: PositiveInt = Field(256, description="use_lstm, use_gru: cells.")
    max_seq_len: PositiveInt = Field(
        20,
        description="Recurrent models: decisions of an agent per training sequence; gradients do not go further back.",
    )
    lstm_use_prev_action: bool = Field(
        False, description="Recurrent models: show the agent's last action to the memory."
    )
    lstm_use_prev_reward: bool = Field(
        False, description="Recurrent models: show what the agent was paid since its last decision to the memory."
    )
    observation_filter: Literal["NoFilter", "MeanStdFilter"] = Field(
        "NoFilter",
        description="MeanStdFilter: observations minus their running mean, divided by their running deviation, cut to +-10.",
    )
    custom_model: str | None = Field(
        None,
        description="Registered name or package.module:Class of a Model; replaces the layers between features and outputs.",
    )
    custom_model_config: dict[str, Any] = Field({}, description="Handed to the custom model.")
    custom_preprocessor: str | None = Field(
        None, description="Registered name or package.module:Class of a Preprocessor of observations."
    )
    custom_preprocessor_config: dict[str, Any] = Field({}, description="Handed to the custom preprocessor.")
    custom_action_dist: str | None = Field(
        None,
        description="Registered name or package.module:Class of a Distribution over actions (stochastic policies).",
    )

    @property
    def recurrent(self) -> bool:
        return self.use_lstm or self.use_gru

    @model_validator(mode="after")
    def _fits_together(self) -> ModelConfig:
        if self.use_lstm and self.use_gru:
            raise ValueError("use_lstm and use_gru exclude each other")
        if self.custom_model is not None and self.recurrent:
            raise ValueError("a custom model brings its own memory (carry_size); drop use_lstm and use_gru")
        if not self.recurrent:
            self._refuse_keys_of_a_memory()
        return self

    @model_validator(mode="after")
    def _configs_have_their_class(self) -> ModelConfig:
        for key in ("custom_model", "custom_preprocessor"):
            if getattr(self, key) is None and self.changed(f"{key}_config"):
                raise ValueError(
                    f"{key}_config is handed to {key}, which is not given; set {key}, or drop {key}_config"
                )
        return self

    def _refuse_keys_of_a_memory(self) -> None:
        """Without use_lstm and use_gru; a custom model may remember something as well, but has no cells."""
        may_remember = bool(self.custom_model)
        looks_back = self.lstm_use_prev_action or self.lstm_use_prev_reward
        if looks_back and not may_remember:
            raise ValueError("lstm_use_prev_action and lstm_use_prev_reward need use_lstm, use_gru or a custom model")
        if self.changed("lstm_cell_size"):
            raise ValueError(
                f"lstm_cell_size {self.lstm_cell_size} needs use_lstm or use_gru; set one of them, or drop it"
            )
        if self.changed("max_seq_len") and not may_remember:
            raise ValueError(
                f"max_seq_len {self.max_seq_len} needs a memory: use_lstm, use_gru or a custom model; set one of them, or "
                "drop it"
            )

    @field_validator("shared")
    @classmethod
    def _only_encoders(cls, value: dict[str, str]) -> dict[str, str]:
        for key in value:
            if key != "encoder":
                raise ValueError(f"{key!r} cannot be shared; expected encoder: NAME")
        return value


class ExplorationConfig(Config):
    """How a policy explores. Which keys count depends on ``type``."""

    type: Literal["EpsilonGreedy", "PerWorkerEpsilonGreedy", "StochasticSampling", "GaussianNoise"] = Field(
        description="EpsilonGreedy or PerWorkerEpsilonGreedy for action values; StochasticSampling or GaussianNoise for "
        "stochastic policies; for deterministic ones GaussianNoise where they have coordinates, else StochasticSampling."
    )
    initial_epsilon: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="EpsilonGreedy: chance of a random action at the start. Default 1.0."
    )
    final_epsilon: Annotated[float, Field(ge=0, le=1)] | None = Field(
        None, description="EpsilonGreedy: chance of a random action at the end. Default 0.02."
    )
    epsilon_timesteps: NonNegativeInt | None = Field(
        None,
        description="EpsilonGreedy: env steps from the initial to the final value, linearly. Default 10000.",
    )
    epsilon_base: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="PerWorkerEpsilonGreedy: chance of a random action in the first worker. Default 0.4."
    )
    epsilon_alpha: NonNegativeFloat | None = Field(
        None,
        description="PerWorkerEpsilonGreedy: worker i of N has epsilon_base ** (1 + epsilon_alpha * i / (N - 1)). Default 7.",
    )
    random_timesteps: NonNegativeInt | None = Field(
        None,
        description="StochasticSampling, GaussianNoise: env steps of uniformly random actions first. Default 0.",
    )
    initial_scale: NonNegativeFloat | None = Field(
        None,
        description="GaussianNoise: standard deviation of the noise on normalised actions at the start. Default 1.0.",
    )
    final_scale: NonNegativeFloat | None = Field(
        None, description="GaussianNoise: standard deviation at the end. Default 0.1."
    )
    scale_timesteps: NonNegativeInt | None = Field(
        None,
        description="GaussianNoise: env steps from the initial to the final scale, linearly. Default 10000.",
    )

    @model_validator(mode="after")
    def _only_its_own_keys(self) -> ExplorationConfig:
        given = {name for name in type(self).model_fields if name != "type" and getattr(self, name) is not None}
        foreign = given - EXPLORATION_KEYS[self.type]
        if foreign:
            raise ValueError(
                f"{', '.join(sorted(foreign))} means nothing to {self.type}; it knows "
                f"{', '.join(sorted(EXPLORATION_KEYS[self.type]))}"
            )
        return self


EXPLORATION_KEYS: dict[str, set[str]] = {
    "EpsilonGreedy": {"initial_epsilon", "final_epsilon", "epsilon_timesteps"},
    "PerWorkerEpsilonGreedy": {"epsilon_base", "epsilon_alpha"},
    "StochasticSampling": {"random_timesteps"},
    "GaussianNoise": {"random_timesteps", "initial_scale", "final_scale", "scale_timesteps"},
}


class ScriptedConfig(Config):
    """A policy that does not learn."""

    name: str | Callable[..., Any] = Field(
        description="random, fixed, or package.module:name of a function (obs, rng) -> action or of a Policy class."
    )
    action: int | list[int] | list[float] | None = Field(None, description="fixed: the action that is always played.")


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
    options: Mapping[str, Any] = field(
        default_factory=dict
    )  # what else the algorithm says about acting, such as dueling
    population: str | None = None  # a mixture of policies of this recipe; those of one name have the same members


def refuse_model_keys(spec: PolicySpec, keys: tuple[str, ...], learners: str, why: str) -> None:
    """Keys of ``model:`` that mean nothing to a kind of policy are refused rather than ignored."""
    given = spec.model.changed(*keys)
    if given:
        raise ConfigError(
            f"model.{given[0]} = {getattr(spec.model, given[0])!r} means nothing to {learners}: {why}. For policies that "
            f"learn by them, drop {', '.join(given)}."
        )
