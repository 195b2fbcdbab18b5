"""Gambit answers the same, where it is installed (`pip install 'marl[gambit]'`; it is compiled then)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marl.gametheory.classics import random_game
from marl.gametheory.game import bimatrix
from marl.gametheory.solve import all_equilibria
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.export import write_efg
from marl.gametheory.tree.value import equilibrium

gambit = pytest.importorskip("pygambit")


def profiles(found: Any, game: Any) -> list[list[float]]:
    """Gambit's mixed profiles as rows of numbers, sorted."""
    rows = [[float(one[strategy]) for player in game.players for strategy in player.strategies] for one in found]
    return sorted(rows)


@pytest.mark.parametrize("seed", range(12))
def test_all_equilibria_are_those_that_gambit_enumerates(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(2, 5, 2).tolist())
    tables = rng.integers(-9, 10, (2, *shape)).astype(float) + rng.integers(1, 10**6, (2, *shape)) / 10**7  # no ties
    ours = sorted(np.concatenate(one.profile).tolist() for one in all_equilibria(bimatrix(*tables)))
    game = gambit.Game.from_arrays(*tables)
    theirs = profiles(gambit.nash.enummixed_solve(game, rational=False).equilibria, game)
    assert len(ours) == len(theirs)
    np.testing.assert_allclose(ours, theirs, atol=1e-7)


def test_an_exported_tree_has_the_same_value_in_gambit(tmp_path: Path) -> None:
    tree = build_tree("kuhn_poker")
    game = gambit.read_efg(str(write_efg(tree, tmp_path / "game.efg")))
    (found,) = gambit.nash.lp_solve(game, rational=False).equilibria
    values = [float(found.payoff(player)) for player in game.players]
    assert values == pytest.approx(equilibrium(tree).values.tolist(), abs=1e-6)


def test_gambit_finds_nothing_to_gain_in_a_solved_random_game() -> None:
    game = random_game((3, 3), np.random.default_rng(5))
    for one in all_equilibria(game):
        theirs = gambit.Game.from_arrays(*game.payoffs)
        mixed = theirs.mixed_strategy_profile([mix.tolist() for mix in one.profile])
        assert float(mixed.max_regret()) == pytest.approx(0.0, abs=1e-8)
