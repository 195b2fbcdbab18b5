"""A small env of opponents and what tests of deterministic actor-critics have in common."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces

from marl.algos.maddpg.learner import MaddpgLearner
from marl.envs.base import MultiAgentEnv, StepResult
from marl.training.trainer import Trainer
from tests.small_envs import Step

SMALL = {
    "learning_starts": 20,
    "train_batch_size": 16,
    "buffer_size": 300,
    "timesteps_per_iteration": 40,
    "rollout_fragment_length": 5,
    "num_envs_per_worker": 2,
    "updates_per_step": 0.5,
    "fcnet_hiddens": [8],
    "evaluation": {"interval": 0},
    "seed": 3,
}
TURNS = [
    Step(["a_1"], {"a_0": 1}),
    Step([], {"a_0": 2}),
    Step(["a_0", "a_1"], {"a_0": 4}),
    Step(["a_1"], {"a_0": 8}, terminated=["a_0"]),
    Step([], {"a_1": 16}, ["__all__"]),
]


class Zoo(MultiAgentEnv):
    """Opponents with different spaces: the wolf is paid what the sheep loses. The mixed one comes every other step."""

    possible_agents: tuple[str, ...] = ("wolf", "sheep", "mixed")
    observations: ClassVar = {"wolf": spaces.Box(-1, 1, (2,), np.float32), "sheep": spaces.Discrete(4)}
    actions: ClassVar = {
        "wolf": spaces.Box(-3, 3, (2,), np.float32),
        "sheep": spaces.Discrete(3),
        "mixed": spaces.Tuple([spaces.Box(0, 1, (1,), np.float32), spaces.MultiDiscrete([2, 3])]),
    }

    def observation_space(self, agent: str) -> Any:
        return self.observations.get(agent, spaces.Box(-9, 9, (1,), np.float32))

    def action_space(self, agent: str) -> Any:
        return self.actions[agent]

    def _obs(self) -> dict[str, Any]:
        seen: dict[str, Any] = {"wolf": np.array([self.t / 9, 0.5], np.float32), "sheep": self.t % 4}
        return seen | ({"mixed": np.array([self.t], np.float32)} if self.t % 2 == 0 else {})

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.t = 0
        return self._obs(), {}

    def step(self, actions: dict[str, Any]) -> StepResult:
        for agent, action in actions.items():
            assert self.action_space(agent).contains(action)
        self.t += 1
        gain = float(actions["wolf"].sum())
        rewards = {"wolf": gain, "sheep": -gain, "mixed": float(self.t)}
        return StepResult(self._obs(), rewards, {}, {"__all__": self.t == 8}, {})


def t(*values: Any) -> torch.Tensor:
    return torch.tensor(values)


def learner_of(trainer: Trainer) -> MaddpgLearner:
    learner = trainer.learners[0]
    assert isinstance(learner, MaddpgLearner)
    return learner


def filled(algo: str, env: Any, **keys: Any) -> Trainer:
    """A trainer whose replay holds one iteration's decisions."""
    trainer = Trainer(algo, config={**SMALL, "env": env, **keys})
    trainer.train()
    return trainer
