"""Envs for games with people: with chance, without a memory of their seed, and with accidents."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.data.task import AgentID, AnySpace
from marl.envs.base import Action, MultiAgentEnv, StepResult


class Bets(MultiAgentEnv):
    """Five rounds of luck: each player sees a die of the own, and is paid by it and by what both do."""

    possible_agents = ("left", "right")

    def __init__(self, env_config: Mapping[str, Any]) -> None:
        del env_config
        self.rng = np.random.default_rng(0)
        self.t = 0
        self.dice = np.zeros(2)

    def observation_space(self, agent: AgentID) -> AnySpace:
        return spaces.Box(-1, 8, (2,), np.float32)

    def action_space(self, agent: AgentID) -> AnySpace:
        return spaces.Discrete(3)

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        return ("fold", "call", "raise")

    def _obs(self) -> dict[AgentID, Any]:
        self.dice = self.rng.integers(1, 7, 2)
        seen = {}
        for i, agent in enumerate(self.possible_agents):
            seen[agent] = np.array([self.t, self.dice[i]], np.float32)
        return seen

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.rng = np.random.default_rng(seed)
        self.t = 0
        return self._obs(), {}

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        paid = float(self.dice[0] * actions["left"] - self.dice[1] * actions["right"] + self.rng.normal())
        self.t += 1
        over = {"__all__": self.t == 5}
        return StepResult(self._obs(), {"left": paid, "right": -paid}, over, {}, {})

    def render(self) -> str:
        return f"the secret dice are {self.dice}"


class Moody(Bets):
    """Looks different each time, whatever the seed."""

    made = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        Moody.made += 1
        return super().reset(seed=Moody.made)


class Fatal(Bets):
    """Action 1 raises, 2 ends the process, 3 never comes back."""

    def action_space(self, agent: AgentID) -> AnySpace:
        return spaces.Discrete(4)

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        return ()

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        if actions["left"] == 1:
            raise RuntimeError("the dice are lost")
        if actions["left"] == 2:
            os._exit(3)
        if actions["left"] == 3:
            time.sleep(600)
        return super().step(actions)
