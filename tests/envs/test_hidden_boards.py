"""Phantom tic-tac-toe and dark hex: what fails, what is seen, who wins, how many positions there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marl.envs.batched import NativeEnv, StepOutput
from marl.envs.games.boards.winning import edge_to_edge, in_a_row
from marl.envs.registry import make_batched_env
from marl.envs.scenes import scene_of
from marl.errors import ConfigError, EnvError
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.response import nash_conv
from tests.envs.board_positions import count_positions, native


def played(name: str, config: dict[str, Any], *moves: int) -> tuple[NativeEnv, StepOutput]:
    """One game after these moves."""
    env = native(name, 1, config)
    frame = env.reset(np.array([0]), np.array([0]))
    for move in moves:
        frame = env.step([np.full((1, 2), move)])
    return env, frame


def seen_by(frame: StepOutput, player: int) -> tuple[list[int], list[int]]:
    """The cells of its own stones and of the foreign ones that it knows of."""
    own, foreign = frame.obs[0][0, player, 2:].reshape(2, -1)
    return np.flatnonzero(own).tolist(), np.flatnonzero(foreign).tolist()


def test_who_fails_in_the_classical_version_tries_again_and_the_other_one_learns_nothing() -> None:
    _, frame = played("phantom_ttt", {}, 4, 4)
    assert frame.present.tolist() == [[False, True]]
    assert seen_by(frame, 1) == ([], [4])
    assert seen_by(frame, 0) == ([4], [])
    assert np.flatnonzero(~frame.legal[0][0, 1]).tolist() == [4]


def test_who_fails_in_the_abrupt_version_has_lost_the_turn() -> None:
    _, frame = played("phantom_ttt", {"version": "abrupt"}, 4, 4)
    assert frame.present.tolist() == [[True, False]]
    assert seen_by(frame, 1) == ([], [4])
    _, frame = played("phantom_ttt", {"version": "abrupt"}, 4, 4, 0, 0, 8)
    assert frame.over.tolist() == [True]
    assert frame.rewards.tolist() == [[1.0, -1.0]]


def test_a_full_board_without_three_in_a_row_is_a_draw() -> None:
    _, frame = played("phantom_ttt", {}, 0, 1, 2, 4, 3, 5, 7, 6, 8)
    assert frame.over.tolist() == [True]
    assert frame.terminated.tolist() == [[True, True]]
    assert frame.rewards.tolist() == [[0.0, 0.0]]


def test_dark_hex_is_won_down_by_the_first_and_across_by_the_second() -> None:
    # 2 x 3: the first joins the rows, the second the columns. Cell 1 touches 3 (below, left) and 4 (below).
    _, frame = played("dark_hex", {"rows": 2, "columns": 3}, 1, 0, 3)
    assert frame.rewards.tolist() == [[1.0, -1.0]]
    _, frame = played("dark_hex", {"rows": 2, "columns": 3}, 5, 3, 0, 4, 1, 2)
    assert frame.rewards.tolist() == [[-1.0, 1.0]]  # 2 touches 4, so 3, 4, 2 lead from left to right


def test_one_player_has_always_won_when_the_board_of_hex_is_full() -> None:
    stones = np.random.default_rng(0).random((500, 20)) < 0.5
    down, across = edge_to_edge(4, 5, upright=True), edge_to_edge(4, 5, upright=False)
    assert (down(stones) != across(~stones)).all()
    assert down(stones).any()
    assert not down(stones).all()


def test_a_table_of_all_boards_says_what_working_it_out_says() -> None:
    stones = np.random.default_rng(0).random((300, 9)) < 0.5
    larger = np.zeros((300, 4, 4), bool)  # 16 cells have no table
    larger[:, :3, :3] = stones.reshape(-1, 3, 3)
    assert (in_a_row(3, 3, 3)(stones) == in_a_row(4, 4, 3)(larger.reshape(300, 16))).all()


@pytest.mark.parametrize(
    ("name", "version", "going", "views"),
    [
        ("phantom_ttt", "classical", 284_627, (6_138, 6_251)),
        ("dark_hex", "abrupt", 333_651, (11_486, 10_711)),
    ],
)
def test_positions_that_go_on_alike_are_equal_rows(name: str, version: str, going: int, views: tuple[int, int]) -> None:
    counted = count_positions(name, {"version": version})
    assert counted.going == going
    assert counted.views == views


@pytest.mark.parametrize(("version", "published"), [("classical", 1.25), ("abrupt", 5 / 6)])
def test_uniform_play_of_the_smallest_dark_hex_has_the_published_nash_conv(version: str, published: float) -> None:
    tree = build_tree("dark_hex", {"rows": 2, "columns": 2, "version": version})
    assert tree.chance == "none"
    assert nash_conv(tree, tree.uniform()) == pytest.approx(published, abs=1e-12)


def test_a_player_is_drawn_only_what_it_knows_until_the_game_is_over() -> None:
    env, _ = played("phantom_ttt", {}, 4, 4, 0)
    everybody, first, second = (scene_of(env, 0, viewer) or {} for viewer in (None, "player_0", "player_1"))
    assert everybody["cells"] == [["O", None, None], [None, "X", None], [None, None, None]]
    assert first["cells"] == [[None, None, None], [None, "X", None], [None, None, None]]
    assert second["cells"] == everybody["cells"]
    assert first["actions"]["0,0"] == 0  # it does not know that it would fail
    assert second["actions"] == {}
    assert "X" in env.render(0)
    ended, _ = played("phantom_ttt", {}, 4, 0, 3, 1, 5)
    last = scene_of(ended, 0, "player_1") or {}
    assert last["line"] == [[1, 0], [1, 1], [1, 2]]
    assert last["cells"][1] == ["X", "X", "X"]


def test_a_cell_that_the_mover_knows_to_be_taken_is_refused() -> None:
    with pytest.raises(EnvError, match=r"'player_1' played action 4 in env 0, which is not legal now. Legal: 0, 1"):
        played("phantom_ttt", {}, 4, 4, 4)


def test_a_line_that_does_not_fit_on_the_board_is_refused() -> None:
    with pytest.raises(ConfigError, match="connect is 4, but the board is only 3 x 3"):
        make_batched_env("phantom_ttt", 1, {"connect": 4})


def test_rows_of_a_state_go_on_in_any_number_of_copies() -> None:
    env, frame = played("dark_hex", {"version": "abrupt"}, 4, 4, 0)
    many = native("dark_hex", 3, {"version": "abrupt"})
    again = many.set_state({name: np.repeat(array, 3, axis=0) for name, array in env.get_state().items()})
    assert (again.obs[0] == frame.obs[0]).all()
    assert (again.present == frame.present).all()
