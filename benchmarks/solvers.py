"""How fast matrix games are solved: the linear program of zero-sum games, and all equilibria of two-player games.

CPU seconds per game, the best of some turns, and ratios (theirs divided by ours; above 1 we are faster), which hardly depend
on the machine. Peers: the textbook's way (a linear program per player; supports one after the other), OpenSpiel's linear
program (``open_spiel`` with ``cvxpy``) and Gambit (``pygambit``). The same games go to all in the same run; what is not
installed is named instead of measured.

    python benchmarks/solvers.py [--turns 3] [--json FILE] [--quick]
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from marl.gametheory.classics import random_game
from marl.gametheory.game import MatrixGame, Payoffs
from marl.gametheory.solve import all_equilibria, zero_sum
from marl.gametheory.solve.zero_sum import maximin

Solver = Callable[[MatrixGame], object]
LP_SIZES, ENUMERATION_SIZES = (10, 50, 100), (4, 6, 8)


def program_per_player(game: MatrixGame) -> object:
    return maximin(game.payoffs[0]), maximin(game.payoffs[1].T)


def support_after_support(game: MatrixGame) -> object:
    """Both linear systems of every pair of supports of equal size, one pair at a time."""
    m, n = game.shape
    return [
        (x, y)
        for size in range(1, min(m, n) + 1)
        for rows in combinations(range(m), size)
        for columns in combinations(range(n), size)
        if (x := _indifferent(game.payoffs[1][np.ix_(rows, columns)].T)).min() >= 0
        if (y := _indifferent(game.payoffs[0][np.ix_(rows, columns)])).min() >= 0
    ]


def _indifferent(table: Payoffs) -> Payoffs:
    """The mixture of columns that makes all rows equally good."""
    size = len(table)
    system = np.block([[table, -np.ones((size, 1))], [np.ones((1, size)), np.zeros((1, 1))]])
    return np.asarray(np.linalg.solve(system, np.append(np.zeros(size), 1.0))[:size])


def openspiel_lp(game: MatrixGame) -> object:
    import pyspiel
    from open_spiel.python.algorithms import lp_solver

    return lp_solver.solve_zero_sum_matrix_game(pyspiel.create_matrix_game(*game.payoffs.tolist()))


def gambit_lp(game: MatrixGame) -> object:
    import pygambit

    return pygambit.nash.lp_solve(pygambit.Game.from_arrays(*game.payoffs), rational=False)


def gambit_enumeration(game: MatrixGame) -> object:
    import pygambit

    return pygambit.nash.enummixed_solve(pygambit.Game.from_arrays(*game.payoffs), rational=False)


def cpu_seconds(solve: Solver, games: Sequence[MatrixGame], turns: int) -> float:
    """Per game, in the best turn."""
    spent = []
    for _ in range(turns):
        start = time.process_time()
        for game in games:
            solve(game)
        spent.append((time.process_time() - start) / len(games))
    return min(spent)


def measure(what: str, ours: Solver, peers: dict[str, Solver], size: int, turns: int) -> dict[str, object]:
    """One row: our time, and the ratio to every peer that runs."""
    rng = np.random.default_rng(size)
    games = [random_game((size, size), rng, zero_sum=ours is zero_sum) for _ in range(3)]
    ours(games[0])  # imports and caches do not count
    seconds = cpu_seconds(ours, games, turns)
    ratios: dict[str, object] = {}
    for name, peer in peers.items():
        try:
            peer(games[0])
            ratios[name] = cpu_seconds(peer, games, turns) / seconds
        except ModuleNotFoundError as error:
            ratios[name] = f"needs {error.name}"
    return {"what": what, "size": size, "cpu_seconds": seconds, "ratio": ratios}


def main() -> None:
    """Measure every size and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3, help="turns per case; the best one counts")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--quick", action="store_true", help="the smallest size of each, one turn")
    options = parser.parse_args()
    turns, sizes = (1, 1) if options.quick else (options.turns, 3)
    lp_peers: dict[str, Solver] = {
        "program per player": program_per_player,
        "open_spiel": openspiel_lp,
        "pygambit": gambit_lp,
    }
    enumeration_peers: dict[str, Solver] = {"loop over supports": support_after_support, "pygambit": gambit_enumeration}
    rows = [measure("zero-sum value", zero_sum, lp_peers, n, turns) for n in LP_SIZES[:sizes]]
    rows += [measure("all equilibria", all_equilibria, enumeration_peers, n, turns) for n in ENUMERATION_SIZES[:sizes]]
    table = Table("what", "size", "CPU ms per game", "ratio to peers")
    for row in rows:
        ratios = row["ratio"]
        assert isinstance(ratios, dict)
        shown = ", ".join(f"{k} {v:.1f}x" if isinstance(v, float) else f"{k} {v}" for k, v in ratios.items())
        table.add_row(
            str(row["what"]), f"{row['size']}x{row['size']}", f"{1e3 * float(str(row['cpu_seconds'])):.2f}", shown
        )
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps({"machine": platform.machine(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
