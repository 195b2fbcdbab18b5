"""From a scenario to everything that a run is built from. All checks happen here, before any step or file."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from marl.algos.plan import LearnerPlan, Role, plan_learners
from marl.algos.presets import ALGOS, Preset
from marl.config import explain
from marl.data.task import GroupID, PolicyID, Task
from marl.envs.families import added_families
from marl.envs.groups import AgentGroups
from marl.envs.registry import ENVS
from marl.envs.wrappers import WRAPPERS
from marl.errors import ConfigError, SpaceMismatchError, did_you_mean
from marl.mappers.mapper import Mapper
from marl.policies.config import ExplorationConfig, ModelConfig, PolicySpec, ScriptedConfig
from marl.policies.custom import classes_used
from marl.populations.layout import PopulationLayout
from marl.registry import import_module
from marl.rollout.config import RolloutConfig, RolloutSpec
from marl.scenario.collection import collects_asynchronously, describe_collection
from marl.scenario.config import MODEL_KEYS, Overrides, Scenario
from marl.scenario.env import evaluation_recipe, inspect_env
from marl.scenario.population import casting, check_plans, find_stage, mixtures_of
from marl.scenario.rllib_keys import OLD_KEYS
from marl.scenario.routing import build_mapper, possible_seats, seats_of_policies
from marl.scenario.run_summary import describe_run
from marl.scenario.stages import describe_stages, stage_envs, stages_of
from marl.scenario.unused_keys import check_collecting
from marl.trust import current


@dataclass(frozen=True)
class Setup:
    """A scenario, resolved against its env."""

    scenario: Scenario
    task: Task
    roles: Mapping[PolicyID, Role]  # the learning policies
    plans: tuple[LearnerPlan, ...]
    rollout: RolloutSpec
    fragment: int  # steps of each copy per round
    iteration_steps: int
    header: tuple[str, ...]  # what the run says about itself
    asynchronous: bool = False  # workers play on while learners learn
    stage: PopulationLayout | None = None  # of a population

    @property
    def policies(self) -> Mapping[PolicyID, PolicySpec]:
        return self.rollout.policies


def resolve(scenario: Scenario) -> Setup:
    """Resolve names, spaces, groups, policies, mapper and learners; raises a ``UserError`` for anything that does not fit."""
    for module in scenario.imports:
        import_module(module, "imports")
    look = inspect_env(scenario)
    kinds, state_size, teams = look.kinds, look.state_size, AgentGroups(look.groups)
    stage = find_stage(scenario, look.groups, kinds)
    policies, mapper = casting(scenario, teams, kinds, stage)
    evaluation = _evaluation_mapper(scenario, policies, teams, stage)
    evaluated = possible_seats(evaluation, policies, kinds) if evaluation is not None else {}
    seats = seats_of_policies(mapper, policies, kinds, evaluated)
    mixtures = stage.mixtures if stage is not None else {}
    parsed = {name: _parse(scenario, name) for name in policies if name not in mixtures}
    actors = {
        name: Role(p.preset, p.preset.configure(**p.algo_keys), p.model, seats[name] or evaluated[name])
        for name, p in parsed.items() if p.preset is not None
    }  # fmt: skip
    roles = {name: role for name, role in actors.items() if seats[name]}  # who only plays in evaluation never learns
    groups = teams.seats(kinds) or (stage.groups if stage is not None else _default_groups(roles))
    if look.state_costs and not any(role.config.needs_state for role in roles.values()):
        state_size = 0
    task = Task(kinds, state_size, groups)
    specs = {
        name: _spec(scenario, name, p, actors.get(name), seats[name] or evaluated[name], task)
        for name, p in parsed.items()
    }
    specs |= mixtures_of(stage, specs) if stage is not None else {}
    _check_evaluation(evaluated, specs, task)
    _check_units(scenario, specs, task)
    _check_trainable(scenario, roles, policies)
    check_collecting(scenario, roles)
    plans = tuple(plan_learners(roles, task))
    if stage is not None:
        check_plans(stage, plans)
    complete = _complete_episodes(scenario, roles)
    evaluated_on = evaluation_recipe(scenario, look)
    rollout = RolloutSpec(
        env=scenario.env,
        env_config=scenario.env_config,
        wrappers=look.wrappers,
        task=task,
        policies=specs,
        mapper=mapper,
        seed=scenario.seed,
        config=RolloutConfig(**{key: getattr(scenario, key) for key in RolloutConfig.model_fields}),
        complete_episodes=complete,
        evaluation_mapper=evaluation,
        evaluation_recipe=evaluated_on,
        imports=tuple(scenario.imports),
        torch_threads=scenario.torch_threads,
        registered={name: ENVS[name] for name in map(str, (scenario.env, scenario.evaluation.env)) if name in ENVS},
        registered_families=added_families((scenario.env, scenario.evaluation.env)),
        registered_wrappers={w.name: WRAPPERS[w.name] for w in look.wrappers if w.name in WRAPPERS},
        registered_classes=classes_used(spec.model for spec in specs.values()),
        teams=stage.teams if stage is not None else None,
        stages=stage_envs(scenario, look, task, evaluated_on),
        evaluation_takes_tasks=scenario.evaluation.env is None,
        trust=current(),
    )
    fragment, iteration = _lengths(scenario, roles)
    asynchronous = collects_asynchronously(scenario, roles)
    header = describe_run(scenario, task, mapper.name, seats, plans, roles, look)
    header += describe_collection(scenario, roles, asynchronous) + describe_stages(stages_of(scenario))
    return Setup(scenario, task, roles, plans, rollout, fragment, iteration, header, asynchronous, stage)


@dataclass(frozen=True)
class _Parsed:
    """One entry of ``policies``, sorted."""

    preset: Preset | None  # None: scripted
    algo_keys: dict[str, Any]
    model: ModelConfig
    exploration: ExplorationConfig | None
    scripted: ScriptedConfig | None


def _parse(scenario: Scenario, name: PolicyID) -> _Parsed:
    """A policy's overrides on top of the scenario's keys; another algorithm starts from its own defaults."""
    given: Overrides = dict(scenario.multiagent.policies.get(name, {}))
    where = f"policies.{name}"
    try:
        scripted = given.pop("scripted", None)
        if scripted is not None:
            return _scripted(where, scripted, given)
        preset, algo_keys = scenario.preset, scenario.algo_keys
        other = given.pop("algo", None)
        if other is not None:
            other = _as_map(f"{where}.algo", {"name": other} if isinstance(other, str) else other)
            preset = ALGOS[str(other.pop("name", preset.name))]
            algo_keys = other if preset.name != scenario.preset.name else {**algo_keys, **other}
        explore = given.pop("exploration_config", None)
        model_keys = {key: given.pop(key) for key in list(given) if key in MODEL_KEYS}
        model = ModelConfig(**{**scenario.model.model_dump(), **model_keys})
        for key in ("lr", "entropy_coeff"):  # a constant of its own replaces an inherited schedule
            if key in given and f"{key}_schedule" not in given:
                algo_keys = {k: v for k, v in algo_keys.items() if k != f"{key}_schedule"}
        algo_keys = {**algo_keys, **given}
        preset.configure(**algo_keys)
        exploration = _inherited(scenario, preset)
        if explore is not None:
            exploration = ExplorationConfig(**_as_map(f"{where}.exploration_config", explore))
            _check_fits(exploration, preset, f"{where}.exploration_config")
        return _Parsed(preset, algo_keys, model, exploration, None)
    except ValidationError as error:
        known = {*preset.family.config.model_fields, *MODEL_KEYS, "algo", "scripted", "exploration_config"}
        raise explain(error, where, known, OLD_KEYS) from None


def _as_map(where: str, value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ConfigError(f"{where} = {value!r} ({type(value).__name__}) does not fit: expected keys and values.")
    return dict(value)


def _inherited(scenario: Scenario, preset: Preset) -> ExplorationConfig | None:
    """The scenario's exploration, where it fits the policy's algorithm."""
    config = scenario.exploration_config
    if config is None:
        return None
    if config.type in preset.family.explorations:
        return config
    if preset.name == scenario.preset.name:
        _check_fits(config, preset, "exploration_config")
    return None


def _check_fits(config: ExplorationConfig, preset: Preset, where: str) -> None:
    fits = preset.family.explorations
    if config.type not in fits:
        raise ConfigError(f"{where}.type {config.type} does not fit {preset.name}; expected {' or '.join(fits)}.")


def _scripted(where: str, scripted: object, rest: Overrides) -> _Parsed:
    if rest:
        raise ConfigError(
            f"{where} is scripted, so it cannot have {', '.join(rest)}. Put these under `scripted:` or drop them."
        )
    keys = _as_map(f"{where}.scripted", scripted if isinstance(scripted, Mapping) else {"name": scripted})
    try:
        config = ScriptedConfig(**keys)
    except ValidationError as error:
        raise explain(error, f"{where}.scripted", ScriptedConfig.model_fields) from None
    return _Parsed(None, {}, ModelConfig(), None, config)


def _spec(
    scenario: Scenario, name: PolicyID, parsed: _Parsed, role: Role | None, seats: frozenset[int], task: Task
) -> PolicySpec:
    kind = task.kind_of(min(seats))
    seed = zlib.crc32(f"{scenario.seed}/{name}".encode())
    if role is None:
        return PolicySpec("scripted", kind, scripted=parsed.scripted, seed=seed)
    together = any(len(seats & set(members)) > 1 for members in task.groups.values())
    auto = role.config.looks_at_groups and (
        together or (getattr(role.config, "critic_sees", "") == "all" and len(seats) > 1)
    )
    agent_id = auto if parsed.model.agent_id == "auto" else bool(parsed.model.agent_id)
    acts, options = role.preset.family.acts, role.config.acting
    exploration = parsed.exploration
    if exploration is None and role.preset.exploration:
        exploration = ExplorationConfig.model_validate({"type": role.preset.exploration})
    return PolicySpec(acts, kind, parsed.model, exploration, None, agent_id, seed, options)


def _check_units(scenario: Scenario, specs: Mapping[PolicyID, PolicySpec], task: Task) -> None:
    """Policies whose coordinates end in a tanh need them stretched to the bounds of the space."""
    for name, spec in specs.items():
        kind = task.kinds[spec.kind]
        if spec.acts in ("deterministic", "squashed") and kind.columns.bounded.any() and not scenario.normalize_actions:
            raise ConfigError(
                f"normalize_actions is false, but policy {name!r} gives every bounded coordinate of {kind.action_space} as a "
                "number from -1 to 1, which has to be stretched to the bounds. Drop normalize_actions, or use ppo or a2c."
            )


def _default_groups(roles: Mapping[PolicyID, Role]) -> dict[GroupID, tuple[int, ...]]:
    """Without groups, algorithms that look at one get the group of everybody that they play."""
    seats = {seat for role in roles.values() if role.config.looks_at_groups for seat in role.seats}
    return {"all": tuple(sorted(seats))} if seats else {}


def _check_trainable(scenario: Scenario, roles: Mapping[PolicyID, Role], policies: list[PolicyID]) -> None:
    wanted = scenario.multiagent.policies_to_train
    for name in wanted if isinstance(wanted, list) else ():
        if name not in policies:
            raise ConfigError(
                f"policies_to_train names {name!r}, which does not exist. Policies: "
                f"{', '.join(policies)}.{did_you_mean(name, policies)}"
            )
        if name not in roles:
            raise ConfigError(
                f"policies_to_train names {name!r}, which is scripted or plays in evaluation alone, so it cannot learn. "
                "Take it out."
            )
    for name in scenario.load:
        if name not in policies:
            raise ConfigError(
                f"load names {name!r}, which does not exist. Policies: "
                f"{', '.join(policies)}.{did_you_mean(name, policies)}"
            )


def _complete_episodes(scenario: Scenario, roles: Mapping[PolicyID, Role]) -> bool:
    needy = [name for name, role in roles.items() if role.config.needs_whole_episodes]
    if needy and scenario.batch_mode == "truncate_episodes":
        raise ConfigError(
            f"policy {needy[0]!r} learns by {roles[needy[0]].preset.name}, which needs whole episodes, but batch_mode is "
            "truncate_episodes. "
            "Drop batch_mode, or use a2c or ppo."
        )
    return bool(needy) or scenario.batch_mode == "complete_episodes"


def _evaluation_mapper(
    scenario: Scenario, policies: list[PolicyID], teams: AgentGroups, stage: PopulationLayout | None
) -> Mapper | None:
    """Who plays during evaluation; None: the same as in training. Populations play their answers."""
    mapping = scenario.evaluation.policy_mapping_fn
    if mapping is None:
        return stage.answers() if stage is not None else None
    return build_mapper(mapping, policies, teams)


def _check_evaluation(
    evaluated: Mapping[PolicyID, frozenset[int]], specs: Mapping[PolicyID, PolicySpec], task: Task
) -> None:
    """Every policy must be sent the kind of agents that it plays in training, or else one kind alone."""
    for seat, policy in sorted((seat, policy) for policy, seats in evaluated.items() for seat in seats):
        if task.kind_of(seat) != specs[policy].kind:
            raise SpaceMismatchError(
                f"evaluation.policy_mapping_fn sends {task.seat_names[seat]!r} to policy {policy!r}, which plays "
                f"agents like {task.kinds[specs[policy].kind].agents[0]!r}. Send it agents of the same kind."
            )


def _lengths(scenario: Scenario, roles: Mapping[PolicyID, Role]) -> tuple[int, int]:
    """Steps of each copy per round, and env steps per iteration."""
    batches = [role.config.train_batch_size for role in roles.values() if role.preset.family.on_policy]
    copies = max(1, scenario.num_workers) * scenario.num_envs_per_worker
    fragment = scenario.rollout_fragment_length
    if fragment == "auto":
        fragment = -(-min(batches) // copies) if batches else 4
    return fragment, scenario.timesteps_per_iteration or max(batches, default=1_000)
