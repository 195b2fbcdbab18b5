"""marl's side of ``rivals.py``: any preset on any env, timed round by round. Also run with the code of an older commit.

    python benchmarks/rival_ours.py '{"algo": "ppo", "keys": {"env": "CartPole-v1"}, "timed": "train", "iterations": 4}'

``timed``: train (the whole iteration), sample (collecting alone) or learn (recorded grids, handed to the learner again and
again).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "rivals"))
import torch
from clock import answer

from marl.training.trainer import Trainer

Play = Callable[[], dict[str, float]]
"""Plays one round and tells what was done."""
GRIDS = 10
"""Fragments that learners with a replay are given."""


def training(trainer: Trainer, iterations: int) -> Play:
    def play() -> dict[str, float]:
        before = trainer.timesteps_total
        for _ in range(iterations):
            trainer.train()
        return {"count": trainer.timesteps_total - before, "reward": trainer.last_result["episode_reward_mean"]}

    return play


def sampling(trainer: Trainer, iterations: int) -> Play:
    def play() -> dict[str, float]:
        steps = [trainer.workers.collect(trainer.setup.fragment).batch.env_steps for _ in range(iterations)]
        return {"count": sum(steps)}

    return play


def learning(trainer: Trainer, updates: int) -> Play:
    """At least so many updates per round; playing is done beforehand."""
    learner = trainer.learners[0]
    grids = [trainer.workers.collect(trainer.setup.fragment).batch for _ in range(GRIDS)]

    def play() -> dict[str, float]:
        before = learner.counters["num_updates"]
        while learner.counters["num_updates"] < before + updates:
            for grid in grids:
                learner.learn(grid)
        return {"count": learner.counters["num_updates"] - before}

    return play


TIMED = {"train": training, "sample": sampling, "learn": learning}


def main() -> None:
    work: dict[str, Any] = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    with Trainer(work["algo"], config={"evaluation": {"interval": 0}, "seed": 0, **work["keys"]}) as trainer:
        answer(TIMED[work["timed"]](trainer, work["iterations"]), "torch", "numpy")


if __name__ == "__main__":
    main()
