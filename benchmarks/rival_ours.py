"""marl's side of ``rivals.py``: any preset on any env, timed round by round. Also run with the code of an older commit.

    python benchmarks/rival_ours.py '{"algo": "ppo", "keys": {"env": "CartPole-v1"}, "timed": "train", "iterations": 4}'

``timed``: train (the whole iteration), sample (collecting alone) or learn (recorded grids, given to the learner again and again).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "rivals"))
from clock import answer  # before marl, so that nothing else is printed among the answers

import torch

from marl.training.trainer import Trainer

GRIDS = 10
"""Fragments that learners with a replay are given."""


def training(trainer: Trainer, iterations: int) -> dict[str, float]:
    before = trainer.timesteps_total
    for _ in range(iterations):
        result = trainer.train()
    return {"count": trainer.timesteps_total - before, "reward": result["episode_reward_mean"]}


def sampling(trainer: Trainer, iterations: int) -> dict[str, float]:
    batches = [trainer.workers.collect(trainer.setup.fragment).batch.env_steps for _ in range(iterations)]
    return {"count": sum(batches)}


class Learning:
    """Updates alone: playing is done beforehand."""

    def __init__(self, trainer: Trainer) -> None:
        self.learner = trainer.learners[0]
        self.grids = [trainer.workers.collect(trainer.setup.fragment).batch for _ in range(GRIDS)]

    def __call__(self, trainer: Trainer, iterations: int) -> dict[str, float]:
        before = self.learner.counters["num_updates"]
        while self.learner.counters["num_updates"] < before + iterations:
            for grid in self.grids:
                self.learner.learn(grid)
        return {"count": self.learner.counters["num_updates"] - before}


def timed(name: str, trainer: Trainer) -> Callable[[Trainer, int], dict[str, float]]:
    return Learning(trainer) if name == "learn" else {"train": training, "sample": sampling}[name]


def main() -> None:
    work: dict[str, Any] = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    with Trainer(work["algo"], config={"evaluation": {"interval": 0}, "seed": 0, **work["keys"]}) as trainer:
        play = timed(work["timed"], trainer)
        answer(lambda: play(trainer, work["iterations"]), "torch", "numpy")


if __name__ == "__main__":
    main()
