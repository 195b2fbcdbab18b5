"""How much faster several learners are than one (``num_learners``): rows per second through the update, and the ratio.

Nets of 512 x 512 and minibatches of 4,096 rows. Each case hands one collected batch over and over to the learners of two
runs that differ in ``num_learners`` alone, in turns, and the best turn of each counts, because the machine is rarely
alone. A turn is everything between batch and new weights: advantages or replay, minibatches, gradients, their sums.
Beside rows per second of wall time stand rows per CPU second of member 0: what the wall time would be if every member had
a core to itself and never waited.

    python benchmarks/learners.py [--learners 2] [--turns 6] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from marl.diagnostics.load import load_now
from marl.training.trainer import Trainer

ROWS = 4096  # per minibatch
COPIES = 64
COMMON = {
    "env": "CartPole-v1", "num_envs_per_worker": COPIES, "fcnet_hiddens": [512, 512], "evaluation": {"interval": 0}, "seed": 0,
}  # fmt: skip
CASES: dict[str, dict[str, Any]] = {
    "ppo": {"train_batch_size": 2 * ROWS, "sgd_minibatch_size": ROWS, "num_sgd_iter": 2},
    "dqn": {"train_batch_size": ROWS, "learning_starts": 0, "rollout_fragment_length": 4, "updates_per_step": 1 / 64},
}


def main() -> None:
    """Measure every case and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learners", type=int, default=2, help="num_learners to compare with 1")
    parser.add_argument("--turns", type=int, default=6, help="turns of each run; the best one counts")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    given = parser.parse_args()
    found = {algo: measure(algo, keys, given.learners, given.turns) for algo, keys in CASES.items()}
    show(found, given.learners)
    if given.json is not None:
        given.json.write_text(json.dumps({"machine": machine(), "cases": found}, indent=1) + "\n", encoding="utf-8")


def measure(algo: str, keys: Mapping[str, Any], learners: int, turns: int) -> dict[str, float]:
    """Rows per second of one learner and of several."""
    best = {1: (0.0, 0.0), learners: (0.0, 0.0)}
    runs = {k: Trainer(algo, config={**COMMON, **keys, "num_learners": k}) for k in best}
    try:
        batch = runs[1].workers.collect(runs[1].setup.fragment).batch
        for trainer in runs.values():
            trainer.learning.learn(batch)  # first touch of memory, first calls of torch
        for _ in range(turns):
            for k, trainer in runs.items():
                before, wall, cpu = _rows(trainer), time.perf_counter(), time.process_time()
                trainer.learning.learn(batch)
                wall, cpu, rows = time.perf_counter() - wall, time.process_time() - cpu, _rows(trainer) - before
                best[k] = max(best[k][0], rows / wall), max(best[k][1], rows / cpu)
    finally:
        for k in sorted(runs, reverse=True):
            runs[k].stop()
    one, several = best[1], best[learners]
    return {
        "one": one[0], "several": several[0], "ratio": several[0] / one[0],
        "one_cpu": one[1], "several_cpu": several[1], "ratio_cpu": several[1] / one[1],
    }  # fmt: skip


def _rows(trainer: Trainer) -> int:
    """Rows that went through an update so far."""
    return ROWS * sum(learner.counters["num_updates"] for learner in trainer.learners)


def machine() -> dict[str, Any]:
    load = load_now()
    return {"cpus": os.cpu_count(), "python": platform.python_version(), "load": load}


def show(found: Mapping[str, Mapping[str, float]], learners: int) -> None:
    table = Table(title=f"learning, rows per second; nets 512 x 512, minibatches of {ROWS:,}")
    several = f"{learners} learners"
    for column in ("algorithm", "1 learner", several, "ratio", "1 learner, CPU", f"{several}, CPU", "ratio, CPU"):
        table.add_column(column, justify="left" if column == "algorithm" else "right")
    for algo, n in found.items():
        wall = (f"{n['one']:,.0f}", f"{n['several']:,.0f}", f"{n['ratio']:.2f}")
        table.add_row(algo, *wall, f"{n['one_cpu']:,.0f}", f"{n['several_cpu']:,.0f}", f"{n['ratio_cpu']:.2f}")
    Console(width=110).print(table, f"machine: {machine()}")


if __name__ == "__main__":
    main()
