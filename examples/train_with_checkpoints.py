"""Train in a loop of one's own, keep checkpoints, go on from one, and play by hand.

python examples/train_with_checkpoints.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import gymnasium

import marl

CONFIG = {
    "num_envs_per_worker": 8,
    "train_batch_size": 1_600,
    "sgd_minibatch_size": 200,
    "num_sgd_iter": 8,
    "lr": 0.001,
    "fcnet_hiddens": [64, 64],
    "evaluation": {"interval": 0},
}


def main(iterations: int = 12, directory: str | None = None) -> float:
    """Gives the return of one episode that was played by hand with the restored policy."""
    folder = Path(directory or tempfile.mkdtemp())
    with marl.Trainer("ppo", env="CartPole-v1", config=CONFIG) as trainer:
        for i in range(1, iterations + 1):
            result = trainer.train()
            if i % 4 == 0:
                print(marl.pretty_print({key: result[key] for key in ("training_iteration", "episode_reward_mean")}))
                print("checkpoint:", trainer.save(folder / f"checkpoint_{i:06d}"))

    with marl.Trainer.from_checkpoint(folder / f"checkpoint_{iterations // 4 * 4:06d}") as trainer:
        print(
            "weights of each layer:",
            {name: array.shape for name, array in trainer.get_weights()["default_policy"].items()},
        )
        env = gymnasium.make("CartPole-v1")
        obs, _ = env.reset(seed=0)
        total, over = 0.0, False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(trainer.compute_action(obs, explore=False))
            total, over = total + float(reward), terminated or truncated
    print("return by hand:", total)
    return total


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
