"""Two algorithms in one run: PPO drives the cars, DQN switches the lights of the traffic env.

python examples/two_algorithms.py
"""

from __future__ import annotations

import sys
from typing import Any

import marl


def main(iterations: int = 10) -> dict[str, Any]:
    config = {
        "num_envs_per_worker": 8,
        "train_batch_size": 1_600,
        "sgd_minibatch_size": 400,
        "lr": 0.001,
        "fcnet_hiddens": [32, 32],
        "policies": {
            "car": {},
            "traffic_light": {"algo": "dqn", "learning_starts": 500, "gamma": 0.95},
        },
        "policy_mapping_fn": {"car_*": "car", "traffic_light_*": "traffic_light"},
        "evaluation": {"interval": 0},
    }
    with marl.Trainer("ppo", env="traffic", config=config) as trainer:
        print("\n".join(trainer.setup.header))
        for _ in range(iterations):
            result = trainer.train()
            learners = result["info"]["learner"]
            numbers = {name: sorted(block["learner_stats"])[:3] for name, block in learners.items()}
            print(
                f"{result['timesteps_total']:6d} steps, rewards {result['policy_reward_mean']}, learners report {numbers}"
            )
    return result


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
