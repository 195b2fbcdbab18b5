"""Like rware: a Gymnasium env with a Tuple of spaces, a list of rewards, one flag for all. Registers an id when imported."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Warehouse(gym.Env[Any, Any]):
    """Robots on a line; robot ``i`` is paid ``i + 1`` for moving right."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(self, n_agents: int = 2, length: int = 6, says_how_many: bool = True) -> None:
        self.robots, self.length = n_agents, length
        if says_how_many:
            self.n_agents = n_agents
        self.observation_space = spaces.Tuple([spaces.Box(-1.0, 10.0, (2,), np.float32)] * n_agents)
        self.action_space = spaces.Tuple([spaces.Discrete(3)] * n_agents)

    def _seen(self) -> tuple[Any, ...]:
        return tuple(np.array([place, self.t], np.float32) for place in self.places)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.places, self.t = self.np_random.integers(0, 3, self.robots), 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        moves = np.array(action) - 1
        self.places, self.t = np.clip(self.places + moves, 0, 9), self.t + 1
        rewards = [float((i + 1) * (move == 1)) for i, move in enumerate(moves)]
        return self._seen(), rewards, False, self.t == self.length, {"time": self.t}


class OnePlayerWithTwoHands(gym.Env[Any, Any]):
    """One agent whose observation and action have two parts each: no env of several agents."""

    observation_space = spaces.Tuple([spaces.Discrete(3), spaces.Discrete(3)])
    action_space = spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return (0, 0), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return (1, 2), float(action[0]), True, False, {}


gym.register("stand-in-warehouse-2ag-v1", "tests.envs.stand_ins.warehouse:Warehouse")
