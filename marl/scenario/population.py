"""A scenario's population: its players and policies, found before anything is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from marl.algos.plan import LearnerPlan
from marl.data.task import AgentID, AgentType, GroupID, PolicyID, Task
from marl.envs.groups import AgentGroups
from marl.errors import ConfigError, did_you_mean
from marl.mappers.mapper import Mapper
from marl.policies.config import PolicySpec
from marl.populations.layout import PopulationLayout, find_players, set_stage
from marl.scenario.config import Scenario
from marl.scenario.routing import choose


def find_stage(
    scenario: Scenario, groups: Mapping[GroupID, Sequence[AgentID]], kinds: Sequence[AgentType]
) -> PopulationLayout | None:
    """Players and populations, where the scenario has any."""
    if scenario.population is None:
        return None
    return set_stage(scenario.population, groups, kinds)


def casting(
    scenario: Scenario, teams: AgentGroups, kinds: Sequence[AgentType], stage: PopulationLayout | None
) -> tuple[list[PolicyID], Mapper]:
    """All policies and who plays whom in training."""
    if stage is None:
        return choose(scenario.multiagent, teams, kinds)
    for name, overrides in scenario.multiagent.policies.items():
        if name not in stage.learners:
            raise ConfigError(
                f"multiagent.policies has {name!r}, but the learners of this population are {', '.join(stage.learners)}."
                f"{did_you_mean(name, stage.learners)}"
            )
        if "scripted" in overrides:
            raise ConfigError(
                f"multiagent.policies.{name} is scripted, but the learners of a population learn. Drop `scripted`."
            )
    return [*stage.learners, *stage.mixtures], stage.matchmaking()


def mixtures_of(stage: PopulationLayout, specs: Mapping[PolicyID, PolicySpec]) -> dict[PolicyID, PolicySpec]:
    """Recipes of the mixtures: their members are policies like the side's learners, which therefore have to be alike."""
    for side in stage.sides:
        main = side.learners[0]
        for learner in side.learners:
            # Their first weights may differ: it is the shapes that have to fit.
            if replace(specs[learner], seed=0) == replace(specs[main], seed=0):
                continue
            raise ConfigError(
                f"population: the policies of {learner!r} and {main!r} are built differently, but both join the "
                f"population of {side.name!r}. Give them the same model and the same kind of algorithm."
            )
    found = {}
    for name, side in stage.mixtures.items():
        found[name] = replace(specs[side.learners[0]], population=side.name)
    return found


def check_plans(stage: PopulationLayout, plans: Sequence[LearnerPlan]) -> None:
    """Exploiters begin anew while others go on, so nobody may share a learner with them."""
    if not stage.config.make_kind().extra_learners:
        return
    for plan in plans:
        if len(plan.policies) > 1:
            raise ConfigError(
                f"population: {stage.config.kind} cannot train {' and '.join(plan.policies[:2])} together ({plan}): "
                "exploiters begin anew while the others go on. Use an algorithm without a mixer or joint critic and no shared "
                "layers, or psro."
            )


def players_of(scenario: Scenario, stage: PopulationLayout | None, task: Task) -> dict[str, tuple[AgentID, ...]]:
    """Who plays: the players of a population, else the scenario's groups and every agent outside of them."""
    if stage is not None:
        return dict(stage.players)
    groups = dict(scenario.multiagent.groups)
    for name in scenario.multiagent.joint:
        groups[name] = [name]  # it is played as one agent, which has the group's name
    return find_players({}, groups, task.seat_names)
