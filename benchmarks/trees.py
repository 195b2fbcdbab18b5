"""How fast extensive-form games are solved, next to OpenSpiel's C++ solvers where they are installed: ratios from one run.

CFR+ iterations on Leduc poker and liar's dice and exact NashConv on Leduc poker, in seconds of CPU time. Rounds of both sides
are interleaved and the best of each counts, because the machine is rarely alone.

    python benchmarks/trees.py [--rounds N] [--json FILE]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.cfr import CFR
from marl.gametheory.tree.response import nash_conv
from marl.gametheory.tree.value import equilibrium

LEDUC, LIARS_DICE, DISTANCE = "Leduc poker, CFR+ iterations", "liar's dice, CFR+ iterations", "Leduc poker, NashConv"
GOALS = {LEDUC: 15_000.0, LIARS_DICE: 500.0, DISTANCE: 1_000.0}
"""Rates to reach, per second of CPU time."""


class Contest(NamedTuple):
    """The same work on both sides: how often it is done in one round, and what does it."""

    name: str
    ours: Callable[[int], None]
    our_count: int
    theirs: Callable[[int], None] | None
    their_count: int


def rate(work: Callable[[int], None], count: int) -> float:
    began = time.process_time()
    work(count)
    return count / (time.process_time() - began)


def contests() -> list[Contest]:
    tree = build_tree("leduc_poker")
    solver, uniform = CFR(tree, "cfr+"), tree.uniform()
    bluffer = CFR(build_tree("liars_dice"), "cfr+")

    def respond(count: int) -> None:
        for _ in range(count):
            nash_conv(tree, uniform)

    def iterate(count: int) -> None:
        solver.run(count)

    def bluff(count: int) -> None:
        bluffer.run(count)

    their_iterate, their_respond = _openspiel()
    return [
        Contest(LEDUC, iterate, 1_000, their_iterate, 20),
        Contest(LIARS_DICE, bluff, 100, None, 0),  # theirs takes seconds per iteration
        Contest(DISTANCE, respond, 500, their_respond, 3),
    ]


def _openspiel() -> tuple[Callable[[int], None] | None, Callable[[int], None] | None]:
    if importlib.util.find_spec("pyspiel") is None:
        return None, None
    import pyspiel  # type: ignore[import-not-found, unused-ignore]

    game = pyspiel.load_game("leduc_poker")
    solver, uniform = pyspiel.CFRPlusSolver(game), pyspiel.UniformRandomPolicy(game)

    def iterate(count: int) -> None:
        for _ in range(count):
            solver.evaluate_and_update_policy()

    def respond(count: int) -> None:
        for _ in range(count):
            pyspiel.nash_conv(game, uniform)

    return iterate, respond


def measure(rounds: int) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for contest in contests():
        ours, theirs = 0.0, 0.0
        for _ in range(rounds):
            ours = max(ours, rate(contest.ours, contest.our_count))
            if contest.theirs is not None:
                theirs = max(theirs, rate(contest.theirs, contest.their_count))
        found[contest.name] = {"ours": ours, "openspiel": theirs, "ratio": ours / theirs if theirs else 0.0}
    return found


def once() -> dict[str, float]:
    """Seconds of work that is done once per game."""
    began = time.process_time()
    tree = build_tree("leduc_poker")
    built = time.process_time()
    assert tree.form.matrices
    formed = time.process_time()
    equilibrium(tree)
    return {"tree": built - began, "sequence form": formed - built, "linear program": time.process_time() - formed}


def show(rates: dict[str, dict[str, float]], seconds: dict[str, float]) -> None:
    table = Table("per second of CPU time", "marl", "OpenSpiel C++", "ratio", "goal", "reached")
    for name, row in rates.items():
        other = f"{row['openspiel']:,.0f}" if row["openspiel"] else "not measured"
        ratio = f"{row['ratio']:,.0f}x" if row["ratio"] else "-"
        table.add_row(name, f"{row['ours']:,.0f}", other, ratio, f"{GOALS[name]:,.0f}", str(row["ours"] >= GOALS[name]))
    Console().print(table)
    Console().print(", ".join(f"{name} {1000 * took:.0f} ms" for name, took in seconds.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description="Speed of tree solvers, as ratios to OpenSpiel.")
    parser.add_argument("--rounds", type=int, default=5, help="Rounds of each side; the best one counts.")
    parser.add_argument("--json", type=Path, help="Also write the numbers to this file.")
    options = parser.parse_args()
    rates, seconds = measure(options.rounds), once()
    show(rates, seconds)
    if options.json is not None:
        result: dict[str, Any] = {"rates": rates, "seconds": seconds, "python": platform.python_version()}
        options.json.write_text(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
