"""Keys of collecting and evaluating, and the recipe from which a worker is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, field_validator

from marl.config import Config
from marl.data.task import Floats, PolicyID, Task
from marl.envs.families import EnvFamily
from marl.envs.registry import EnvCreator
from marl.envs.wrappers import Wrapper, Wrapping
from marl.log import LogLevel
from marl.mappers.mapper import Mapper
from marl.needs import above, declare, given, needs, none_of, not_for, not_given
from marl.policies.config import PolicySpec
from marl.policies.custom import Classes
from marl.trust import Trust

ONE_AFTER_THE_OTHER = "workers in this process play one after the other, and only Ray workers do not wait"
RECORDED = "what was recorded is what it is"
ES_EPISODES = "es compares the returns of whole episodes and explores by moving weights"
REGRETS_WALK = "deep_cfr and escher walk through games of their own (traversals)"
ES_PLAYS = "es plays whole episodes, populations of its own (num_perturbations pairs of episodes_per_perturbation)"

FROM_RECORDINGS = "values are estimated from recorded episodes; where envs are played, evaluation measures them"

# What says the same as `"input": lambda ioctx: PolicyServerInput(ioctx, address, port)`; env is None there.
INSTEAD_OF_A_SERVER = (
    "a function that makes an input (PolicyServerInput) is not taken. Where clients play, write instead of env, input and "
    'input_evaluation: env="external", "env_config": {"agents": {"agent_0": {"observation_space": {"type": "Box", "low": -10, '
    '"high": 10, "shape": [4], "dtype": "float32"}, "action_space": {"type": "Discrete", "n": 2, "start": 0}}}}, "external": '
    '{"host": "127.0.0.1", "port": 9900}, "evaluation": {"interval": 0}; or a marl.ExternalEnv whose run() calls '
    "marl.PolicyServer(self, address, port).serve_forever()"
)


class RolloutConfig(Config):
    """How experience is collected (top-level keys of a scenario)."""

    num_workers: NonNegativeInt = Field(0, description="Rollout workers; 0: one, in this process, without Ray.")
    pool: Literal["auto", "ray", "in_process"] = Field(
        "auto",
        description="Where the workers live. auto: Ray actors when num_workers > 0. in_process: the same workers, "
        "one after the other, without Ray (for debugging; gives the same numbers).",
        json_schema_extra=declare(needs(above("num_workers", 0), when=("ray",))),
    )
    collection: Literal["auto", "sync", "overlap", "async"] = Field(
        "auto",
        description="sync: a round waits for all workers, which then get the new weights. overlap: workers play the next "
        "round while learners learn, with weights that are one round older; runs repeat exactly. async: each Ray worker "
        "plays on with the newest weights it can get while learners learn. auto: async for a3c, impala, apex and "
        "apex_ddpg on Ray, else sync.",
        json_schema_extra=declare(
            needs(above("num_workers", 0), when=("async",), why=ONE_AFTER_THE_OTHER),
            needs(none_of("pool", "in_process"), when=("async",), why=ONE_AFTER_THE_OTHER),
            needs(not_given("input"), when=("async", "overlap"), why="recordings are read, not collected"),
            not_for("es", when=("async", "overlap"), why="es waits for a whole population before it moves"),
            not_for("deep_cfr", when=("async", "overlap"), why=REGRETS_WALK),
        ),
    )
    num_envs_per_worker: PositiveInt = Field(1, description="Copies of the env in each worker, stepped together.")
    rollout_fragment_length: PositiveInt | Literal["auto"] = Field(
        "auto",
        description="Steps of each copy per round. auto: what the on-policy learners' train_batch_size asks for, else 4.",
        json_schema_extra=declare(not_for("es", why=ES_PLAYS), not_for("deep_cfr", why=REGRETS_WALK)),
    )
    batch_mode: Literal["auto", "truncate_episodes", "complete_episodes"] = Field(
        "auto",
        description="complete_episodes: an episode is handed to the learners when it has ended, never in parts. auto: "
        "complete_episodes where a learner needs it (pg, marwil, bc), else truncate_episodes.",
        json_schema_extra=declare(
            not_for("es", when=("truncate_episodes",), why=ES_PLAYS),
            not_for("deep_cfr", when=("truncate_episodes",), why=REGRETS_WALK),
        ),
    )
    horizon: PositiveInt | None = Field(
        None, description="Env steps after which an episode is truncated (and bootstrapped)."
    )
    soft_horizon: bool = Field(
        False,
        description="An episode that is cut at the horizon is counted and bootstrapped as usual, but the env is not reset: "
        "the next one begins where it was. Not in evaluations.",
        json_schema_extra=declare(
            needs(given("horizon")),
            needs(not_given("input"), why=RECORDED),
            not_for("es", why=ES_EPISODES),
            not_for("deep_cfr", why=REGRETS_WALK),
        ),
    )
    env_timeout_s: PositiveFloat | None = Field(
        None,
        description="Seconds that one step or reset of the env may take before the run ends with an error.",
    )
    check_bounds: bool = Field(
        True,
        description="An observation outside the bounds of its space ends the run with an error; false: it is learned from as "
        "it is.",
    )
    fresh_env_per_episode: bool = Field(
        False,
        description="Build the env anew for each episode: for envs that remember something over resets.",
    )
    keep_infos: bool = Field(
        False,
        description="Batches have a column infos: what the env said beside the step that ended each decision. For callbacks "
        "and for looking; learners do not see it.",
        json_schema_extra=declare(
            needs(not_given("input"), why=RECORDED),
            not_for("es", why=ES_EPISODES),
            not_for("deep_cfr", why=REGRETS_WALK),
        ),
    )
    normalize_actions: bool = Field(
        True,
        description="Box actions: policies speak -1..1, which is stretched (and cut) to the bounds of the space.",
    )
    clip_actions: bool = Field(False, description="Box actions without normalisation: cut to the bounds of the space.")
    clip_rewards: bool | PositiveFloat = Field(
        False,
        description="What learners are paid per env step. A number: cut to plus or minus this much; true: the sign (-1, 0 or "
        "1); false: as it is. Returns in results are never cut.",
        json_schema_extra=declare(
            needs(not_given("input"), why=RECORDED),
            not_for("es", why=ES_EPISODES),
            not_for("deep_cfr", why=REGRETS_WALK),
        ),
    )
    explore: bool = Field(
        True,
        description="Workers collect with exploration; false: by the policies' best guess, as evaluations do.",
        json_schema_extra=declare(
            needs(not_given("input"), why=RECORDED),
            not_for("es", why=ES_EPISODES),
            not_for("deep_cfr", why=REGRETS_WALK),
        ),
    )
    create_env_on_driver: bool = Field(
        False,
        description="Beside Ray workers the driver has copies of the env as well (workers.local_worker(), foreach_env); it "
        "does not collect with them.",
    )
    log_level: LogLevel = Field(
        "WARN",
        description="How much the package logs, on the driver and in workers: DEBUG (every round), INFO (what begins and "
        "ends), WARN or ERROR.",
    )
    callbacks: Any = Field(
        None,
        description="Your own code at the turning points of a run: package.module:Class of a marl.Callbacks, or hooks to "
        "package.module:function; in Python also the class, an object or functions. Default: none.",
    )
    output: str | None = Field(
        None,
        description="Directory for what is collected: whole episodes of all agents, 1000 per file (trajs_0.npz, ...). "
        "Default: nothing is kept.",
        json_schema_extra=declare(
            needs(not_given("input"), why="what is read is not played, so there is nothing to keep"),
            not_for("es", why=ES_PLAYS),
            not_for("deep_cfr", why=REGRETS_WALK),
        ),
    )
    output_format: Literal["npz", "json"] = Field(
        "npz",
        description="output as arrays (npz), or as text, an episode per line, in files per worker "
        "(json: output-<date>_worker-<i>_<n>.json). Both can be learned from.",
        json_schema_extra=declare(needs(given("output"))),
    )
    env_task_fn: str | Callable[..., Any] | None = Field(
        None,
        description="package.module:function of (result, env, ctx) -> task, asked for every copy of the env after each "
        "iteration; a task other than the copy's last one is handed to its set_task, None changes nothing.",
        json_schema_extra=declare(needs(not_given("input"), why="only envs that are played have tasks")),
    )
    input: str | None = Field(
        None,
        description="Learn from recorded episodes instead of collecting: a directory, a file, or a pattern such as "
        "data/*/trajs_*.npz. Evaluation still plays.",
        json_schema_extra=declare(not_for("es", why=ES_PLAYS), not_for("deep_cfr", why=REGRETS_WALK)),
    )
    fake_sampler: bool = Field(
        False,
        description="Play one round and hand it to the learners again and again, to time learning alone "
        "(timers.learn_throughput). The episodes of the round are counted once; nothing more is learned about the env.",
        json_schema_extra=declare(
            needs(not_given("input"), why="recordings are read, not played"),
            needs(not_given("output"), why="a round that comes again is no new recording"),
            not_for("es", why=ES_PLAYS),
            not_for("deep_cfr", why=REGRETS_WALK),
        ),
    )
    off_policy_estimator: list[str] = Field(
        [],
        description="What the learning policies would earn, told from the recordings of input without playing, as "
        "off_policy_estimator in results: is (importance sampling), wis (weighted), dr (doubly robust), or names that you "
        "have registered.",
        json_schema_extra=declare(needs(given("input"), why=FROM_RECORDINGS)),
    )
    off_policy_interval: PositiveInt = Field(
        10,
        description="Iterations between two estimates; the last iteration always has one.",
        json_schema_extra=declare(needs(given("off_policy_estimator"))),
    )
    off_policy_gamma: Annotated[float, Field(gt=0, le=1)] = Field(
        1.0,
        description="Discount of estimated values, per env step; 1: the sum of rewards, as policy_reward_mean.",
        json_schema_extra=declare(needs(given("off_policy_estimator"))),
    )
    record_env: bool | PositiveInt = Field(
        False,
        description="Film training: after every so many iterations (true: 10) each worker plays one episode, exploring, on a "
        "copy of its own, into videos/ of the run directory.",
    )
    render_env: bool | PositiveInt = Field(
        False,
        description="Show training: after every so many iterations (true: 10) one episode is shown, texts printed, "
        "pictures in a window.",
    )
    num_cpus_per_worker: NonNegativeFloat = Field(1, description="CPUs that Ray reserves per worker.")
    num_gpus_per_worker: NonNegativeFloat = Field(
        0, description="GPUs that Ray reserves per worker; may be a fraction."
    )
    custom_resources_per_worker: dict[str, PositiveFloat] = Field({}, description="Other Ray resources per worker.")
    address: str | None = Field(
        None,
        description="Ray cluster to join (host:port or auto); none: the run starts a Ray of its own on this machine, whatever "
        "RAY_ADDRESS says.",
    )
    ray_num_cpus: PositiveInt | None = Field(
        None,
        description="CPUs that a Ray started by this run may use; default: those of the machine, or what is needed.",
    )
    recreate_failed_workers: bool = Field(
        True,
        description="A worker that dies is replaced and goes on with the same numbers; false: the run ends with an error.",
    )

    @field_validator("input", mode="before")
    @classmethod
    def _is_no_server(cls, value: Any) -> Any:
        """RLlib's later scripts put their server here, as a function."""
        if callable(value):
            raise ValueError(INSTEAD_OF_A_SERVER)
        return value

    @property
    def on_ray(self) -> bool:
        """Whether the workers are Ray actors."""
        if self.pool == "auto":
            return self.num_workers > 0
        return self.pool == "ray"


