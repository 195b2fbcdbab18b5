"""Envs that can be told what to play, and whose rewards tell what they were told."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from marl.envs.base import EnvContext, MultiAgentEnv, StepResult

LENGTH = 4


class Taught(MultiAgentEnv):
    """Two agents, four steps. Every step pays each agent the task; a new task counts at once, or from the next episode on
    with ``late``. A phase is added tenfold."""

    possible_agents = ("a_0", "a_1")
    sight = spaces.Box(-1e6, 1e6, (2,), np.float32)
    moves = spaces.Discrete(2)

    def __init__(self, config: EnvContext) -> None:
        self.place = (config.worker_index, config.vector_index)
        self.late = config.get("late", False)
        self.pay = config.get("pay", 0.0)
        self.task = self.next_task = 0.0
        self.phase = self.t = 0

    def observation_space(self, agent: str) -> Any:
        return self.sight

    def action_space(self, agent: str) -> Any:
        return self.moves

    def set_task(self, task: float) -> None:
        self.next_task = task
        if not self.late:
            self.task = task

    def set_phase(self, phase: int) -> None:
        self.phase = phase

    def obs(self) -> dict[str, Any]:
        return {agent: np.array([self.t, self.luck], np.float32) for agent in self.possible_agents}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.rng = np.random.default_rng(seed)
        self.t, self.luck, self.task = 0, float(self.rng.random()), self.next_task
        return self.obs(), {}

    def step(self, actions: Any) -> Any:
        self.t, self.luck = self.t + 1, float(self.rng.random())
        paid = self.pay + self.task + 10 * self.phase
        rewards = dict.fromkeys(actions, paid)
        return StepResult(self.obs(), rewards, {}, {"__all__": self.t == LENGTH}, {})


class TaughtWithState(Taught):
    """The same with a state of its own, which leaves the tasks out."""

    def get_state(self) -> Any:
        return {"t": self.t, "luck": self.luck, "rng": self.rng.bit_generator.state}

    def set_state(self, state: Any) -> None:
        self.t, self.luck, self.rng = state["t"], state["luck"], np.random.default_rng()
        self.rng.bit_generator.state = state["rng"]


class TaughtGym(gym.Env[Any, Any]):
    """One agent, three steps, each of which pays the task."""

    observation_space = spaces.Box(0, 10, (1,), np.float32)
    action_space = spaces.Discrete(2)
    task = phase = t = 0

    def set_task(self, task: int) -> None:
        self.task = task

    def set_phase(self, phase: int) -> None:
        self.phase = phase

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        return np.full(1, self.t, np.float32), float(self.task + 10 * self.phase), False, self.t == 3, {}
