"""How large a tree is, and trees that are tables."""

from __future__ import annotations

import numpy as np
import pytest

from marl.gametheory.classics import classic_game
from marl.gametheory.solve import zero_sum
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.normal import one_shot
from marl.gametheory.tree.size import walks_in
from marl.gametheory.tree.value import equilibrium


def test_where_every_way_has_the_same_choices_the_estimate_is_exact() -> None:
    walks = walks_in("matrix_game", {"game": "rock_paper_scissors"})
    assert walks.nodes == 1 + 3 + 9
    assert len(build_tree("matrix_game", {"game": "rock_paper_scissors"})) == 1 + 3 + 9
    assert (walks.most_at_once, walks.discrete, set(walks.lengths)) == (2, True, {1})


def test_endless_and_continuous_worlds_are_seen_at_once() -> None:
    assert walks_in("CartPole-v1").nodes > 200
    assert "billions" in walks_in("pettingzoo:classic/go_v5", {"board_size": 5}).size
    assert not walks_in("Pendulum-v1").discrete


def test_a_game_in_which_everybody_decides_once_is_its_table() -> None:
    tree = build_tree("matrix_game", {"game": "stag_hunt"})
    table = one_shot(tree)
    assert table is not None
    np.testing.assert_allclose(table.payoffs, classic_game("stag_hunt").payoffs)
    assert one_shot(build_tree("kuhn_poker")) is None


def test_a_constant_sum_tree_has_the_value_of_its_table() -> None:
    rows = [[3.0, 0.0], [1.0, 2.0]]
    payoffs = [rows, [[4.0 - x for x in row] for row in rows]]
    tree = build_tree("matrix_game", {"payoffs": payoffs})
    assert tree.is_constant_sum
    assert not tree.is_zero_sum
    table = one_shot(tree)
    assert table is not None
    found = equilibrium(tree)
    assert found.values == pytest.approx([1.5, 2.5])  # row 1/4, 3/4; by hand
    assert found.values == pytest.approx(zero_sum(table).values)
    assert found.nash_conv == pytest.approx(0.0, abs=1e-9)
