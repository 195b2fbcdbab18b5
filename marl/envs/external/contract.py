"""Who plays in an external env and what they see and do: the keys of its ``env_config``, or what its first client says."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from gymnasium import spaces
from pydantic import Field, NonNegativeInt, PositiveInt, ValidationError, field_validator

from marl.config import Config, explain
from marl.data.actions import columns_of
from marl.data.space_json import space_from_json
from marl.data.task import AgentID, AnySpace
from marl.envs.base import ALL, EnvContext
from marl.errors import UserError

EXTERNAL = "external"  # the env's name


class ExternalAgent(Config):
    """One agent, or all agents of a pattern such as ``car_*``."""

    observation_space: dict[str, Any] = Field(
        description="What it sees, as JSON: {type: Box, low: -1, high: 1, shape: [4], dtype: float32}; docs/wire.md has all."
    )
    action_space: dict[str, Any] = Field(description="What it does, as JSON: {type: Discrete, n: 2, start: 0}.")
    action_mask: bool = Field(
        False, description="Its messages carry an action_mask: which of its Discrete actions are allowed now."
    )
    group: str | None = Field(None, description="Agents of one group are a team (multiagent.groups may say the same).")
    max: PositiveInt = Field(1, description="How many agents of the pattern can be there at once.")

    @field_validator("observation_space", "action_space")
    @classmethod
    def _can_be_built(cls, plain: dict[str, Any]) -> dict[str, Any]:
        try:
            space_from_json(plain)
        except (UserError, KeyError, TypeError, ValueError, AssertionError, OverflowError) as error:
            raise ValueError(f"{plain} is not a space ({error}). docs/wire.md lists all") from error
        return plain


def unclear_names(names: Collection[str]) -> str:
    """What is wrong with the ids and patterns of a contract, in a sentence; empty: nothing."""
    patterns = [name for name in names if "*" in name]
    # Envs read brackets and, beside patterns, question marks as parts of a pattern.
    signs = {"[", "?"} if patterns else {"["}
    for name in names:
        if _is_no_id(name, signs):
            return (
                f"agent {name!r:.80}: an id has none of the signs {' '.join(sorted(signs))} and at most one *, which makes it "
                "a pattern. Rename it."
            )
    for pattern in patterns:
        twice = _ids_of(pattern, names)
        if twice:
            return (
                f"agent {twice[0]!r:.80} also fits the pattern {pattern!r:.80}, so its spaces are unclear. Rename one."
            )
    return ""


def _is_no_id(name: str, signs: set[str]) -> bool:
    stars = name.count("*")
    return name == ALL or stars > 1 or not signs.isdisjoint(name)


def _ids_of(pattern: str, names: Collection[str]) -> list[str]:
    """Names that are no patterns themselves and fit this one."""
    found = []
    for name in names:
        if "*" not in name and fits(name, pattern):
            found.append(name)
    return found


def fits(agent: AgentID, pattern: str) -> bool:
    """Whether an id belongs to a pattern such as ``car_*``."""
    before, _, after = pattern.partition("*")
    is_longer = len(agent) > len(before) + len(after)
    return is_longer and agent.startswith(before) and agent.endswith(after)


class ExternalConfig(Config):
    """Keys of the ``env_config`` of an external env."""

    agents: dict[str, ExternalAgent] | None = Field(
        None,
        description="Agents, or patterns of ids such as car_*, and their spaces. Default: what the first client says of them.",
    )
    state_size: NonNegativeInt = Field(
        0, description="Numbers of the global state that clients send with every step; 0: they send none."
    )

    @field_validator("agents")
    @classmethod
    def _names_are_clear(cls, agents: dict[str, ExternalAgent] | None) -> dict[str, ExternalAgent] | None:
        unclear = unclear_names(agents or {})
        if unclear:
            raise ValueError(unclear)
        return agents


class Contract:
    """Agents and their spaces, built once; the same space object each time it is asked for."""

    def __init__(self, agents: Mapping[str, ExternalAgent], state_size: int = 0) -> None:
        self.agents = dict(agents)
        self.state_size = state_size
        self.patterns = tuple(name for name in self.agents if "*" in name)
        self.possible_agents: tuple[AgentID, ...] = tuple(self.agents)
        self.max_agents: dict[str, int] = {}
        if (
            self.patterns
        ):  # an env knows all ids in advance, or none: beside a pattern a name is one of at most one agent
            self.possible_agents = ()
            self.max_agents = {name: agent.max for name, agent in self.agents.items()}
        self._seen: dict[str, AnySpace] = {}
        self._done: dict[str, AnySpace] = {}
        for name, agent in self.agents.items():
            seen, done = space_from_json(agent.observation_space), space_from_json(agent.action_space)
            if agent.action_mask and isinstance(done, spaces.Discrete | spaces.MultiDiscrete):
                mask = spaces.MultiBinary(columns_of(done).options)
                seen = spaces.Dict({"observation": seen, "action_mask": mask})
            self._seen[name], self._done[name] = seen, done

    @classmethod
    def of(cls, env_config: EnvContext | Mapping[str, Any]) -> Contract | None:
        """The contract that an ``env_config`` states; None where the first client is to say it."""
        try:
            config = ExternalConfig(**env_config)
        except ValidationError as error:
            raise explain(error, "env_config", [*ExternalConfig.model_fields, *ExternalAgent.model_fields]) from None
        if config.agents is None:
            return None
        return cls(config.agents, config.state_size)

    def name_of(self, agent: AgentID) -> str | None:
        """The entry of an agent: its own name, or the pattern that it fits; None for a stranger."""
        if agent in self._seen:
            return agent
        for pattern in self.patterns:
            if fits(agent, pattern):
                return pattern
        return None

    def observation_space(self, agent: AgentID) -> AnySpace:
        return self._seen[self._known(agent)]

    def action_space(self, agent: AgentID) -> AnySpace:
        return self._done[self._known(agent)]

    def _known(self, agent: AgentID) -> str:
        name = self.name_of(agent)
        if name is None:
            raise KeyError(agent)
        return name
