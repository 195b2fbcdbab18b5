"""How near to equilibrium exact solvers come, and in how many seconds of CPU time: average and last iterate.

Games with a tree are solved by variants of CFR and by mirror descent, the board games by mirror descent over views.

    python benchmarks/tree_solvers.py [--games NAME ...] [--solvers NAME ...] [--seconds N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from rich.console import Console
from rich.table import Table

from marl.gametheory.merged.dynamics import ViewDescent
from marl.gametheory.merged.positions import positions_of
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.cfr import CFR, VARIANTS
from marl.gametheory.tree.mirror import MIRRORS, MirrorDescent

MOST_NODES = 40_000_000
HIDDEN = {"imp_info": True}  # bids of goofspiel stay hidden
TREES: dict[str, tuple[str, dict[str, Any]]] = {
    "leduc": ("leduc_poker", {}),
    "liars_dice": ("liars_dice", {}),
    "liars_dice_2x3": ("liars_dice", {"dice": 2, "sides": 3}),
    "liars_dice_2x4": ("liars_dice", {"dice": 2, "sides": 4}),
    "goofspiel_5": ("goofspiel", {"cards": 5, "points_order": "descending"} | HIDDEN),
    "goofspiel_5_random": ("goofspiel", {"cards": 5, "points_order": "random"} | HIDDEN),
    "goofspiel_6": ("goofspiel", {"cards": 6, "points_order": "descending"} | HIDDEN),
}
BOARDS: dict[str, tuple[str, dict[str, Any]]] = {
    "phantom_ttt": ("phantom_ttt", {}),
    "phantom_ttt_abrupt": ("phantom_ttt", {"version": "abrupt"}),
    "dark_hex": ("dark_hex", {}),
    "dark_hex_abrupt": ("dark_hex", {"version": "abrupt"}),
}


class Solver(Protocol):
    """What all of them have in common."""

    iterations: int

    def run(self, iterations: int) -> Any: ...


class Found(NamedTuple):
    """How far a solver came."""

    game: str
    solver: str
    iterations: int
    seconds: float  # of CPU time, without measuring
    average: float  # NashConv
    last: float


class Game(NamedTuple):
    """A game, ready to be solved."""

    size: str
    seconds: float  # of CPU time to prepare it
    start: Callable[[str], Solver]
    distances: Callable[[Any], tuple[float, float]]  # of average and last iterate


def tree_game(env: str, config: dict[str, Any]) -> Game:
    began = time.process_time()
    tree = build_tree(env, config, max_nodes=MOST_NODES)
    assert tree.form.players

    def start(solver: str) -> Solver:
        return CFR(tree, solver) if solver in VARIANTS else MirrorDescent(tree, solver)

    def distances(solver: Any) -> tuple[float, float]:
        answer = solver.solved()
        return answer.nash_conv, answer.last.nash_conv

    size = f"{len(tree):,} nodes, {len(tree.sets):,} information sets"
    return Game(size, time.process_time() - began, start, distances)


def board_game(env: str, config: dict[str, Any]) -> Game:
    began = time.process_time()
    positions = positions_of(env, config)

    def distances(solver: Any) -> tuple[float, float]:
        found = solver.measure()
        return found.average.nash_conv, found.last.nash_conv

    size = f"{len(positions):,} positions, {sum(map(len, positions.views)):,} views"
    return Game(size, time.process_time() - began, lambda solver: ViewDescent(positions, solver), distances)


def solve(name: str, game: Game, solver_name: str, seconds: float) -> Found:
    """Iterations until the time is up, looked at after 1, 2, 4, ... of them."""
    solver, spent, more = game.start(solver_name), 0.0, 1
    while spent < seconds:
        began = time.process_time()
        solver.run(more)
        took = time.process_time() - began
        spent += took
        more = max(1, min(2 * more, int(more * (seconds - spent) / max(took, 1e-9))))
    return Found(name, solver_name, solver.iterations, spent, *game.distances(solver))


def main() -> None:
    parser = argparse.ArgumentParser(description="How near to equilibrium exact solvers come.")
    parser.add_argument("--games", nargs="+", default=[*TREES, *BOARDS], choices=[*TREES, *BOARDS])
    parser.add_argument("--solvers", nargs="+", default=["cfr+", "dcfr", "pcfr+", "mmd"], choices=[*VARIANTS, *MIRRORS])
    parser.add_argument("--seconds", type=float, default=60.0, help="CPU time of each solver on each game.")
    parser.add_argument("--json", type=Path, help="Also write the numbers to this file.")
    options = parser.parse_args()
    table = Table("game", "solver", "iterations", "CPU s", "NashConv of the average", "of the last iterate")
    found: list[Found] = []
    for name in options.games:
        game = tree_game(*TREES[name]) if name in TREES else board_game(*BOARDS[name])
        print(f"{name}: {game.size}, {game.seconds:.1f} CPU s to prepare", flush=True)
        fitting = [solver for solver in options.solvers if name in TREES or solver in MIRRORS]
        for solver in fitting:
            one = solve(name, game, solver, options.seconds)
            print(one, flush=True)
            found.append(one)
            table.add_row(
                name, solver, f"{one.iterations:,}", f"{one.seconds:.0f}", f"{one.average:.2e}", f"{one.last:.2e}"
            )
    Console().print(table)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"peak memory {peak:.1f} GB")
    if options.json is not None:
        options.json.write_text(json.dumps([one._asdict() for one in found], indent=2))


if __name__ == "__main__":
    main()
