"""Which policies there are, which mapper sends agents to them, and which seats each may ever play."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from marl.data.episode import Episode
from marl.data.task import AgentID, AgentType, PolicyID
from marl.envs.groups import AgentGroups
from marl.errors import ConfigError, SpaceMismatchError, did_you_mean
from marl.mappers.mapper import (
    ByTable,
    Mapper,
    Patterns,
    Shared,
    UserFunction,
    by_group,
    check_known,
    level_of,
)
from marl.registry import load_object
from marl.scenario.config import MultiAgentConfig
from marl.trust import Sort

MAPPING = Sort("policy_mapping_fn", creators=True)
NAMED = ("shared", "per_agent", "by_group", "levels")
PROBES = 16  # trial episodes for a user's function whose answers cannot be known in advance


def example_agent(seat_name: str) -> AgentID:
    """An agent id for a seat: itself, or ``car_0`` for the seat ``car_*[3]``."""
    return seat_name.split("[")[0].replace("*", "0") if "*" in seat_name else seat_name


def choose(config: MultiAgentConfig, groups: AgentGroups, kinds: Sequence[AgentType]) -> tuple[list[PolicyID], Mapper]:
    """Policy ids and the mapper, filled in where the scenario leaves one or both out."""
    policies = list(config.policies)
    if config.policy_mapping_fn is None:
        return _default(policies, kinds, groups)
    agents = [example_agent(name) for kind in kinds for name in kind.agents]
    policies = policies or _implied(config.policy_mapping_fn, agents, groups)
    return policies, build_mapper(config.policy_mapping_fn, policies, groups)


def build_mapper(mapping: Any, policies: Sequence[PolicyID], groups: AgentGroups) -> Mapper:
    """The mapper behind ``policy_mapping_fn``."""
    if isinstance(mapping, Mapping):
        return Patterns(mapping)
    if mapping == "shared":
        return Shared(policies)
    if mapping == "per_agent":
        return ByTable(
            "per_agent",
            lambda agent: agent if agent in policies else None,
            "Add a policy of the agent's name.",
        )
    if mapping == "by_group":
        return by_group(groups.group_of)
    if mapping == "levels":
        return ByTable("levels", level_of, "")
    if isinstance(mapping, str):
        if ":" not in mapping:
            raise ConfigError(
                f"unknown policy_mapping_fn {mapping!r}.{did_you_mean(mapping, NAMED)} Expected {', '.join(NAMED)}, "
                "patterns such as "
                '{"car_*": cars}, or package.module:function.'
            )
        found = load_object(mapping, MAPPING)
        if not callable(found):
            raise ConfigError(f"policy_mapping_fn {mapping!r} is a {type(found).__name__}; expected a function.")
        return UserFunction(found, policies, mapping)
    return UserFunction(mapping, policies, getattr(mapping, "__name__", "function"))


def _implied(mapping: Any, agents: Sequence[AgentID], groups: AgentGroups) -> list[PolicyID]:
    """Policies that a mapping names by itself."""
    if isinstance(mapping, Mapping):
        named = [[v] if isinstance(v, str) else v for v in mapping.values()]
        return list(dict.fromkeys(policy for group in named for policy in group))
    if mapping == "shared":
        return ["default_policy"]
    if mapping == "per_agent":
        return list(dict.fromkeys(agents))
    if mapping == "by_group":
        return list(groups.members)
    if mapping == "levels":
        return list(dict.fromkeys(level_of(agent) for agent in agents))
    if isinstance(mapping, str) and ":" not in mapping:
        build_mapper(mapping, [], groups)  # says that there is no such name
    raise ConfigError(
        "a policy_mapping_fn that is a function needs multiagent.policies: list the ids that it may return."
    )


def _default(
    policies: list[PolicyID], kinds: Sequence[AgentType], groups: AgentGroups
) -> tuple[list[PolicyID], Mapper]:
    """Without a mapping: agents with equal spaces share a policy."""
    by_kind = ["default_policy"] if len(kinds) == 1 else [kind.name.rstrip("_*") for kind in kinds]
    agents = {example_agent(name): i for i, kind in enumerate(kinds) for name in kind.agents}
    if len(policies) == 1 and len(kinds) == 1:
        return policies, Shared(policies)
    if not policies or set(policies) == set(by_kind):
        table = {agent: by_kind[i] for agent, i in agents.items()}
        patterns = {
            name.split("[")[0]: by_kind[i] for i, kind in enumerate(kinds) for name in kind.agents if "*" in name
        }
        if patterns:
            return by_kind, Patterns(patterns)
        return by_kind, ByTable("equal spaces", table.get, "")
    if policies and set(policies) == set(groups.members):
        return policies, by_group(groups.group_of)
    if set(policies) == set(agents):
        return policies, build_mapper("per_agent", policies, groups)
    raise ConfigError(
        f"there are the policies {', '.join(policies)} but no policy_mapping_fn, so nobody knows who plays whom. Set "
        'policy_mapping_fn to per_agent, by_group, patterns such as {"agent_*": NAME}, or package.module:function.'
    )


def seats_of_policies(
    mapper: Mapper,
    policies: Sequence[PolicyID],
    kinds: Sequence[AgentType],
    evaluated: Mapping[PolicyID, frozenset[int]],
) -> dict[PolicyID, frozenset[int]]:
    """The seats that each policy may play in training; none for one that plays in evaluation alone (``evaluated``).

    Checks, before any step, that each policy's agents have equal spaces.
    """
    found = possible_seats(mapper, policies, kinds)
    for policy, seats in found.items():
        if seats or not evaluated.get(policy):
            _check_spaces(policy, seats, kinds, mapper)
    return found


def possible_seats(
    mapper: Mapper, policies: Sequence[PolicyID], kinds: Sequence[AgentType]
) -> dict[PolicyID, frozenset[int]]:
    """The seats to which the mapper may send each policy; every policy that it names has to exist."""
    found: dict[PolicyID, set[int]] = {policy: set() for policy in policies}
    for kind in kinds:
        for seat, name in zip(range(kind.seats.start, kind.seats.stop), kind.agents, strict=True):
            for policy in candidates(mapper, example_agent(name)):
                check_known(mapper, name, policy, policies)
                found[policy].add(seat)
    if len(kinds) == 1 and isinstance(mapper, UserFunction):  # any policy may turn up for any agent
        return {policy: frozenset(range(kinds[0].size)) for policy in policies}
    return {policy: frozenset(seats) for policy, seats in found.items()}


def candidates(mapper: Mapper, agent: AgentID) -> Sequence[PolicyID]:
    """Policies that the mapper may send the agent to; a user's function is tried out."""
    if not isinstance(mapper, UserFunction):
        return mapper.candidates(agent)
    return list(dict.fromkeys(mapper(agent, Episode(probe, probe)) for probe in range(PROBES)))


def _check_spaces(policy: PolicyID, seats: frozenset[int], kinds: Sequence[AgentType], mapper: Mapper) -> None:
    if not seats:
        raise ConfigError(
            f"policy {policy!r} plays nobody: {mapper.name!r} never chooses it. Take it out of policies, or map an "
            "agent to it, here or in evaluation.policy_mapping_fn."
        )
    played = [kind for kind in kinds if any(kind.seats.start <= s < kind.seats.stop for s in seats)]
    if len(played) > 1:
        a, b = played[0], played[1]
        raise SpaceMismatchError(
            f"{mapper.name!r} sends {a.agents[0]!r} ({a.observation_space}, {a.action_space}) and {b.agents[0]!r} "
            f"({b.observation_space}, {b.action_space}) to the same policy {policy!r}, but one policy plays agents "
            "with equal spaces. Give them a policy each."
        )
