"""A curiosity bonus: places that were seldom seen pay a little, so that a reward far away is found at all.

The env is a lock that opens for one sequence of six digits. The bonus of a callback is 0.1 / sqrt(visits). It
counts in what learners learn from, not in the rewards that results report. Counts are kept by every worker for itself.

    python examples/curiosity_bonus.py
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from gymnasium import spaces

import marl

DIGITS, LENGTH = 4, 6


class Lock(marl.MultiAgentEnv):
    """A wrong digit begins anew; the whole sequence pays 1. Guessing opens it once in 4,096 tries."""

    possible_agents = ("thief",)

    def __init__(self, config: dict[str, Any]) -> None:
        self.sequence = np.random.default_rng(3).integers(DIGITS, size=LENGTH)

    def observation_space(self, agent: str) -> Any:
        return spaces.Discrete(LENGTH + 1)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(DIGITS)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.right, self.t = 0, 0
        return {"thief": 0}, {}

    def step(self, actions: dict[str, Any]) -> Any:
        self.right = self.right + 1 if actions["thief"] == self.sequence[self.right] else 0
        self.t += 1
        opened = self.right == LENGTH
        flags = {"thief": opened}, {"thief": self.t == 2 * LENGTH and not opened}
        return {"thief": self.right}, {"thief": float(opened)}, *flags, {}


class Curiosity(marl.Callbacks):
    """``get_state`` and ``set_state`` keep the counts in checkpoints."""

    def __init__(self) -> None:
        self.visits = np.zeros(LENGTH + 1)

    def on_postprocess_trajectory(self, *, postprocessed_batch: Any, **_: Any) -> None:
        reached = postprocessed_batch["new_obs"][:, 0]  # how many digits are right
        np.add.at(self.visits, reached, 1)
        postprocessed_batch["rewards"] = postprocessed_batch["rewards"] + 0.1 / np.sqrt(self.visits[reached])

    def get_state(self) -> Any:
        return self.visits

    def set_state(self, state: Any) -> None:
        self.visits = np.array(state)


def main(iterations: int = 20) -> dict[str, float]:
    config = {
        "num_envs_per_worker": 8,
        "train_batch_size": 512,
        "sgd_minibatch_size": 128,
        "lr": 0.01,
        "fcnet_hiddens": [32],
        "evaluation": {"interval": iterations, "episodes": 5},
    }
    opened = {}
    for name, callbacks in (("plain", None), ("curious", Curiosity)):
        with marl.Trainer("ppo", env=Lock, config={**config, "callbacks": callbacks}) as trainer:
            for _ in range(iterations):
                result = trainer.train()
        opened[name] = result["evaluation"]["episode_reward_mean"]
        print(f"{name:>8}: the lock opens in {100 * opened[name]:.0f} % of the episodes")
    return opened


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
