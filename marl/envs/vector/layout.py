"""Which agents a dict env has, sorted into kinds of equal spaces, and how their values become rows of arrays."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from os.path import commonprefix
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces

from marl.data.task import AgentID, AgentType, AnySpace, Array, number_seats
from marl.envs.base import ENV_STATE, MultiAgentEnv, Obs
from marl.errors import EnvError

MASK = "action_mask"
Encoder: TypeAlias = Callable[[Obs], Any]


def kinds_of(env: MultiAgentEnv) -> tuple[AgentType, ...]:
    """Agents with equal spaces are one kind, in the order in which the env names them."""
    seats = _seats(env)
    if not seats:
        raise EnvError(
            f"{type(env).__name__} names no agents. Set possible_agents = ('a', 'b'), or, where ids are not known in "
            "advance, max_agents = {'car_*': 50}."
        )
    found: list[tuple[AnySpace, AnySpace, bool]] = []
    agents: list[list[AgentID]] = []
    for name, example in seats:
        observation, masked = inner_space(env.observation_space(example))
        seen = (observation, env.action_space(example), masked)
        if seen not in found:
            found.append(seen)
            agents.append([])
        agents[found.index(seen)].append(name)
    kinds = []
    for name, mine, (observation, action, masked) in zip(kind_names(agents), agents, found, strict=True):
        kinds.append(AgentType(name, tuple(mine), observation, action, masked))
    return number_seats(kinds)


def _seats(env: MultiAgentEnv) -> list[tuple[AgentID, AgentID]]:
    """Name of each seat and an agent id to ask the spaces with."""
    _check_ids(env)
    if env.possible_agents:
        return [(agent, agent) for agent in env.possible_agents]
    seats: list[tuple[AgentID, AgentID]] = []
    for pattern, count in env.max_agents.items():
        example = pattern.replace("*", "0")
        if "*" in pattern:
            seats += [(f"{pattern}[{i}]", example) for i in range(count)]
        elif count == 1:
            seats.append((pattern, example))
        else:
            raise EnvError(
                f"max_agents gives {pattern!r} {count} seats, but without a * it is the id of one agent. "
                f"Write {pattern + '_*'!r}, or 1."
            )
    return seats


def _check_ids(env: MultiAgentEnv) -> None:
    """Ids are texts. Brackets number the seats of a pattern, and a star makes one, so ids go without them."""
    for place, ids, reserved in (("possible_agents", env.possible_agents, "*["), ("max_agents", env.max_agents, "[")):
        for agent in ids:
            if not isinstance(agent, str):
                raise EnvError(
                    f"{type(env).__name__}: {place} names {agent!r} of the type {type(agent).__name__}. Agent ids are "
                    f"texts: write {f'agent_{agent}'!r}, in observations and rewards too."
                )
            if any(sign in agent for sign in reserved):
                raise EnvError(
                    f"{type(env).__name__}: {place} names {agent!r}, but {' and '.join(reserved)} in an id are read as a "
                    f"pattern. Rename the agent, for example {re.sub(r'[^a-zA-Z0-9]+', '_', agent).strip('_')!r}."
                )


def kind_names(teams: Sequence[Sequence[AgentID]]) -> list[str]:
    """A name per kind: the common prefix of its ids without digits and underscores at the end."""
    if len(teams) == 1:
        return ["agent"]
    names: list[str] = []
    for agents in teams:
        beginnings = [str(agent).split("*")[0] for agent in agents]
        prefix = commonprefix(beginnings)  # noqa: RUF071 - of ids, letter by letter
        name = prefix.rstrip("_-0123456789") or str(agents[0])
        if name in names:
            name = f"{name}_{len(names)}"
        names.append(name)
    return names


def pattern_of(agent: AgentID, patterns: Sequence[str]) -> str | None:
    """The first pattern that matches the id."""
    for pattern in patterns:
        if fnmatchcase(str(agent), pattern):
            return pattern
    return None


def inner_space(space: AnySpace) -> tuple[AnySpace, bool]:
    """The space of the observation proper, and whether a legal-action mask comes with it.

    A Dict space with ``action_mask`` or ``state`` beside ``observation`` or ``obs`` is an envelope; every other Dict
    is an observation.
    """
    if not isinstance(space, spaces.Dict):
        return space, False
    key, parts = obs_key(space), space.spaces
    if key is None:
        return space, False
    return parts[key], MASK in parts


def state_width(given: Sequence[AnySpace]) -> int:
    """Size of the global state that comes inside the observations; 0 where it does not."""
    for space in given:
        if obs_key(space) is None:
            continue
        assert isinstance(space, spaces.Dict)
        if ENV_STATE in space.spaces:
            return int(spaces.flatdim(space.spaces[ENV_STATE]))
    return 0


def obs_key(space: AnySpace) -> str | None:
    """Key of the observation proper inside an envelope, or None."""
    if not isinstance(space, spaces.Dict):
        return None
    parts = space.spaces
    is_envelope = MASK in parts or ENV_STATE in parts
    if not is_envelope:
        return None
    for key in ("observation", "obs"):
        if key in parts:
            return key
    return None


def encoder(space: AnySpace) -> Encoder:
    """From an observation as the env gives it to something that fits a row of ``obs_width`` numbers.

    Choices count from 0. What is not in the space raises one of the errors of Python, or gives a row that does not fit.
    """
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        return lambda obs: (_whole(obs) - start,)
    if isinstance(space, spaces.MultiDiscrete) and space.start.any():
        first = space.start.reshape(-1)
        return lambda obs: np.asarray(obs).reshape(-1) - first
    if isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete):
        if len(space.shape) == 1:
            return lambda obs: obs
        return lambda obs: np.asarray(obs).reshape(-1)
    return _flattener(space)


def _whole(value: Any) -> int:
    number = int(value)
    if number != value:
        raise ValueError(f"{value!r} is no whole number")
    return number


def _flattener(space: AnySpace) -> Encoder:
    """Floats, choices as one-hot: what ``spaces.flatten`` gives, without its look-ups and without wrapping numbers around.

    Bytes of images stay 0 .. 255 here, as the bounds of the space say; the network's ``Features`` scale them.
    """
    if isinstance(space, spaces.Tuple):
        return _tuple_flattener(space)
    if isinstance(space, spaces.Dict):
        return _dict_flattener(space)
    if isinstance(space, spaces.Discrete):
        pick = _one_hot(np.array([space.n]), np.array([space.start]))
        return lambda obs: pick(np.array([_whole(obs)]))
    if isinstance(space, spaces.MultiDiscrete):
        return _one_hot(space.nvec.reshape(-1), space.start.reshape(-1))
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return lambda obs: np.asarray(obs, np.float32).reshape(-1)
    return lambda obs: spaces.flatten(space, obs)


def _tuple_flattener(space: spaces.Tuple[Any]) -> Encoder:
    parts = [_flattener(part) for part in space.spaces]

    def flatten_all(obs: Obs) -> Array:
        rows = [flatten(value) for flatten, value in zip(parts, obs, strict=True)]
        return np.concatenate(rows)

    return flatten_all


def _dict_flattener(space: spaces.Dict) -> Encoder:
    named: dict[str, Encoder] = {}
    for key, part in space.spaces.items():
        named[key] = _flattener(part)

    def flatten_all(obs: Obs) -> Array:
        rows = [flatten(obs[key]) for key, flatten in named.items()]
        return np.concatenate(rows)

    return flatten_all


def _one_hot(sizes: Array, starts: Array) -> Encoder:
    ends = np.cumsum(sizes)
    firsts, width = ends - sizes, int(ends[-1])

    def pick(choices: Obs) -> Array:
        index = np.asarray(choices).reshape(-1) - starts
        fits = index.shape == sizes.shape and bool(((index >= 0) & (index < sizes)).all())
        if not fits:
            raise IndexError(f"{choices!r} is not among the options")
        row = np.zeros(width, np.float32)
        row[firsts + index] = 1.0  # fractions are no index
        return row

    return pick
