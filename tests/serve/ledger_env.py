"""An env whose observations say where they belong: episode, step and agent. ``a`` acts in every step, ``b`` in every third."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from marl.envs.base import ALL, MultiAgentEnv, StepResult

BOX = spaces.Box(0.0, 1e6, (3,), np.float32)


class LedgerEnv(MultiAgentEnv):
    """``asked`` has every decision that was answered, and its action; episodes have 4 to 9 steps."""

    possible_agents = ("a", "b")

    def __init__(self, number: int) -> None:
        self.number, self.episode, self.t = number, -1, 0
        self.asked: dict[tuple[int, int, int], int] = {}
        self.seeds: list[int | None] = []

    def observation_space(self, agent: str) -> Any:
        return BOX

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(3)

    def _obs(self) -> dict[str, Any]:
        key = float(self.number * 1000 + self.episode)
        shown = {"a": np.array([key, self.t, 0], np.float32)}
        if self.t % 3 == 0:
            shown["b"] = np.array([key, self.t, 1], np.float32)
        return shown

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.episode, self.t = self.episode + 1, 0
        self.seeds.append(seed)
        return self._obs(), {}

    def step(self, actions: dict[str, Any]) -> StepResult:
        for agent, action in actions.items():
            self.asked[self.number * 1000 + self.episode, self.t, "ab".index(agent)] = int(action)
        self.t += 1
        over = self.t >= 4 + self.episode % 6
        shown = self._obs()
        if over:
            shown = {
                agent: np.array([self.number * 1000 + self.episode, self.t, i], np.float32)
                for i, agent in enumerate("ab")
            }
        rewards = {"a": float(self.t), "b": 0.5}
        return StepResult(shown, rewards, {ALL: over}, {ALL: False}, {})
