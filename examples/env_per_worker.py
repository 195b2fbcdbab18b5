"""Different envs in different workers: what makes the env looks where its copy will live.

python examples/env_per_worker.py
"""

from __future__ import annotations

import marl
from examples.corridor import LEARNING, Corridor


def make_corridor(config: marl.EnvContext) -> Corridor:
    """Worker 1 walks in the first length, worker 2 in the second one, and so on; worker 0 (num_workers: 0) in the first."""
    lengths = config["lengths"]
    return Corridor(marl.EnvContext({"length": lengths[max(0, config.worker_index - 1) % len(lengths)]}))


def main(num_workers: int = 2) -> list[list[int]]:
    """Gives the lengths of the copies of each worker."""
    config = {**LEARNING, "env_config": {"lengths": [4, 8]}, "num_workers": num_workers, "num_envs_per_worker": 2}
    with marl.Trainer("ppo", env=make_corridor, config=config) as trainer:
        result = trainer.train()
        lengths: list[list[int]] = trainer.workers.foreach_env(lambda env: env.length)
    print(f"corridors: {lengths}; mean reward over all of them: {result['episode_reward_mean']}")
    return lengths


if __name__ == "__main__":
    main()
