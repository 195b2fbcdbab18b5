"""How long alpha-Rank takes, in seconds of CPU time, and how many times OpenSpiel's answer takes where it is installed.

A random general-sum game of two players with ``--size`` strategies each, so ``size^2`` profiles. Weak selection and infinite
alpha run on ordinary numbers; large finite alphas, at which probabilities underflow, run on logarithms and take longer.
OpenSpiel is asked once, at alpha 0.01, because it raises or overflows at strong selection.

    python benchmarks/ranking.py [--size 30] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from marl.gametheory.game import MatrixGame
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.rank import alpha_rank

ALPHAS = (0.01, 1.0, 100.0, math.inf)
COMPARED = 0.01
BAR = 0.5  # seconds of CPU time, 30 x 30
SEED = 0


def cpu_seconds(work: Callable[[], object], rounds: int) -> float:
    """The best of a few rounds, because the machine is rarely alone."""
    times = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


def theirs(payoffs: PayoffTensor) -> float | None:
    try:
        from open_spiel.python.egt import alpharank
    except ImportError:
        return None
    return cpu_seconds(lambda: alpharank.compute(list(payoffs.mean), m=50, alpha=COMPARED), rounds=1)


def measure(size: int) -> dict[str, float | None]:
    """Seconds per alpha, then OpenSpiel's."""
    game = MatrixGame(np.random.default_rng(SEED).normal(size=(2, size, size)))
    payoffs = PayoffTensor.exact(game)
    found: dict[str, float | None] = {}
    for alpha in ALPHAS:
        found[f"alpha {alpha:g}"] = cpu_seconds(lambda alpha=alpha: alpha_rank(payoffs, alpha), rounds=3)
    found["OpenSpiel"] = theirs(payoffs)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=30, help="strategies per player")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    options = parser.parse_args()
    found = measure(options.size)
    table = Table("what", "CPU seconds", title=f"alpha-Rank, {options.size} x {options.size}, bar {BAR} s")
    for name, seconds in found.items():
        table.add_row(name, "not installed" if seconds is None else f"{seconds:.3f}")
    Console().print(table)
    ours, other = found[f"alpha {COMPARED:g}"], found["OpenSpiel"]
    if ours and other:
        print(f"OpenSpiel takes {other / ours:.0f} times as long at alpha {COMPARED:g}.")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
