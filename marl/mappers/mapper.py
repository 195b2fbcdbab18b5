"""Who plays: from an agent to the policy that decides for it. This is ``policy_mapping_fn``."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from marl.data.agent_ids import as_number_too
from marl.data.episode import Episode
from marl.data.task import AgentID, GroupID, PolicyID
from marl.errors import ConfigError, UnknownPolicyError, UserError, did_you_mean, let_through


class Mapper(ABC):
    """Asked once per agent and episode."""

    name: str = "mapper"
    fixed: bool = True
    """Whether an agent always gets the same policy, so that nobody needs to ask again in the next episode."""

    @abstractmethod
    def __call__(self, agent: AgentID, episode: Episode) -> PolicyID:
        """The policy that plays this agent in this episode."""

    @abstractmethod
    def candidates(self, agent: AgentID) -> Sequence[PolicyID]:
        """All policies that may ever play this agent."""


class Shared(Mapper):
    """Everybody is played by the one policy."""

    name = "shared"

    def __init__(self, policies: Sequence[PolicyID]) -> None:
        if len(policies) != 1:
            raise ConfigError(
                f"policy_mapping_fn: shared needs exactly one policy, got {len(policies)} ({', '.join(policies)}). "
                'Use per_agent, by_group or patterns such as {"car_*": cars}.'
            )
        self.policy = policies[0]

    def __call__(self, agent: AgentID, episode: Episode) -> PolicyID:
        del agent, episode
        return self.policy

    def candidates(self, agent: AgentID) -> Sequence[PolicyID]:
        del agent
        return [self.policy]


class ByTable(Mapper):
    """Each agent has its policy: per agent, by group, by level, or by equal spaces."""

    def __init__(self, name: str, find: Callable[[AgentID], PolicyID | None], hint: str) -> None:
        self.name, self.find, self.hint = name, find, hint

    def __call__(self, agent: AgentID, episode: Episode) -> PolicyID:
        del episode
        return self.candidates(agent)[0]

    def candidates(self, agent: AgentID) -> Sequence[PolicyID]:
        policy = self.find(agent)
        if policy is None:
            raise UnknownPolicyError(f"mapper {self.name!r} knows no policy for agent {agent!r}. {self.hint}")
        return [policy]


class Patterns(Mapper):
    """The first pattern that matches the agent's id decides; a list of policies is drawn from anew in each episode."""

    name = "patterns"

    def __init__(self, patterns: Mapping[str, PolicyID | Sequence[PolicyID]]) -> None:
        self.patterns: dict[str, list[PolicyID]] = {}
        for pattern, policies in patterns.items():
            if isinstance(policies, str):
                policies = [policies]
            self.patterns[pattern] = list(policies)
        self.fixed = set(map(len, self.patterns.values())) <= {1}

    def __call__(self, agent: AgentID, episode: Episode) -> PolicyID:
        policies = self.candidates(agent)
        if len(policies) < 2:
            return policies[0]  # without a draw: an agent that has no choice must not change what others draw
        return policies[int(episode.rng.integers(len(policies)))]

    def candidates(self, agent: AgentID) -> Sequence[PolicyID]:
        # In the order of the scenario: a last "*" takes whoever is left.
        for pattern, policies in self.patterns.items():
            if fnmatchcase(str(agent), pattern):
                return policies
        raise UnknownPolicyError(
            f"no pattern of policy_mapping_fn matches agent {agent!r}. Patterns: {', '.join(self.patterns)}. Add one, "
            'or a last "*".'
        )


class UserFunction(Mapper):
    """A function ``(agent_id)``, ``(agent_id, episode)`` or ``(agent_id, episode, **kwargs)``."""

    fixed = False

    def __init__(self, function: Callable[..., Any], policies: Sequence[PolicyID], name: str) -> None:
        self.function, self.policies, self.name = function, policies, name
        # Told by what it takes, not by trying: a TypeError could as well come from inside of the function.
        parameters = inspect.signature(function).parameters.values()
        kinds = [one.kind for one in parameters if one.kind is not one.VAR_KEYWORD]
        self.takes_episode = len(kinds) > 1 or inspect.Parameter.VAR_POSITIONAL in kinds

    def __call__(self, agent: AgentID, episode: Episode) -> PolicyID:
        numbered = as_number_too(agent)
        given: tuple[Any, ...] = (numbered,)
        if self.takes_episode:
            given = (numbered, episode)
        try:
            policy: PolicyID = self.function(*given)
        except UserError:
            raise
        except BaseException as error:
            let_through(error)  # Ctrl-C and the like are no mistakes of the function
            raise ConfigError(
                f"policy_mapping_fn {self.name!r} failed for agent {agent!r}: {type(error).__name__}: {error}"
            ) from error
        return agent if policy is numbered else policy

    def candidates(self, agent: AgentID) -> Sequence[PolicyID]:
        """Unknown in advance: any policy may come out."""
        del agent
        return self.policies


def check_known(mapper: Mapper, agent: AgentID, policy: object, known: Sequence[PolicyID]) -> None:
    """Complain about a policy that does not exist."""
    if policy not in known:
        raise UnknownPolicyError(
            f"mapper {mapper.name!r} sent agent {agent!r} to policy {policy!r}, which does not exist. Known: "
            f"{', '.join(known)}.{did_you_mean(policy, known)}"
        )


def level_of(agent: AgentID) -> PolicyID:
    """Levels of a hierarchy by prefix: ``low_level_*``, ``mid_level_*``, everything else is ``top_level``."""
    for level in ("low_level", "mid_level"):
        if str(agent).startswith(f"{level}_"):
            return level
    return "top_level"


def by_group(group_of: Callable[[AgentID], GroupID | None]) -> Mapper:
    """Agents of a group are played by the policy of the group's name."""
    return ByTable("by_group", group_of, "Put the agent into a group, or use patterns.")