def clipped(rewards: Floats, limit: float) -> Floats:
    """What learners are paid (``clip_rewards``): True, the sign; a number, cut to plus or minus this much."""
    if limit is True:
        return np.sign(rewards)
    return np.clip(rewards, -limit, limit)


class EvaluationConfig(Config):
    """Greedy play on envs of its own, between iterations."""

    interval: NonNegativeInt = Field(10, description="Iterations between two evaluations; 0: none.")
    episodes: PositiveInt = Field(20, description="Episodes per evaluation.")
    explore: bool = Field(False, description="Evaluate with exploration instead of greedily.")
    policy_mapping_fn: str | dict[str, str | list[str]] | Callable[..., Any] | None = Field(
        None, description="Who plays during evaluation; default: as in training."
    )
    env: str | Callable[..., Any] | None = Field(
        None,
        description="Another env to evaluate on, with the same agents and spaces; it gets neither the env_config nor the "
        "wrappers of training. Default: the env of training.",
    )
    env_config: dict[str, Any] | None = Field(
        None, description="Changes to env_config for evaluation; all of it where evaluation has an env of its own."
    )
    custom_function: str | Callable[..., Any] | None = Field(
        None,
        description="A function (trainer, play) that evaluates instead: play() plays the episodes and returns the usual "
        "block, and what the function returns is the evaluation. In a file package.module:function.",
    )
    metric: str = Field(
        "episode_reward_mean",
        description="Field of the evaluation block that decides which checkpoint is best.",
    )


