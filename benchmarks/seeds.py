"""How long many seeds in one process take, next to one seed: ``python benchmarks/seeds.py``.

Whole iterations of PPO on ``fast:simple_spread`` (256 copies, 25 steps, two layers of 64), in CPU seconds. One ordinary run
and a stack of ``--seeds`` take turns, and the best of ``--rounds`` counts. The bar: ten seeds take at most four times as long
as one with minibatches of 400 rows.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from marl.algos.together import meet
from marl.scenario.load import compose
from marl.training.lockstep import Lockstep
from marl.training.trainer import Trainer

CASES = {"400 rows": (400, 10), "4,800 rows": (4800, 4)}  # rows of a minibatch, passes
COPIES, STEPS = 256, 25
BAR = 4.0


def trainer(rows: int, passes: int, seed: int, stacked: bool) -> Trainer:
    algo = {"name": "ppo", "train_batch_size": COPIES * STEPS, "sgd_minibatch_size": rows, "num_sgd_iter": passes}
    keys: dict[str, Any] = {
        "env": "fast:simple_spread", "algo": algo, "num_envs_per_worker": COPIES, "rollout_fragment_length": STEPS,
        "model": {"fcnet_hiddens": [64, 64]}, "evaluation": {"interval": 0}, "log_sys_usage": False, "seed": seed,
        "stacked": stacked,
    }  # fmt: skip
    return Trainer(scenario=compose(keys))


def iteration_of(runs: list[Trainer]) -> None:
    """One iteration of all, as a stack."""

    def body(run: Trainer) -> Callable[[], int]:
        def train() -> int:
            run.train()
            meet()
            return 0

        return train

    for outcome in Lockstep([body(run) for run in runs]).run():
        if isinstance(outcome, Exception):
            raise outcome


def seconds(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def measure(rows: int, passes: int, seeds: int, rounds: int) -> dict[str, float]:
    alone = trainer(rows, passes, 0, stacked=False)
    stack = [trainer(rows, passes, seed, stacked=True) for seed in range(seeds)]
    alone.train()  # what is done once, such as tables of kernels, is done before
    iteration_of(stack)
    one = many = float("inf")
    for _ in range(rounds):
        one = min(one, seconds(alone.train))
        many = min(many, seconds(lambda: iteration_of(stack)))
    return {"one": one, "stacked": many, "ratio": many / one}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    found = {}
    for name, (rows, passes) in CASES.items():
        found[name] = measure(rows, passes, given.seeds, given.rounds)
        one, many, ratio = found[name].values()
        print(f"minibatches of {name}: one seed {one:.3f} CPU s, {given.seeds} stacked {many:.3f}, ratio {ratio:.2f}")
    if given.seeds == 10:
        met = "met" if found["400 rows"]["ratio"] <= BAR else "not met"
        print(f"bar: 10 seeds in at most {BAR:g} times the time of one, minibatches of 400 rows: {met}")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
