"""The graph of distinct positions of native envs."""

from __future__ import annotations

import numpy as np
import pytest

from marl.data.task import Ints
from marl.errors import ConfigError
from marl.gametheory.merged import rows
from marl.gametheory.merged.positions import Positions, positions_of
from marl.gametheory.tree.build import build_tree


@pytest.mark.parametrize("name", ["kuhn_poker", "leduc_poker"])
def test_views_of_cards_are_the_information_sets_of_the_tree(name: str) -> None:
    positions, tree = positions_of(name), build_tree(name)
    found = [len(views) for views in positions.views]
    assert found == [tree.infosets(player).stop - tree.infosets(player).start for player in range(2)]
    assert (positions.chance, positions.players) == (tree.chance, tree.players)


def test_kuhn_has_a_position_for_every_deal_and_course_of_bets() -> None:
    positions = positions_of("kuhn_poker")
    # Six deals and four decisions. Ends are one per level: nothing follows from them, and edges say what was paid.
    assert (positions.num_open, int(positions.over.sum()), len(positions.source)) == (24, 2, 48)
    assert np.allclose(positions.start_probability, 1 / 6)
    assert positions.level.tolist() == sorted(positions.level.tolist())
    assert (np.diff(positions.source) >= 0).all()
    assert (positions.level[positions.target] == positions.level[positions.source] + 1).all()


def test_players_that_move_at_once_have_an_edge_per_joint_action() -> None:
    positions = positions_of("matrix_game", {"game": "prisoners_dilemma"})
    assert positions.actions.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert positions.asked[0].all()


def test_every_course_of_play_pays_the_same_in_the_graph_and_in_the_tree() -> None:
    positions, tree = positions_of("leduc_poker"), build_tree("leduc_poker")
    assert histories(positions) == len(tree.terminal)


def histories(positions: Positions) -> int:
    """How many ways lead from the starts to positions where the game is over."""
    ways: Ints = np.bincount(positions.start, minlength=len(positions))
    for level in range(len(positions.first_of_level) - 1):
        at = slice(*positions.first_edge[positions.first_of_level[level : level + 2]])
        np.add.at(ways, positions.target[at], ways[positions.source[at]])
    return int(ways[positions.over].sum())


def test_seeds_that_play_alike_are_one_start() -> None:
    positions = positions_of("kuhn_poker", chance_samples=40)
    assert positions.chance == "sampled"
    assert positions.sample is not None
    assert positions.sample.seeds == 40
    assert len(positions.start) == positions.sample.starts == 6
    assert np.allclose(positions.start_probability, positions.sample.counts / 40)


def test_more_positions_than_allowed_are_refused_with_the_number() -> None:
    with pytest.raises(ConfigError, match=r"'leduc_poker' has .* more than max_positions = 1,000"):
        positions_of("leduc_poker", max_positions=1_000)


def test_rows_are_told_apart_although_their_hashes_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    table = rows.as_bytes([np.array([3, 1, 3, 2, 1, 3])])
    expected = ([0, 1, 3], [0, 1, 0, 2, 1, 0])
    assert tuple(part.tolist() for part in rows.distinct(table)) == expected
    monkeypatch.setattr(rows, "_hashes", lambda words: np.zeros(len(words), np.uint64))
    assert tuple(part.tolist() for part in rows.distinct(table)) == expected


def test_minus_zero_is_zero() -> None:
    first, number = rows.distinct(rows.as_bytes([np.array([[0.0], [-0.0]])]))
    assert (len(first), number.tolist()) == (1, [0, 0])
