"""Like magent2's battle: two teams of many, who see pictures and fall one by one. Like momaland: rewards are vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv
from pettingzoo.utils.wrappers import BaseParallelWrapper


class Battle(ParallelEnv):
    """In each step one soldier falls: first a red one, then a blue one."""

    metadata: dict[str, Any] = {"name": "battle", "render_modes": []}  # noqa: RUF012

    def __init__(self, map_size: int = 12, vector_rewards: bool = False) -> None:
        number = map_size // 4
        self.possible_agents = [f"{team}_{i}" for i in range(number) for team in ("red", "blue")]
        self.vector_rewards = vector_rewards

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(0.0, 2.0, (3, 3, 2), np.float32)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(5)

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        self.agents = list(self.possible_agents)
        self.rng = np.random.default_rng(seed)
        return self._seen(), {a: {} for a in self.agents}

    def _seen(self) -> dict[str, Any]:
        return {a: self.rng.random((3, 3, 2), np.float32) for a in self.agents}

    def step(self, actions: dict[str, Any]) -> Any:
        agents, seen = self.agents, self._seen()
        fallen = agents[0]
        paid: dict[str, Any] = {a: float(actions[a] == 1) for a in agents}
        if self.vector_rewards:
            paid = {a: np.array([reward, 2.0]) for a, reward in paid.items()}
        self.agents = agents[1:]
        return seen, paid, {a: a == fallen for a in agents}, dict.fromkeys(agents, False), {a: {} for a in agents}


def parallel_env(map_size: int = 12, max_cycles: int = 1000, **reward_args: Any) -> Battle:
    return Battle(map_size, **reward_args)


class LinearReward(BaseParallelWrapper):
    """Like momaland's ``LinearizeReward``: a wrapper of PettingZoo's kind."""

    def __init__(self, env: Any, weights: dict[str, Any]) -> None:
        super().__init__(env)
        self.weights = weights

    def step(self, actions: dict[str, Any]) -> Any:
        seen, rewards, *rest = super().step(actions)
        return seen, {a: float(np.dot(r, self.weights[a])) for a, r in rewards.items()}, *rest
