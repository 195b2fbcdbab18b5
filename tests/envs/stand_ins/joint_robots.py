"""Like MaMuJoCo: a PettingZoo function with required keywords, and continuous actions."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class parallel_env(ParallelEnv):
    """``agent_conf`` is ``agents x joints``."""

    metadata: dict[str, Any] = {"name": "joint_robots", "render_modes": []}  # noqa: RUF012

    def __init__(self, scenario: str, agent_conf: str | None, agent_obsk: int | None = 1, **kwargs: Any) -> None:
        assert scenario in ("Ant", "Walker"), scenario
        self.scenario, self.keys = scenario, kwargs
        agents, joints = map(int, (agent_conf or "1x1").split("x"))
        self.possible_agents = [f"agent_{i}" for i in range(agents)]
        self.agents: list[str] = []
        self.observation_spaces = {
            a: spaces.Box(-np.inf, np.inf, (joints + (agent_obsk or 0),), np.float64) for a in self.possible_agents
        }
        self.action_spaces = {a: spaces.Box(-1.0, 1.0, (joints,), np.float32) for a in self.possible_agents}

    def observation_space(self, agent: str) -> Any:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        return self.action_spaces[agent]

    def _seen(self) -> dict[str, Any]:
        return {a: np.full(self.observation_spaces[a].shape, self.place) for a in self.agents}

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        self.agents, self.t = list(self.possible_agents), 0
        self.place = float(np.random.default_rng(seed).normal())
        return self._seen(), {a: {} for a in self.agents}

    def step(self, actions: dict[str, Any]) -> Any:
        self.t += 1
        self.place += float(sum(action.sum() for action in actions.values()))
        seen, agents = self._seen(), self.agents
        over = self.t == 7
        if over:
            self.agents = []
        return (
            seen,
            dict.fromkeys(agents, -abs(self.place)),
            dict.fromkeys(agents, False),
            dict.fromkeys(agents, over),
            {a: {} for a in agents},
        )
