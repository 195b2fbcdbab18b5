"""Tic-tac-toe, connect four, nim and battleship: rules, positions, drawings and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marl.envs.batched import NativeEnv, StepOutput
from marl.envs.registry import make_batched_env
from marl.envs.scenes import scene_of
from marl.errors import ConfigError, EnvError
from tests.envs.board_positions import count_positions, native


def played(name: str, config: dict[str, Any], *moves: int) -> tuple[NativeEnv, StepOutput]:
    """One game after these moves."""
    env = native(name, 1, config)
    frame = env.reset(np.array([0]), np.array([0]))
    for move in moves:
        frame = env.step([np.full((1, 2), move)])
    return env, frame


def test_tic_tac_toe_has_5478_positions_of_which_958_are_ends() -> None:
    counted = count_positions("tic_tac_toe", {})
    assert (counted.going, counted.over) == (5478 - 958, 958)


def test_connect_four_on_4_x_4_has_as_many_positions_as_published() -> None:
    counted = count_positions("connect_four", {"rows": 4, "columns": 4})
    assert counted.going + counted.over == 161_029  # John Tromp


@pytest.mark.parametrize(("misere", "first"), [(False, 1.0), (True, -1.0)])
def test_three_in_a_row_win_or_lose(misere: bool, first: float) -> None:
    env, frame = played("tic_tac_toe", {"misere": misere}, 0, 3, 1, 4, 2)
    assert frame.rewards.tolist() == [[first, -first]]
    scene = scene_of(env, 0) or {}
    assert scene["line"] == [[0, 0], [0, 1], [0, 2]]
    assert scene["actions"] == {}


def test_stones_fall_and_a_click_hits_where_they_land() -> None:
    env, frame = played("connect_four", {"rows": 2, "columns": 4, "connect": 4}, 1, 1)
    assert (scene_of(env, 0, "player_0") or {})["cells"] == [[None, "O", None, None], [None, "X", None, None]]
    assert (scene_of(env, 0, "player_0") or {})["actions"] == {"1,0": 0, "1,2": 2, "1,3": 3}
    assert (scene_of(env, 0, "player_1") or {})["actions"] == {}
    assert frame.legal[0][0, 0].tolist() == [True, False, True, True]
    with pytest.raises(EnvError, match="Legal: 0, 2, 3"):
        env.step([np.full((1, 2), 1)])


def test_both_see_themselves_first_on_an_open_board() -> None:
    _, frame = played("tic_tac_toe", {}, 4, 0)
    own, foreign = frame.obs[0][0, :, 2:].reshape(2, 2, 9).swapaxes(0, 1)
    assert own.argmax(axis=1).tolist() == [4, 0]
    assert foreign.argmax(axis=1).tolist() == [0, 4]


@pytest.mark.parametrize(("misere", "first"), [(False, -1.0), (True, 1.0)])
def test_the_last_match_of_nim_wins_or_loses(misere: bool, first: float) -> None:
    # Piles 1 and 2: one from the first, then two (action 1 * 2 + 1) from the second.
    env, frame = played("nim", {"piles": [1, 2], "misere": misere}, 0, 3)
    assert frame.rewards.tolist() == [[first, -first]]
    assert env.render(0) == "Nim; piles: 0 0; the game is over"


def test_a_click_on_a_match_takes_it_and_all_to_its_right() -> None:
    env, _ = played("nim", {"piles": [1, 3]})
    actions = (scene_of(env, 0) or {})["actions"]
    names = env.action_names("player_0")
    assert {place: names[action] for place, action in actions.items()} == {
        "0,0": "take 1 from pile 1",
        "1,0": "take 3 from pile 2",
        "1,1": "take 2 from pile 2",
        "1,2": "take 1 from pile 2",
    }


FLEET = {"rows": 2, "columns": 2, "ships": [1, 2], "values": [1.0, 2.0], "shots": 3}


def test_a_ship_must_leave_room_for_the_next_one() -> None:
    _, frame = played("battleship", {**FLEET, "rows": 1, "columns": 3})
    laying = frame.legal[0][0, 0]
    assert np.flatnonzero(laying).tolist() == [3, 5]  # not in the middle: two cells side by side are needed


def test_shots_are_told_and_ships_stay_hidden() -> None:
    # Both lay the small ship on a1; the first lays the large one down from b1, the second right of a2.
    env, frame = played("battleship", FLEET, 4, 4, 9, 6, 2, 0, 3)
    own, water, hit, sunk, shot_at = np.split(frame.obs[0][0, 0, 2:].reshape(-1, 4), [2, 3, 4, 5])
    assert own.tolist() == [[1, 0, 0, 0], [0, 1, 0, 1]]
    assert np.flatnonzero(hit[0]).tolist() == [2]
    assert np.flatnonzero(sunk[0]).tolist() == [3]
    assert not water.any()
    assert np.flatnonzero(shot_at[0]).tolist() == [0]
    assert (scene_of(env, 0, "player_1") or {})["actions"] == {"0,4": 1, "1,3": 2, "1,4": 3}
    cells = (scene_of(env, 0, "player_1") or {})["cells"]
    assert cells == [["a", None, "|", "#", None], ["B", "B", "|", None, None]]  # its own ships, and its own shots
    assert (scene_of(env, 0) or {})["cells"] == [["A", "b", "|", "a", None], [None, "b", "|", "B", "B"]]
    assert "player_1's ships:\na .\nB B" in env.render(0)


def test_sinking_pays_and_losing_costs() -> None:
    _, frame = played("battleship", {**FLEET, "loss_multiplier": 3.0, "shots": 2}, 4, 4, 9, 6, 2, 0, 3, 1)
    assert frame.over.tolist() == [True]
    assert frame.rewards.tolist() == [[2.0 - 3.0 * 1.0, 1.0 - 3.0 * 2.0]]


def test_a_player_without_ships_has_lost_at_once() -> None:
    _, frame = played("battleship", {**FLEET, "ships": [1], "values": [1.0]}, 4, 5, 1)
    assert frame.over.tolist() == [True]
    assert frame.rewards.tolist() == [[1.0, -1.0]]


@pytest.mark.parametrize(
    ("name", "config", "said"),
    [
        ("connect_four", {"rows": 2, "columns": 3}, "connect is 4, but the board is only 2 x 3"),
        ("nim", {"piles": [0]}, "piles"),
        ("battleship", {"rows": 5, "columns": 4}, "a board of 5 x 4 has 20 cells; expected at most 16"),
        ("battleship", {"values": [1.0]}, "there are 2 ships but 1 values"),
        ("battleship", {"shots": 5}, "shots is 5, but the board has only 4 cells"),
        ("battleship", {"ships": [2, 2], "rows": 1, "columns": 3}, r"ships of lengths \[2, 2\] do not fit"),
    ],
)
def test_boards_that_cannot_be_played_are_refused(name: str, config: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_batched_env(name, 1, config)
