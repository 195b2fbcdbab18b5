"""Legal-action masks that come in the infos: put beside the observation, where every algorithm sees them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding

from marl.data.task import AnySpace
from marl.envs.adapters.envelopes import has_mask
from marl.envs.base import Info, Obs
from marl.envs.vector.layout import MASK


def with_mask(space: AnySpace, size: int) -> spaces.Dict:
    """The space of an observation and a mask of ``size`` actions beside it."""
    return spaces.Dict({"observation": space, MASK: spaces.MultiBinary(size)})


def beside_mask(obs: Obs, info: Info, size: int) -> Obs:
    """The observation and the mask of its info; without one everything is legal."""
    mask = info.get(MASK)
    if mask is None:
        mask = np.ones(size)
    return {"observation": obs, MASK: np.asarray(mask, np.int8)}


def mask_size(env: gym.Env[Any, Any]) -> int:
    """Size of the mask that a Gymnasium env gives in the info of a reset; 0 where it gives none.

    Only a flat mask with one entry per action is one. What else is called so stays an ordinary info. One reset finds out;
    it leaves no seed behind.
    """
    acts = env.action_space
    if isinstance(acts, spaces.Discrete):
        size = int(acts.n)
    elif isinstance(acts, spaces.MultiDiscrete):
        size = int(acts.nvec.sum())
    else:
        return 0
    if has_mask(env.observation_space, acts):
        return 0
    try:
        _, info = env.reset(seed=0)
        mask: Any = info.get(MASK)
        env.np_random, _ = seeding.np_random()
    except Exception:  # the caller's own reset fails likewise, and is told where
        return 0
    try:
        shape = np.shape(mask)
    except ValueError:  # parts of different lengths
        return 0
    return size if shape == (size,) else 0
