"""An env for best responses: everybody is paid 1 for heads (action 0), whatever the others do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.envs.base import MultiAgentEnv, StepResult

SEEN, MOVES = spaces.Box(0.0, 1.0, (1,), np.float32), spaces.Discrete(2)


class Coins(MultiAgentEnv):
    possible_agents = ("red_0", "red_1", "blue_0", "blue_1")

    def __init__(self, config: Any) -> None:
        del config

    def observation_space(self, agent: str) -> spaces.Box:
        del agent
        return SEEN

    def action_space(self, agent: str) -> spaces.Discrete:
        del agent
        return MOVES

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Any:
        del seed, options
        return self._seen(), {}

    def step(self, actions: dict[str, Any]) -> StepResult:
        paid = {agent: float(action == 0) for agent, action in actions.items()}
        return StepResult(self._seen(), paid, {"__all__": True}, {}, {})

    def _seen(self) -> dict[str, Any]:
        return {agent: np.ones(1, np.float32) for agent in self.possible_agents}
