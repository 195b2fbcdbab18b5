"""A training loop from the parts: workers collect, a hand-written REINFORCE step learns, weights go back to the workers.

python examples/worker_workflow.py
"""

from __future__ import annotations

import sys

import numpy as np
import torch

import marl

NAME = "default_policy"


def returns_to_go(batch: marl.SampleBatch) -> np.ndarray:
    """Sum of rewards from each row to the last collected one of its episode."""
    totals = np.zeros(len(batch), np.float32)
    ahead: dict[int, float] = {}
    for row in reversed(range(len(batch))):  # rows of an episode are in the order of time
        episode = int(batch["eps_id"][row])
        ahead[episode] = totals[row] = batch["rewards"][row] + ahead.get(episode, 0.0)
    return totals


def main(iterations: int = 40) -> tuple[float, float]:
    """Gives the mean return of the first and of the last iteration."""
    config = {"num_envs_per_worker": 16, "num_workers": 0, "fcnet_hiddens": [64], "evaluation": {"interval": 0}}
    means = []
    with marl.Trainer("pg", env="CartPole-v1", config=config) as trainer:
        workers, policy = trainer.workers, trainer.get_policy(NAME)
        optimiser = torch.optim.Adam(policy.parameters(), lr=0.005)
        for i in range(iterations):
            collected = workers.collect(64)  # steps of every copy of the env
            batch = marl.SampleBatch.concat_samples([collected.batch.for_policy(NAME)])
            obs, seats, legal = (torch.from_numpy(batch[column]) for column in ("obs", "agent_index", "legal"))
            params, _ = policy(obs, seats, legal)
            logp = policy.distribution.logp(params, torch.from_numpy(batch["actions"]))
            worth = torch.from_numpy(returns_to_go(batch))
            loss = -(logp * (worth - worth.mean()) / (worth.std() + 1e-6)).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            workers.sync_weights()
            if len(collected.episodes):
                means.append(float(collected.episodes.returns.mean()))
                print(f"iteration {i}: loss {loss.item():.3f}, mean return {means[-1]:.1f}")
    return means[0], means[-1]


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
