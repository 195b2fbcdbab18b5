"""A corridor that is too long to be learned at once: the env of the examples about curricula.

Two walkers start at one end and are paid 1 for reaching the other. In 3 x ``length`` steps, steps to both sides that are
drawn at random reach the end of a short corridor now and then, and that of a long one almost never.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

import marl

LENGTHS = (4, 10, 24)  # of the phases 0, 1 and 2


class Corridor(marl.MultiAgentEnv):
    """``env_config``: ``length``, in steps. ``set_phase`` and ``set_task`` change it from the next episode on."""

    possible_agents = ("walker_0", "walker_1")
    sight = spaces.Box(
        0.0, 1.0, (2,), np.float32
    )  # where I am, and where the end is: the same in corridors of any length
    moves = spaces.Discrete(2)  # back, on

    def __init__(self, config: marl.EnvContext) -> None:
        self.length = self.next_length = int(config.get("length", LENGTHS[-1]))
        self.place: dict[str, int] = {}
        self.t = 0

    def observation_space(self, agent: str) -> Any:
        return self.sight

    def action_space(self, agent: str) -> Any:
        return self.moves

    def set_task(self, length: int) -> None:
        self.next_length = length

    def set_phase(self, phase: int) -> None:
        self.next_length = LENGTHS[phase]

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.length, self.t = self.next_length, 0
        self.place = dict.fromkeys(self.possible_agents, 0)
        return self._obs(self.possible_agents), {}

    def step(self, actions: dict[str, int]) -> Any:
        self.t += 1
        for agent, move in actions.items():
            self.place[agent] = max(0, self.place[agent] + (1 if move else -1))
        there = {agent: self.place[agent] == self.length for agent in actions}
        rewards = {agent: float(arrived) for agent, arrived in there.items()}
        late = self.t == 3 * self.length
        return self._obs(actions), rewards, there, {agent: late and not there[agent] for agent in actions}, {}

    def _obs(self, agents: Any) -> dict[str, Any]:
        return {a: np.array([self.place[a] / LENGTHS[-1], self.length / LENGTHS[-1]], np.float32) for a in agents}


LEARNING = {
    "train_batch_size": 600, "sgd_minibatch_size": 200, "num_sgd_iter": 4, "lr": 0.003, "fcnet_hiddens": [16],
    "num_envs_per_worker": 4, "evaluation": {"interval": 0},
}  # fmt: skip
"""Keys that the examples share."""
