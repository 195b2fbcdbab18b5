"""From a scenario to everything that a run is built from. All checks happen here, before any step or file."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from marl.algos.plan import LearnerPlan, Role, plan_learners
from marl.data.task import GroupID, PolicyID, Task
from marl.envs.external.contract import EXTERNAL
from marl.envs.families import added_families
from marl.envs.groups import AgentGroups
from marl.envs.registry import ENVS
from marl.envs.wrappers import WRAPPERS
from marl.errors import ConfigError, SpaceMismatchError, did_you_mean
from marl.mappers.mapper import Mapper
from marl.policies.config import PolicySpec
from marl.policies.custom import classes_used
from marl.populations.layout import PopulationLayout
from marl.registry import import_module
from marl.rollout.config import RolloutConfig, RolloutSpec
from marl.scenario.collection import check_overlap, collects_asynchronously, describe_collection
from marl.scenario.config import Scenario
from marl.scenario.env import EnvFacts, evaluation_recipe, inspect_env
from marl.scenario.external import check_external, check_learners, is_external, with_program
from marl.scenario.policy_entries import PolicyEntry, parse_entry, policy_spec
from marl.scenario.population import casting, check_plans, find_stage, mixtures_of
from marl.scenario.routing import build_mapper, possible_seats, seats_of_policies
from marl.scenario.run_summary import describe_run
from marl.scenario.stages import describe_stages, stage_envs, stages_of
from marl.scenario.unused_keys import check_policy_keys, check_run_keys
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
    server: Any = None  # of an external env whose first client has said who plays

    @property
    def policies(self) -> Mapping[PolicyID, PolicySpec]:
        return self.rollout.policies

    @property
    def proposed_mapper(self) -> Mapper:
        """Who plays whom in what the run proposes to play: the answers of a population, else as in training."""
        if self.stage is not None:
            return self.stage.answers()
        return self.rollout.mapper


@dataclass
class _Draft:
    """What the steps of ``resolve`` hand on: who is in the env, who plays, who learns."""

    scenario: Scenario
    look: EnvFacts
    groups: AgentGroups
    stage: PopulationLayout | None
    # step 2: who plays
    policies: list[PolicyID]
    mapper: Mapper
    evaluation_mapper: Mapper | None
    evaluated: Mapping[PolicyID, frozenset[int]]  # seats in evaluation, where another mapper plays there
    seats: Mapping[PolicyID, frozenset[int]]  # in training
    # step 3: who learns
    roles: dict[PolicyID, Role] = field(default_factory=dict)
    specs: dict[PolicyID, PolicySpec] = field(default_factory=dict)
    task: Task = field(init=False)

    def plays(self, policy: PolicyID) -> frozenset[int]:
        """The seats of a policy: in training, or in evaluation if it plays there alone."""
        in_training = self.seats[policy]
        if in_training:
            return in_training
        return self.evaluated[policy]


def resolve(scenario: Scenario) -> Setup:
    """Resolve names, spaces, groups, policies, mapper and learners; raises a ``UserError`` for anything that does not fit.

    Four steps: look at the env, say who plays, say who learns, and put together what workers and learners are built from.
    """
    for module in scenario.imports:
        import_module(module, "imports")
    check_external(scenario)
    look = inspect_env(scenario)
    if look.program is not None:
        scenario = with_program(scenario)
    draft = _who_plays(scenario, look)
    _who_learns(draft)
    plans = _checked_plans(draft)
    rollout = _rollout_spec(draft)
    fragment, iteration_steps = _lengths(scenario, draft.roles)
    check_overlap(scenario, draft.roles, by_clients=rollout.env == EXTERNAL)
    asynchronous = collects_asynchronously(scenario, draft.roles)
    header = describe_run(scenario, draft.task, draft.mapper.name, draft.seats, plans, draft.roles, draft.look)
    header += describe_collection(scenario, draft.roles, asynchronous)
    header += describe_stages(stages_of(scenario))
    return Setup(
        scenario=scenario,
        task=draft.task,
        roles=draft.roles,
        plans=plans,
        rollout=rollout,
        fragment=fragment,
        iteration_steps=iteration_steps,
        header=header,
        asynchronous=asynchronous,
        stage=draft.stage,
    )


def _who_plays(scenario: Scenario, look: EnvFacts) -> _Draft:
    """Groups, populations, the policies and the seats that each of them plays, in training and in evaluation."""
    groups = AgentGroups(look.groups)
    stage = find_stage(scenario, look.groups, look.kinds)
    policies, mapper = casting(scenario, groups, look.kinds, stage)
    evaluation_mapper = _evaluation_mapper(scenario, policies, groups, stage)
    evaluated: Mapping[PolicyID, frozenset[int]] = {}
    if evaluation_mapper is not None:
        evaluated = possible_seats(evaluation_mapper, policies, look.kinds)
    seats = seats_of_policies(mapper, policies, look.kinds, evaluated)
    return _Draft(
        scenario=scenario,
        look=look,
        groups=groups,
        stage=stage,
        policies=policies,
        mapper=mapper,
        evaluation_mapper=evaluation_mapper,
        evaluated=evaluated,
        seats=seats,
    )


def _who_learns(draft: _Draft) -> None:
    """Each policy's algorithm and model, the task as learners see it, and the recipes of all policies."""
    entries: dict[PolicyID, PolicyEntry] = {}
    actors: dict[PolicyID, Role] = {}
    mixtures: Collection[PolicyID] = ()
    if draft.stage is not None:
        mixtures = draft.stage.mixtures
    for name in draft.policies:
        if name in mixtures:  # whose members are like the learners of their population
            continue
        entry = parse_entry(draft.scenario, name)
        entries[name] = entry
        if entry.preset is None:  # scripted
            continue
        config = entry.preset.configure(**entry.algo_keys)
        actors[name] = Role(entry.preset, config, entry.model, draft.plays(name))
        if draft.seats[name]:  # who only plays in evaluation never learns
            draft.roles[name] = actors[name]
    draft.task = _task(draft)
    for name, entry in entries.items():
        draft.specs[name] = policy_spec(draft.scenario, name, entry, actors.get(name), draft.plays(name), draft.task)
    check_policy_keys(actors, draft.specs, draft.look.kinds)
    if draft.stage is not None:
        draft.specs |= mixtures_of(draft.stage, draft.specs)


