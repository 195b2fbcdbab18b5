"""Legal-action masks that come in the infos: put beside the observation, where every algorithm sees them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding

from marl.data.task import AnySpace
from marl.envs.base import Info, Obs
from marl.envs.vector.layout import MASK, inner_space


def with_mask(space: AnySpace, size: int) -> spaces.Dict:
    """The space of an observation and a mask of ``size`` actions beside it."""
    return spaces.Dict({"observation": space, MASK: spaces.MultiBinary(size)})


def beside_mask(obs: Obs, info: Info, size: int) -> Obs:
    """The observation and the mask of its info; without one everything is legal."""
    mask = info.get(MASK)
    return {"observation": obs, MASK: np.ones(size, np.int8) if mask is None else np.asarray(mask, np.int8)}


def mask_size(env: gym.Env[Any, Any]) -> int:
    """Size of the mask that a Gymnasium env gives in the info of a reset; 0 where it gives none.

    Only a flat mask with one entry per action is one. What else is called so stays an ordinary info. One reset finds out;
    it leaves no seed behind.
    """
    acts = env.action_space
    if not isinstance(acts, spaces.Discrete | spaces.MultiDiscrete) or inner_space(env.observation_space)[1]:
        return 0
    try:
        mask: Any = env.reset(seed=0)[1].get(MASK)
        env.np_random = seeding.np_random()[0]
    except Exception:  # the caller's own reset fails likewise, and is told where
        return 0
    size = int(acts.n) if isinstance(acts, spaces.Discrete) else int(acts.nvec.sum())
    try:
        return size if np.shape(mask) == (size,) else 0
    except ValueError:  # parts of different lengths
        return 0
