"""One team, three ways: as one agent with Tuple spaces, as members whose values QMIX mixes, and as strangers.

python examples/agent_groups.py
"""

from __future__ import annotations

import sys
from typing import Any

import marl

TEAM = {"team": ["agent_0", "agent_1"]}
SETTINGS: dict[str, dict[str, Any]] = {
    # One policy sees what both members see and moves both: centralised training and execution.
    "joint ppo": {
        "algo": "ppo", "groups": TEAM, "joint": ["team"],
        "lr": 3e-3, "train_batch_size": 512, "sgd_minibatch_size": 128, "entropy_coeff": 0.05,
    },
    # Each member acts on its own observation; their values are mixed while training.
    "qmix": {"algo": "qmix", "groups": TEAM, "exploration_config": {"type": "EpsilonGreedy", "final_epsilon": 1.0}},
    # Each member learns for itself.
    "dqn": {"algo": "dqn", "exploration_config": {"type": "EpsilonGreedy", "final_epsilon": 1.0}},
}  # fmt: skip


def main(steps: int = 20_000) -> dict[str, float]:
    """Greedy team reward of each way: the safe branch of the game pays 7, the risky one up to 8."""
    rewards = {}
    for name, keys in SETTINGS.items():
        config = {"env": "two_step_game", "fcnet_hiddens": [32, 32], "num_envs_per_worker": 16, **keys}
        with marl.Trainer(config=config) as trainer:
            print("\n".join([f"-- {name}", *trainer.setup.header]))
            while trainer.timesteps_total < steps:
                trainer.train()
            rewards[name] = trainer.evaluate()["episode_reward_mean"]
        print(f"{name}: {rewards[name]}")
    return rewards


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