def _task(draft: _Draft) -> Task:
    """What learners may know of the game."""
    look = draft.look
    state_needed = any(role.config.needs_state for role in draft.roles.values())
    state_size = look.state_size
    if look.state_costs and not state_needed:
        state_size = 0
    groups = draft.groups.seats(look.kinds)
    if not groups and draft.stage is not None:
        groups = draft.stage.groups
    elif not groups:
        groups = _default_groups(draft.roles)
    return Task(look.kinds, state_size, groups)


def _checked_plans(draft: _Draft) -> tuple[LearnerPlan, ...]:
    """Which policies share a learner; everything that needs all policies is checked before."""
    scenario = draft.scenario
    _check_evaluation(draft.evaluated, draft.specs, draft.task)
    _check_units(scenario, draft.specs, draft.task)
    _check_trainable(scenario, draft.roles, draft.policies)
    check_run_keys(scenario, draft.roles, draft.specs, draft.task.kinds)
    if is_external(scenario) or draft.look.program is not None:
        check_learners(draft.roles)
    plans = tuple(plan_learners(draft.roles, draft.task))
    if draft.stage is not None:
        check_plans(draft.stage, plans)
    return plans


def _rollout_spec(draft: _Draft) -> RolloutSpec:
    """What every worker is built from."""
    scenario, look = draft.scenario, draft.look
    complete_episodes = _complete_episodes(scenario, draft.roles)
    evaluated_on = evaluation_recipe(scenario, look)
    # What was registered in this process is unknown to the processes of Ray, so it travels with the recipe.
    env_names = (scenario.env, scenario.evaluation.env)
    # Workers in other processes have not run the user's script, so what it registered goes along.
    envs = {}
    for name in map(str, env_names):
        if name in ENVS:
            envs[name] = ENVS[name]
    wrappers = {}
    for used in look.wrappers:
        if used.name in WRAPPERS:
            wrappers[used.name] = WRAPPERS[used.name]
    env, env_config = scenario.env, scenario.env_config
    if look.program is not None:  # to workers it is an env whose steps are reported, by whomever
        env, env_config = EXTERNAL, look.program.contract()
    rollout_keys = {key: getattr(scenario, key) for key in RolloutConfig.model_fields}
    return RolloutSpec(
        env=env,
        env_config=env_config,
        wrappers=look.wrappers,
        task=draft.task,
        policies=draft.specs,
        mapper=draft.mapper,
        seed=scenario.seed,
        config=RolloutConfig(**rollout_keys),
        complete_episodes=complete_episodes,
        evaluation_mapper=draft.evaluation_mapper,
        evaluation_recipe=evaluated_on,
        imports=tuple(scenario.imports),
        torch_threads=scenario.torch_threads,
        registered=envs,
        registered_families=added_families(env_names),
        registered_wrappers=wrappers,
        registered_classes=classes_used(spec.model for spec in draft.specs.values()),
        teams=draft.stage.teams if draft.stage is not None else None,
        stages=stage_envs(scenario, look, draft.task, evaluated_on),
        evaluation_takes_tasks=scenario.evaluation.env is None,
        trust=current(),
    )


