"""An env in which every kind of action is played side by side, by agents that come and go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.envs.base import MultiAgentEnv, StepResult

ACTIONS: Mapping[str, Any] = {
    "box": spaces.Box(-3, 3, (2,), np.float32),
    "free": spaces.Box(np.array([-1, 0], np.float32), np.array([1, np.inf], np.float32)),  # one coordinate has no bound
    "choice": spaces.Discrete(3),
    "masked": spaces.Discrete(4),
    "several": spaces.MultiDiscrete([2, 3]),
    "mixed": spaces.Tuple([spaces.Box(0, 1, (1,), np.float32), spaces.MultiDiscrete([2, 3])]),
}
MASKED = ("masked", "several")
WIDTHS = {"box": 2, "free": 3, "choice": 1, "masked": 2, "several": 3, "mixed": 1}  # of observations


class ManyActions(MultiAgentEnv):
    """``kinds``: two agents of each of these, ``box_0`` and ``box_1``; the second ones are there every other step only."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.kinds = tuple(config["kinds"])
        self.possible_agents = tuple(f"{kind}_{i}" for kind in self.kinds for i in range(2))

    def observation_space(self, agent: str) -> Any:
        kind = agent[:-2]
        seen = spaces.Box(-9, 9, (WIDTHS[kind],), np.float32)
        if kind not in MASKED:
            return seen
        return spaces.Dict({"observation": seen, "action_mask": spaces.MultiBinary(self._options(kind))})

    def action_space(self, agent: str) -> Any:
        return ACTIONS[agent[:-2]]

    @staticmethod
    def _options(kind: str) -> int:
        space = ACTIONS[kind]
        return int(space.n) if isinstance(space, spaces.Discrete) else int(space.nvec.sum())

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.rng, self.t = np.random.default_rng(seed), 0
        return self._obs(), {}

    def _obs(self) -> dict[str, Any]:
        return {
            agent: self._seen(agent[:-2]) for agent in self.possible_agents if not (agent[-1] == "1" and self.t % 2)
        }

    def _seen(self, kind: str) -> Any:
        seen = self.rng.normal(size=WIDTHS[kind]).astype(np.float32)
        if kind not in MASKED:
            return seen
        legal = np.ones(self._options(kind), np.int8)
        legal[self.rng.integers(2, len(legal))] = 0  # of "several" two of three options of the second choice stay legal
        return {"observation": seen, "action_mask": legal}

    def step(self, actions: dict[str, Any]) -> StepResult:
        self.t += 1
        pay = self.rng.normal(size=len(self.possible_agents))
        rewards = dict(zip(self.possible_agents, pay.tolist(), strict=True))
        over = self.t == 6
        return StepResult(self._obs(), rewards, {"__all__": over and self.rng.random() < 0.5}, {"__all__": over}, {})
