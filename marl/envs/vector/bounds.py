"""Between which values the numbers of a stored observation lie."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from marl.data.task import AgentType, Array

ROUNDING = 1e-6  # relative to the bound, and to 1 where it is smaller


def stored_bounds(kind: AgentType) -> tuple[Array, Array]:
    """Lowest and highest value of each number of a stored observation, a little wider than the space because of rounding."""
    space = kind.observation_space
    if isinstance(space, spaces.Discrete):
        return np.zeros(1), np.full(1, space.n - 1.0)
    if isinstance(space, spaces.MultiDiscrete):
        return np.zeros(kind.obs_width), space.nvec.reshape(-1) - 1.0
    flat = space if isinstance(space, spaces.Box) else spaces.flatten_space(space)
    if not isinstance(flat, spaces.Box):
        return np.full(kind.obs_width, -np.inf), np.full(kind.obs_width, np.inf)
    low, high = flat.low.reshape(-1).astype(np.float64), flat.high.reshape(-1).astype(np.float64)
    return low - ROUNDING * np.maximum(np.abs(low), 1), high + ROUNDING * np.maximum(np.abs(high), 1)
