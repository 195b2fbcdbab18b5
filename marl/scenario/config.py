"""All keys of a scenario. It composes the config classes of the rooms; each key has its type, default and meaning here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    PrivateAttr,
    field_validator,
    model_validator,
)

import marl.envs.catalog  # noqa: F401  (the built-in families)
from marl.algos.presets import ALGOS, Preset
from marl.config import Config
from marl.data.agent_ids import text_id
from marl.envs.external.contract import EXTERNAL
from marl.envs.external.training import ExternalTraining
from marl.envs.families import forms
from marl.needs import above, declare, needs, none_of, not_for, not_given, one_of
from marl.policies.config import ExplorationConfig, ModelConfig
from marl.populations.config import PopulationConfig
from marl.populations.exploit_config import ExploitabilityConfig
from marl.populations.pipelines import POPULATIONS
from marl.rollout.config import EvaluationConfig, RolloutConfig
from marl.scenario.policy_tuples import GivenSpaces, unpack

Overrides = dict[str, Any]
ENV_STAYS = "populations and NashConv are about one env that stays as it is"
MATCHMAKING = "a population decides who plays and who learns"
ONE_PROCESS = "a stack is seeds in one process"


class MultiAgentConfig(Config):
    """Who plays whom, and who learns."""

    groups: dict[str, list[str]] = Field({}, description="Teams: group name to agent ids or patterns such as car_*.")
    joint: list[str] = Field(
        [], description="Groups that are played as one agent, with Tuple spaces: one policy sees and moves all members."
    )
    policies: dict[str, Overrides] = Field(
        {},
        description="Policy id to overrides: any algo or model key, another algo, exploration_config, or scripted.",
    )
    policy_mapping_fn: str | dict[str, str | list[str]] | Callable[..., Any] | None = Field(
        None,
        description='shared, per_agent, by_group, levels, patterns {"car_*": [car1, car2]}, or package.module:function. '
        "Default: agents with equal spaces share a policy.",
    )
    policies_to_train: list[str] | str | Callable[..., Any] | None = Field(
        None,
        description="Policies that learn; the others stay as they are, bit for bit. Default: all that can. Also "
        "package.module:function of a function (policy_id, batch) -> true/false, asked in each round.",
    )

    _given_spaces: dict[str, GivenSpaces] = PrivateAttr(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _tuples(cls, value: Any, handler: ModelWrapValidatorHandler[MultiAgentConfig]) -> MultiAgentConfig:
        """Policies as tuples become their keys; the spaces in them are kept to be held against the env."""
        policies = value.get("policies") if isinstance(value, dict) else None
        if not isinstance(policies, dict):
            return handler(value)
        keys, given = unpack(policies)
        found = handler({**value, "policies": keys})
        found._given_spaces = given
        return found

    @field_validator("policies", mode="before")
    @classmethod
    def _list_of_ids(cls, value: object) -> object:
        """A bare list of ids, or an id without overrides, is fine."""
        if isinstance(value, list):
            return {name: {} for name in value}
        if not isinstance(value, dict):
            return value
        entries: dict[Any, Any] = {}
        for name, overrides in value.items():
            entries[name] = overrides or {}  # `wolves:` alone is null in YAML
        return entries

    @field_validator("groups", mode="before")
    @classmethod
    def _members_as_texts(cls, value: object) -> object:
        """Numbers are agents of an env that numbers them."""
        if not isinstance(value, dict):
            return value
        named: dict[str, object] = {}
        for group, members in value.items():
            named[group] = [text_id(member) for member in members] if isinstance(members, list | tuple) else members
        return named

    @field_validator("policy_mapping_fn", mode="before")
    @classmethod
    def _agents_as_texts(cls, value: object) -> object:
        return {text_id(agent): policy for agent, policy in value.items()} if isinstance(value, dict) else value

    def given_spaces(self, policy: str) -> GivenSpaces | None:
        """What the tuple of a policy says about its spaces; None where it was none."""
        return self._given_spaces.get(policy)


class StageConfig(Config):
    """One stage of a curriculum. What it leaves out is as the scenario says, not as in the stage before."""

    until: dict[str, float] = Field(
        {},
        description="Result fields and the values at which the next stage begins, once all are reached. Rewards cover "
        "episodes of this stage alone. Only the last stage may go without.",
    )
    env_config: dict[str, Any] = Field({}, description="Changes to env_config in this stage.")
    task: Any = Field(None, description="Handed to set_task of every copy of the env; null: nothing is told.")


class Scenario(RolloutConfig):
    """One experiment."""

    name: str | None = Field(None, description="Folder of the results; default: the file's name or the env's.")
    env: Any = Field(description=f"Registered name, {forms()}, package.module:Class, or a Gymnasium id.")
    env_config: dict[str, Any] = Field({}, description="Handed to the env.")
    wrappers: list[Any] = Field(
        [],
        description="Put around the env, the last one outermost: names of ours (hierarchy, with_agent_groups), of "
        "SuperSuit ({frame_stack_v1: {stack_size: 2}}), or package.module:function, each with its keys.",
    )
    preprocessor_pref: Literal["none", "deepmind"] = Field(
        "none",
        description="deepmind: image observations become 84 x 84 grey pixels, the last four of them stacked (the wrapper "
        "grey_frames, outermost).",
    )
    algo: dict[str, Any] = Field({"name": "ppo"}, description="Name of the algorithm and its keys (marl config NAME).")
    multiagent: MultiAgentConfig = Field(MultiAgentConfig(), description="Groups, policies, mapping.")
    model: ModelConfig = Field(ModelConfig(), description="Networks.")
    exploration_config: ExplorationConfig | None = Field(None, description="Exploration; default: the algorithm's.")
    evaluation: EvaluationConfig = Field(EvaluationConfig(), description="Play on envs of its own between iterations.")
    external: ExternalTraining | None = Field(
        None,
        description="How clients play an external env, and the server to which they talk. Default: as its keys say.",
        json_schema_extra=declare(needs(one_of("env", EXTERNAL), why="only such an env is played by clients")),
    )
    curriculum: list[StageConfig] = Field(
        [],
        description="Envs or tasks that are played one after the other: a list of {until, env_config, task}. After a last "
        "stage with an until the env of the scenario itself is played.",
        json_schema_extra=declare(
            needs(not_given("population"), why=ENV_STAYS),
            needs(one_of("exploitability.interval", 0), why=ENV_STAYS),
            needs(not_given("input"), why="recordings are of one env"),
        ),
    )
    population: PopulationConfig | None = Field(
        None,
        description=f"Train against snapshots, by its kind: {', '.join(POPULATIONS.names)}. Default: none.",
        json_schema_extra=declare(
            needs(not_given("multiagent.policy_mapping_fn"), why=MATCHMAKING),
            needs(not_given("multiagent.policies_to_train"), why=MATCHMAKING),
            needs(not_given("load"), why="its members begin as the run makes them"),
            needs(not_given("input"), why="members meet in episodes that are played"),
            not_for("es", why="es plays populations of its own and cannot be an oracle"),
            not_for("deep_cfr", why="regrets are about everybody's newest play, not about members of a population"),
        ),
    )
    exploitability: ExploitabilityConfig = Field(
        ExploitabilityConfig(),
        description="How far play is from equilibrium, measured between iterations; `marl exploit` measures a run afterwards.",
        json_schema_extra=declare(needs(above("exploitability.interval", 0), why="so nothing is measured")),
    )
    goal: dict[str, float] = Field(
        {}, description="Result fields and the value they have to reach, checked on the last evaluation."
    )
    stop: dict[str, float | bool] = Field(
        {},
        description="Result fields and the value at which the run ends; goal: true ends it once the goal is met.",
    )
    seed: NonNegativeInt = Field(0, description="Decides everything that is random.")
    timesteps_per_iteration: PositiveInt | None = Field(
        None,
        description="Env steps per iteration. Default: the largest on-policy train_batch_size, else 1000.",
    )
    checkpoint_freq: NonNegativeInt = Field(10, description="Iterations between two checkpoints; 0: only at the end.")
    keep_checkpoints: PositiveInt = Field(
        2, description="How many of the newest checkpoints are kept, besides the best."
    )
    keep_resumable: PositiveInt = Field(
        2,
        description="How many of the newest kept checkpoints training can go on from; the others are stripped to what is "
        "needed to play. At most keep_checkpoints. The best is always resumable.",
    )
    device: Literal["cpu", "cuda", "auto"] = Field(
        "cpu", description="Where learners compute; auto: a GPU if there is one."
    )
    num_gpus: NonNegativeFloat = Field(
        0,
        description="GPUs that the learners may use.",
        json_schema_extra=declare(needs(one_of("device", "cuda", "auto"))),
    )
    num_learners: PositiveInt = Field(
        1,
        description="Processes that share every minibatch: this one, and Ray actors (1 CPU each) for the others. The results "
        "equal those of one, up to rounding.",
    )
    stacked: bool = Field(
        False,
        description="Compute updates as `marl run --seeds 0..9 --stacked` does, where many seeds learn in one go. The numbers "
        "of a seed are the same in every stack, also alone; they differ from those of an ordinary run by rounding.",
        json_schema_extra=declare(
            needs(one_of("num_workers", 0), one_of("pool", "in_process"), why=ONE_PROCESS),
            needs(one_of("num_learners", 1), why=ONE_PROCESS),
            needs(one_of("device", "cpu"), why="no GPU promises it"),
            needs(none_of("env", EXTERNAL), why="clients play one run"),
        ),
    )
    torch_threads: PositiveInt = Field(
        1, description="Torch threads per process; results repeat only for the same number."
    )
    log_sys_usage: bool = Field(
        True, description="Results hold the load of the machine (perf): CPU, memory, memory of GPUs, in percent."
    )
    imports: list[str] = Field([], description="Modules to import first, on the driver and in workers.")
    loggers: list[str | dict[str, dict[str, Any] | None]] = Field(
        [],
        description="Who gets every result: json, csv, tensorboard (files; all three unless the list names some of them), "
        "wandb, mlflow, your own by registered name or package.module:Class; with keys as {wandb: {project: mine}}.",
    )
    load: dict[str, str] = Field(
        {},
        description="Policy id to a checkpoint (or run directory) of another run, or PATH#policy, to start from.",
    )

    @model_validator(mode="before")
    @classmethod
    def _external_env_has_its_section(cls, keys: Any) -> Any:
        """Files of such a run tell all keys of its server, so that one of them can be changed when it is resumed."""
        if _given(keys, "env") == EXTERNAL and keys.get("external") is None:
            return {**keys, "external": {}}
        return keys

    @model_validator(mode="before")
    @classmethod
    def _oracle_is_the_algorithm(cls, keys: Any) -> Any:
        """``population.oracle`` is another way to say ``algo.name``."""
        oracle = _given(_given(keys, "population"), "oracle")
        if oracle is None:
            return keys
        algo = cls._short_form(keys.get("algo") or {})
        if not isinstance(algo, dict):  # what is wrong with it is told when the key itself is looked at
            return keys
        named = algo.get("name", oracle)
        if str(named).lower() != str(oracle).lower():
            raise ValueError(f"population.oracle is {oracle}, but algo is {named}; give one of them, or the same twice")
        return {**keys, "algo": {**algo, "name": oracle}}

    @field_validator("env")
    @classmethod
    def _name_or_creator(cls, value: object) -> object:
        if not isinstance(value, str) and not callable(value):
            raise ValueError(
                f"expected a name, or a class or function that makes the env, but got an object of type "
                f"{type(value).__name__}. Give its class, or lambda config: ..."
            )
        return value

    @field_validator("algo", mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        """``algo: qmix`` is short for ``algo: {name: qmix}``."""
        if isinstance(value, str):
            return {"name": value}
        return value

    @model_validator(mode="after")
    def _resumable_ones_are_kept(self) -> Scenario:
        """The default, 2, goes with every keep_checkpoints; more than are kept would be a misunderstanding."""
        if self.keep_resumable > max(self.keep_checkpoints, 2):
            raise ValueError(
                f"keep_resumable is {self.keep_resumable}, but keep_checkpoints only {self.keep_checkpoints}: a checkpoint "
                "that is deleted cannot be resumed. Raise keep_checkpoints, or lower keep_resumable"
            )
        return self

    @property
    def external_keys(self) -> ExternalTraining:
        """The section ``external``, or its defaults."""
        return self.external or ExternalTraining()

    @property
    def preset(self) -> Preset:
        return ALGOS[str(self.algo.get("name", "ppo"))]

    @property
    def algo_keys(self) -> dict[str, Any]:
        return {key: value for key, value in self.algo.items() if key != "name"}


def _given(keys: object, key: str) -> Any:
    """A key of what the user gave, which nobody has checked yet."""
    if not isinstance(keys, dict):
        return None
    return keys.get(key)


ALGO_KEYS: dict[str, set[str]] = {
    name: set(ALGOS[name].family.config.model_fields) for name in ALGOS
}  # fmt: skip
ALL_ALGO_KEYS: frozenset[str] = frozenset().union(*ALGO_KEYS.values())
MODEL_KEYS = frozenset(ModelConfig.model_fields)
MULTIAGENT_KEYS = frozenset(MultiAgentConfig.model_fields)
TOP_KEYS = frozenset(Scenario.model_fields)
