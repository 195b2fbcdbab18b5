"""Exploitability of play in phantom tic-tac-toe and dark hex, whose trees have up to 2e10 histories.

Rules are those of OpenSpiel's ``phantom_ttt`` and ``dark_hex``, reveal-nothing. Where no other source has a number, it is a
golden answer of our own: the same code gives those of the tree, of OpenSpiel and of the literature on smaller boards.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marl.gametheory.merged.game import MergedGame, merge_game
from marl.gametheory.merged.kernel import Table
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.policy_conversion import strategy_of
from marl.gametheory.tree.response import nash_conv
from marl.policies.scripted import RandomPolicy
from marl.policies.tabular import TabularPolicy


def uniform(game: MergedGame) -> list[Table]:
    return [views.legal / views.legal.sum(axis=1, keepdims=True) for views in game.positions.views]


def mod11(game: MergedGame, cells: int) -> list[Table]:
    """Weight of legal cell a: 1 + ((7 own + 13 seen + 5 a) mod 11), own and seen stones as bit masks."""
    bits, found = 2 ** np.arange(cells), []
    for views in game.positions.views:
        own = (views.obs[:, 2 : 2 + cells] @ bits).astype(np.int64)
        seen = (views.obs[:, 2 + cells : 2 + 2 * cells] @ bits).astype(np.int64)
        weights = (1 + ((7 * own + 13 * seen)[:, None] + 5 * np.arange(cells)) % 11) * views.legal
        found.append(weights / weights.sum(axis=1, keepdims=True))
    return found


@pytest.mark.parametrize(
    ("columns", "version", "expected"),
    [(2, "classical", 5 / 4), (2, "abrupt", 5 / 6), (3, "classical", 3 / 4), (3, "abrupt", 0.780555555555556)],
)
def test_dark_hex_on_small_boards_by_random_play(columns: int, version: str, expected: float) -> None:
    game = merge_game("dark_hex", {"rows": 2, "columns": columns, "version": version})
    assert game.measure(uniform(game)).nash_conv == pytest.approx(expected, abs=1e-12)


def test_dark_hex_by_a_rule_that_looks_at_everything_in_a_view() -> None:
    # With the information_state_string of OpenSpiel, which leaks the number of moves, it would be 0.760044188780.
    game = merge_game("dark_hex", {"rows": 2, "columns": 3})
    assert game.measure(mod11(game, 6)).nash_conv == pytest.approx(0.751198413474, abs=1e-12)


@pytest.mark.parametrize("version", ["classical", "abrupt"])
@pytest.mark.parametrize("columns", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_dark_hex_has_the_numbers_of_its_tree_and_of_openspiel(columns: int, version: str) -> None:
    pytest.importorskip("pyspiel")
    config = {"rows": 2, "columns": columns, "version": version}
    game, tree = merge_game("dark_hex", config), build_tree("dark_hex", config)
    kind, policies = game.positions.kinds[0], {}
    for player, (name, table) in enumerate(zip(game.positions.players, mod11(game, 2 * columns), strict=True)):
        views = game.positions.views[player]
        policies[name] = TabularPolicy(kind, views.obs, table, np.full(len(table), player))
    assert game.measure(policies).nash_conv == pytest.approx(nash_conv(tree, strategy_of(tree, policies)), abs=1e-12)
    rules = {"classical": "cdh", "abrupt": "adh"}[version]
    theirs = build_tree(f"openspiel:dark_hex(num_rows=2,num_cols={columns},gameversion={rules})")
    assert len(theirs.terminal) == len(tree.terminal)
    assert game.measure(uniform(game)).nash_conv == pytest.approx(nash_conv(theirs, theirs.uniform()), abs=1e-12)


BOARDS: list[tuple[str, str, int, int, list[float]]] = [
    ("phantom_ttt", "classical", 284_627, 5_990_669, [0.953125, 0.624338624339]),
    ("phantom_ttt", "abrupt", 312_781, 23_310_269, [0.847139550265, 0.391528880071]),
    ("dark_hex", "classical", 283_859, 6_072_917, [1.0, 0.832804232804]),
    ("dark_hex", "abrupt", 333_651, 27_325_277, [0.908030202822, 0.617179232804]),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "version", "positions", "sets", "best"), BOARDS)
def test_boards_of_nine_cells_by_random_play(
    name: str, version: str, positions: int, sets: int, best: list[float]
) -> None:
    game = merge_game(name, {"version": version})
    policies = dict.fromkeys(game.positions.players, RandomPolicy(game.positions.kinds[0]))
    measured = game.measure(policies)
    assert (measured.cost.positions, measured.cost.information_sets) == (positions, sets)
    assert measured.best == pytest.approx(best, abs=1e-11)
    assert measured.nash_conv == pytest.approx(sum(best), abs=1e-11)  # zero sum: what is earned cancels


@pytest.mark.slow
def test_liars_dice_has_the_numbers_of_its_tree() -> None:
    game, tree = merge_game("liars_dice"), build_tree("liars_dice")
    policies: dict[str, Any] = dict.fromkeys(tree.players, RandomPolicy(tree.kinds[0]))
    assert game.measure(policies).nash_conv == pytest.approx(nash_conv(tree, tree.uniform()), abs=1e-12)
