"""Which policies there are, which mapper sends agents to them, and which seats each may ever play."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from glob import escape
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
    if "*" not in seat_name:
        return seat_name
    pattern = seat_name.split("[")[0]
    return pattern.replace("*", "0")


def _example_agents(kinds: Sequence[AgentType]) -> list[AgentID]:
    """One for every seat, in the order of the seats."""
    agents: list[AgentID] = []
    for kind in kinds:
        agents += map(example_agent, kind.agents)
    return agents


def choose(config: MultiAgentConfig, groups: AgentGroups, kinds: Sequence[AgentType]) -> tuple[list[PolicyID], Mapper]:
    """Policy ids and the mapper, filled in where the scenario leaves one or both out."""
    policies = list(config.policies)
    if config.policy_mapping_fn is None:
        return _default(policies, kinds, groups)
    if not policies:
        policies = _implied(config.policy_mapping_fn, _example_agents(kinds), groups)
    return policies, build_mapper(config.policy_mapping_fn, policies, groups)


def build_mapper(mapping: Any, policies: Sequence[PolicyID], groups: AgentGroups) -> Mapper:
    """The mapper behind ``policy_mapping_fn``."""
    if isinstance(mapping, Mapping):
        return Patterns(mapping)
    if not isinstance(mapping, str):
        return UserFunction(mapping, policies, getattr(mapping, "__name__", "function"))
    match mapping:
        case "shared":
            return Shared(policies)
        case "per_agent":
            # A table, not a lambda: mappers travel to workers.
            own_policy = {policy: policy for policy in policies}
            return ByTable("per_agent", own_policy.get, "Add a policy of the agent's name.")
        case "by_group":
            return by_group(groups.group_of)
        case "levels":
            return ByTable("levels", level_of, "")
    return _users_function(mapping, policies)


def _users_function(name: str, policies: Sequence[PolicyID]) -> UserFunction:
    """The function behind ``package.module:function``."""
    if ":" not in name:
        raise ConfigError(
            f"unknown policy_mapping_fn {name!r}.{did_you_mean(name, NAMED)} Expected {', '.join(NAMED)}, "
            "patterns such as "
            '{"car_*": cars}, or package.module:function.'
        )
    found = load_object(name, MAPPING)
    if not callable(found):
        raise ConfigError(f"policy_mapping_fn {name!r} is a {type(found).__name__}; expected a function.")
    return UserFunction(found, policies, name)


def _implied(mapping: Any, agents: Sequence[AgentID], groups: AgentGroups) -> list[PolicyID]:
    """Policies that a mapping names by itself."""
    if isinstance(mapping, Mapping):
        return _named_by_patterns(mapping)
    match mapping:
        case "shared":
            return ["default_policy"]
        case "per_agent":
            return list(dict.fromkeys(agents))
        case "by_group":
            return list(groups.members)
        case "levels":
            levels = [level_of(agent) for agent in agents]
            return list(dict.fromkeys(levels))
    if isinstance(mapping, str) and ":" not in mapping:
        build_mapper(mapping, [], groups)  # says that there is no such name
    raise ConfigError(
        "a policy_mapping_fn that is a function needs multiagent.policies: list the ids that it may return."
    )


def _named_by_patterns(patterns: Mapping[str, str | list[PolicyID]]) -> list[PolicyID]:
    """All policies in the order in which they are first named; a pattern may have one, or several to draw from."""
    found: dict[PolicyID, None] = {}
    for named in patterns.values():
        if isinstance(named, str):
            found[named] = None
        else:
            found |= dict.fromkeys(named)
    return list(found)


def _default(
    policies: list[PolicyID], kinds: Sequence[AgentType], groups: AgentGroups
) -> tuple[list[PolicyID], Mapper]:
    """Without a mapping: agents with equal spaces share a policy."""
    by_kind = [kind.name.rstrip("_*") for kind in kinds]
    if len(kinds) == 1:
        by_kind = ["default_policy"]
        if len(policies) == 1:
            return policies, Shared(policies)
    if not policies or set(policies) == set(by_kind):
        return by_kind, _by_equal_spaces(by_kind, kinds)
    if set(policies) == set(groups.members):
        return policies, by_group(groups.group_of)
    if set(policies) == set(_example_agents(kinds)):
        return policies, build_mapper("per_agent", policies, groups)
    # Guessing on would send agents to the wrong policies without a word.
    raise ConfigError(
        f"there are the policies {', '.join(policies)} but no policy_mapping_fn, so nobody knows who plays whom. Set "
        'policy_mapping_fn to per_agent, by_group, patterns such as {"agent_*": NAME}, or package.module:function.'
    )


def _by_equal_spaces(by_kind: Sequence[PolicyID], kinds: Sequence[AgentType]) -> Mapper:
    """Sends the agents of each kind to the policy of that kind."""
    named: dict[AgentID, PolicyID] = {}
    patterns: dict[str, PolicyID] = {}
    for policy, kind in zip(by_kind, kinds, strict=True):
        for name in kind.agents:
            if "*" in name:
                patterns[name.split("[")[0]] = policy
            else:
                named[name] = policy
    # Agents that come and go have ids that a table cannot list. Those with a name go first, because it may fit a pattern.
    if patterns:
        return Patterns({escape(str(name)): policy for name, policy in named.items()} | patterns)
    return ByTable("equal spaces", named.get, "")


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
        only_evaluated = not seats and evaluated.get(policy)
        if not only_evaluated:
            _check_spaces(policy, seats, kinds, mapper)
    return found


def possible_seats(
    mapper: Mapper, policies: Sequence[PolicyID], kinds: Sequence[AgentType]
) -> dict[PolicyID, frozenset[int]]:
    """The seats to which the mapper may send each policy; every policy that it names has to exist."""
    found: dict[PolicyID, set[int]] = {policy: set() for policy in policies}
    for kind in kinds:
        seats = range(kind.first_seat, kind.first_seat + kind.size)
        for seat, name in zip(seats, kind.agents, strict=True):
            for policy in candidates(mapper, example_agent(name)):
                check_known(mapper, name, policy, policies)
                found[policy].add(seat)
    if isinstance(mapper, UserFunction) and len(kinds) == 1:
        # A few trial episodes prove nothing: any policy may turn up for any agent. With several kinds the trials have
        # to do, because a policy that could play every kind would be refused.
        everybody = frozenset(range(kinds[0].size))
        return dict.fromkeys(policies, everybody)
    return {policy: frozenset(own_seats) for policy, own_seats in found.items()}


def candidates(mapper: Mapper, agent: AgentID) -> Sequence[PolicyID]:
    """Policies that the mapper may send the agent to; a user's function is tried out."""
    if not isinstance(mapper, UserFunction):
        return mapper.candidates(agent)
    answers = [mapper(agent, Episode(probe, probe)) for probe in range(PROBES)]
    return list(dict.fromkeys(answers))


def _check_spaces(policy: PolicyID, seats: frozenset[int], kinds: Sequence[AgentType], mapper: Mapper) -> None:
    if not seats:
        raise ConfigError(
            f"policy {policy!r} plays nobody: {mapper.name!r} never chooses it. Take it out of policies, or map an "
            "agent to it, here or in evaluation.policy_mapping_fn."
        )
    played = []
    for kind in kinds:
        own_seats = range(kind.seats.start, kind.seats.stop)
        if not seats.isdisjoint(own_seats):
            played.append(kind)
    if len(played) > 1:
        a, b = played[0], played[1]
        raise SpaceMismatchError(
            f"{mapper.name!r} sends {a.agents[0]!r} ({a.observation_space}, {a.action_space}) and {b.agents[0]!r} "
            f"({b.observation_space}, {b.action_space}) to the same policy {policy!r}, but one policy plays agents "
            "with equal spaces. Give them a policy each."
        )
