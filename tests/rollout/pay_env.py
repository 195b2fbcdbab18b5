"""An env whose rewards are known: it pays 5, -3, 0.5 and 0 in turn, and ends after four steps."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

PAYS = (5.0, -3.0, 0.5, 0.0)


class PayEnv(gym.Env[Any, Any]):
    def __init__(self, **config: Any) -> None:
        self.config = config
        self.observation_space = spaces.Box(-10, 10, (2,), np.float32)
        self.action_space = spaces.Discrete(3)

    def _seen(self) -> Any:
        return np.array([self.t, -self.t], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        return self._seen(), PAYS[self.t - 1], self.t == len(PAYS), False, {}