def _check_units(scenario: Scenario, specs: Mapping[PolicyID, PolicySpec], task: Task) -> None:
    """Policies whose coordinates end in a tanh need them stretched to the bounds of the space."""
    if scenario.normalize_actions:
        return
    for name, spec in specs.items():
        kind = task.kinds[spec.kind]
        if spec.acts in ("deterministic", "squashed") and kind.columns.bounded.any():
            raise ConfigError(
                f"normalize_actions is false, but policy {name!r} gives every bounded coordinate of {kind.action_space} as a "
                "number from -1 to 1, which has to be stretched to the bounds. Drop normalize_actions, or use ppo or a2c."
            )


def _default_groups(roles: Mapping[PolicyID, Role]) -> dict[GroupID, tuple[int, ...]]:
    """Without groups, algorithms that look at one get the group of everybody that they play."""
    seats: set[int] = set()
    for role in roles.values():
        if role.config.looks_at_groups:
            seats |= role.seats
    if not seats:
        return {}
    return {"all": tuple(sorted(seats))}


def _check_trainable(scenario: Scenario, roles: Mapping[PolicyID, Role], policies: list[PolicyID]) -> None:
    """Policies that are named have to be there; those of ``policies_to_train`` have to learn."""
    wanted = scenario.multiagent.policies_to_train
    if isinstance(wanted, list):  # a function is asked in each round
        for name in wanted:
            _check_exists(name, policies, "policies_to_train")
            if name not in roles:
                raise ConfigError(
                    f"policies_to_train names {name!r}, which is scripted or plays in evaluation alone, so it cannot learn. "
                    "Take it out."
                )
    for name in scenario.load:
        _check_exists(name, policies, "load")


def _check_exists(name: PolicyID, policies: list[PolicyID], where: str) -> None:
    if name not in policies:
        raise ConfigError(
            f"{where} names {name!r}, which does not exist. Policies: "
            f"{', '.join(policies)}.{did_you_mean(name, policies)}"
        )


def _complete_episodes(scenario: Scenario, roles: Mapping[PolicyID, Role]) -> bool:
    """Whether rounds end with whole episodes, as a learner or the scenario asks for."""
    for name, role in roles.items():
        if not role.config.needs_whole_episodes:
            continue
        if scenario.batch_mode == "truncate_episodes":
            raise ConfigError(
                f"policy {name!r} learns by {role.preset.name}, which needs whole episodes, but batch_mode is "
                "truncate_episodes. "
                "Drop batch_mode, or use a2c or ppo."
            )
        return True
    return scenario.batch_mode == "complete_episodes"


def _evaluation_mapper(
    scenario: Scenario, policies: list[PolicyID], teams: AgentGroups, stage: PopulationLayout | None
) -> Mapper | None:
    """Who plays during evaluation; None: the same as in training. Populations play their answers."""
    mapping = scenario.evaluation.policy_mapping_fn
    if mapping is not None:
        return build_mapper(mapping, policies, teams)
    if stage is None:
        return None
    return stage.answers()


def _check_evaluation(
    evaluated: Mapping[PolicyID, frozenset[int]], specs: Mapping[PolicyID, PolicySpec], task: Task
) -> None:
    """Every policy must be sent the kind of agents that it plays in training, or else one kind alone."""
    sent: list[tuple[int, PolicyID]] = []
    for policy, seats in evaluated.items():
        for seat in seats:
            sent.append((seat, policy))
    for seat, policy in sorted(sent):  # the first agent is named, whatever the order of the policies
        if task.kind_of(seat) != specs[policy].kind:
            raise SpaceMismatchError(
                f"evaluation.policy_mapping_fn sends {task.seat_names[seat]!r} to policy {policy!r}, which plays "
                f"agents like {task.kinds[specs[policy].kind].agents[0]!r}. Send it agents of the same kind."
            )


def _lengths(scenario: Scenario, roles: Mapping[PolicyID, Role]) -> tuple[int, int]:
    """Steps of each copy per round, and env steps per iteration."""
    batches = [role.config.train_batch_size for role in roles.values() if role.preset.family.on_policy]
    iteration_steps = scenario.timesteps_per_iteration
    if iteration_steps is None:
        iteration_steps = max(batches, default=1_000)
    fragment = scenario.rollout_fragment_length
    if fragment != "auto":
        return fragment, iteration_steps
    if not batches:
        return 4, iteration_steps
    # The smallest batch is full after one round, so no on-policy learner trains on rows of older weights.
    copies = max(1, scenario.num_workers) * scenario.num_envs_per_worker
    return math.ceil(min(batches) / copies), iteration_steps