@dataclass(frozen=True)
class EnvRecipe:
    """All that is needed to build copies of an env."""

    env: str | EnvCreator
    env_config: Mapping[str, Any] = field(default_factory=dict)
    wrappers: tuple[Wrapping, ...] = ()


@dataclass(frozen=True)
class StageEnv:
    """What is played in one stage of a curriculum."""

    env_recipe: EnvRecipe
    evaluation_recipe: EnvRecipe | None = None  # None: the env of training
    task: Any = None  # told to every copy; None: nothing is told


@dataclass(frozen=True)
class RolloutSpec:
    """All that a worker is told. It travels to Ray actors in memory."""

    env: str | EnvCreator
    env_config: Mapping[str, Any]
    task: Task
    policies: Mapping[PolicyID, PolicySpec]
    mapper: Mapper
    seed: int
    config: RolloutConfig
    complete_episodes: bool = False
    evaluation_mapper: Mapper | None = None
    evaluation_recipe: EnvRecipe | None = None  # None: the env of training
    imports: tuple[str, ...] = ()
    torch_threads: int = 1
    registered: Mapping[str, EnvCreator] = field(default_factory=dict)
    registered_families: Mapping[str, EnvFamily] = field(default_factory=dict)
    wrappers: tuple[Wrapping, ...] = ()
    registered_wrappers: Mapping[str, Wrapper] = field(default_factory=dict)
    registered_classes: Classes = field(default_factory=dict)
    teams: tuple[int, ...] | None = (
        None  # per seat: those of one team draw one lot per episode; None: each seat its own
    )

    stages: tuple[StageEnv, ...] = ()  # of a curriculum; none: there is one env
    evaluation_takes_tasks: bool = True  # false: evaluation has an env of its own, with tasks of its own
    trust: Trust | None = None  # in the file that all of this comes from; None: the user wrote it

    @property
    def env_recipe(self) -> EnvRecipe:
        """The env of training; with a curriculum, the one that its stages change."""
        return EnvRecipe(self.env, self.env_config, self.wrappers)

    def stage(self, number: int) -> StageEnv:
        """What is played in a stage of the curriculum; without one everything is stage 0."""
        if self.stages:
            return self.stages[number]
        return StageEnv(self.env_recipe, self.evaluation_recipe)
