"""Your own env: agents that appear and leave, with different spaces, trained without an adapter.

Guides stay for the whole episode and point at one of three doors; visitors arrive one after the other, see what the guide
points at and choose a door. A visitor is paid for the right door, and so is the guide.

    python examples/custom_env.py
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from gymnasium import spaces

import marl


class Museum(marl.MultiAgentEnv):
    """One guide, ``visitor_0``, ``visitor_1``, ... one at a time; ids are not known in advance."""

    max_agents = {"guide": 1, "visitor_*": 2}  # noqa: RUF012  (one leaves while the next one comes)
    doors = spaces.Discrete(3)

    def __init__(self, config: dict[str, Any]) -> None:
        self.visitors = config.get("visitors", 5)

    def observation_space(self, agent: str) -> Any:
        return self.doors  # the guide sees the right door, a visitor sees where the guide points

    def action_space(self, agent: str) -> Any:
        return self.doors

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.rng, self.count = np.random.default_rng(seed), 0
        self.right = int(self.rng.integers(3))
        return {"guide": self.right}, {}

    def step(self, actions: dict[str, Any]) -> Any:
        if "guide" in actions:  # the guide points; a visitor comes and is asked next
            self.pointed = int(actions["guide"])
            return {f"visitor_{self.count}": self.pointed}, {}, {"__all__": False}, {}, {}
        visitor = f"visitor_{self.count}"
        paid = float(actions[visitor] == self.right)
        self.count += 1
        self.right = int(self.rng.integers(3))
        over = self.count == self.visitors
        obs = {"guide": self.right, visitor: self.pointed}  # the visitor's last observation
        return obs, {"guide": paid, visitor: paid}, {visitor: True, "__all__": over}, {}, {}


def main(iterations: int = 20) -> float:
    marl.register_env("museum", Museum)
    assert marl.check_env("museum") == []
    config = {
        "train_batch_size": 1_000,
        "sgd_minibatch_size": 200,
        "lr": 0.005,
        "entropy_coeff": 0.03,
        "fcnet_hiddens": [32],
        "num_envs_per_worker": 10,
        "evaluation": {"interval": iterations, "episodes": 20},
        "policy_mapping_fn": {"guide": "guide", "visitor_*": "visitor"},
    }
    with marl.Trainer("ppo", env="museum", config=config) as trainer:
        print("\n".join(trainer.setup.header))
        for _ in range(iterations):
            result = trainer.train()
            print(f"{result['timesteps_total']:6d} steps, rewards by policy: {result['policy_reward_mean']}")
    found: float = result["evaluation"]["policy_reward_mean"]["visitor"]
    print(f"doors found by 5 visitors, playing greedily: {found}")
    return found


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
