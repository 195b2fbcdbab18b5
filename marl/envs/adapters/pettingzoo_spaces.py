"""Spaces, observations and actions on their way between our envs and PettingZoo."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.data.task import AgentID, AnySpace
from marl.envs.base import Action, Obs
from marl.envs.vector.layout import MASK, obs_key
from marl.errors import EnvError

OBSERVATION = "observation"
ARRAYS = spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete


def shown_space(space: AnySpace) -> AnySpace:
    """A copy of the space with a generator of its own; beside a mask or state the observation is ``observation``."""
    if obs_key(space) == "obs":  # PettingZoo's wrappers look for the key `observation`
        assert isinstance(space, spaces.Dict)
        named: dict[str, AnySpace] = {}
        for key, part in space.spaces.items():
            if key == "obs":
                key = OBSERVATION
            named[key] = part
        space = spaces.Dict(named)
    return deepcopy(space)  # two tools that sample from one space would change each other's draws


def as_shown(space: AnySpace, value: Obs) -> Obs:
    """A copy of an observation in the form and types of a ``shown_space``."""
    if isinstance(space, spaces.Dict):
        if OBSERVATION in space.spaces and OBSERVATION not in value:
            value = {**value, OBSERVATION: value["obs"]}
        named: dict[str, Obs] = {}
        for key, inner in space.spaces.items():
            named[key] = as_shown(inner, value[key])
        return named
    if isinstance(space, spaces.Tuple):
        pairs = zip(space.spaces, value, strict=True)
        return tuple(as_shown(inner, part) for inner, part in pairs)
    if isinstance(space, spaces.Discrete):
        return space.dtype.type(value)
    if not isinstance(space, ARRAYS):
        return value
    array = np.array(value, space.dtype)
    if array.shape != space.shape:
        raise ValueError(f"its shape is {array.shape}, not {space.shape}")
    return array


def blank(space: AnySpace) -> Obs:
    """What stands for an observation that was never made: zeros, or what is nearest to them; every action is legal."""
    if isinstance(space, spaces.Dict):
        return _blank_dict(space)
    if isinstance(space, spaces.Tuple):
        parts = [blank(part) for part in space.spaces]
        return tuple(parts)
    if isinstance(space, spaces.Box):
        zeros = np.zeros(space.shape, space.dtype)
        return np.clip(zeros, space.low, space.high)
    if isinstance(space, spaces.MultiBinary):
        return np.zeros(space.shape, space.dtype)
    if isinstance(space, spaces.MultiDiscrete):
        return space.start.astype(space.dtype)
    if isinstance(space, spaces.Discrete):
        return space.dtype.type(space.start)
    other = deepcopy(space)  # texts, graphs and sequences have no zero: always the same example
    other.seed(0)
    return other.sample()


def _blank_dict(space: spaces.Dict) -> dict[str, Obs]:
    named: dict[str, Obs] = {}
    for key, part in space.items():
        if key == MASK:
            named[key] = np.ones(part.shape or (), np.int8)
        else:
            named[key] = blank(part)
    return named


def as_played(space: AnySpace, action: Action, agent: AgentID) -> Action:
    """An action in the types that the env expects; one outside of the space is an error."""
    try:
        played = _converted(space, action)
        fits = space.contains(played)
    except (KeyError, TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise EnvError(
            f"the action {action!r} of agent {agent!r} is not in its space {space}. Give one that action_space({agent!r}) "
            "contains; continuous ones may have to be clipped."
        )
    return played


def _converted(space: AnySpace, action: Any) -> Action:
    if isinstance(space, spaces.Discrete):
        number = int(action)
        is_whole = number == action  # 1.5 is no action, np.int32(1) is one
        return number if is_whole else action
    if isinstance(space, spaces.Tuple):
        pairs = zip(space.spaces, action, strict=True)
        return tuple(_converted(inner, part) for inner, part in pairs)
    if isinstance(space, spaces.Dict):
        named: dict[str, Action] = {}
        for key, inner in space.spaces.items():
            named[key] = _converted(inner, action[key])
        return named
    if isinstance(space, spaces.Box):
        return np.asarray(action, space.dtype)
    if not isinstance(space, ARRAYS):
        return action
    whole = np.asarray(action).astype(space.dtype)
    if np.array_equal(whole, action):
        return whole
    return action
