"""Matrix games: tables of the classics, own tables, repetitions and observations."""

import numpy as np
import pytest
from pydantic import ValidationError

from marl.envs.batched import StepOutput
from marl.envs.games.matrix import CLASSICS, MatrixGames, classic
from marl.errors import ConfigError, UnknownNameError


def started(num_envs: int = 1, **env_config: object) -> tuple[MatrixGames, StepOutput]:
    games = MatrixGames(num_envs, env_config)
    return games, games.reset(np.arange(num_envs), np.arange(num_envs))


def paid(*joint: int, **env_config: object) -> list[float]:
    """Rewards by seat after one joint action of a game with one kind."""
    games, _ = started(**env_config)
    return games.step([np.array([joint])]).rewards[0].tolist()


@pytest.mark.parametrize(
    ("game", "table"),
    [
        ("prisoners_dilemma", {(0, 0): (3, 3), (0, 1): (0, 5), (1, 0): (5, 0), (1, 1): (1, 1)}),
        ("stag_hunt", {(0, 0): (4, 4), (0, 1): (1, 3), (1, 0): (3, 1), (1, 1): (2, 2)}),
        ("chicken", {(0, 0): (0, 0), (0, 1): (-1, 1), (1, 0): (1, -1), (1, 1): (-10, -10)}),
        ("battle_of_the_sexes", {(0, 0): (3, 2), (0, 1): (0, 0), (1, 0): (0, 0), (1, 1): (2, 3)}),
        ("matching_pennies", {(0, 0): (1, -1), (0, 1): (-1, 1), (1, 0): (-1, 1), (1, 1): (1, -1)}),
        (
            "rock_paper_scissors",
            {(0, 0): (0, 0), (1, 0): (1, -1), (2, 1): (1, -1), (0, 2): (1, -1), (0, 1): (-1, 1)},
        ),
    ],
)
def test_a_classic_pays_its_table(game: str, table: dict[tuple[int, int], tuple[float, float]]) -> None:
    for joint, rewards in table.items():
        assert paid(*joint, game=game) == list(rewards)


@pytest.mark.parametrize(
    ("game", "team"),
    [
        ("climbing", [[11, -30, 0], [-30, 7, 6], [0, 0, 5]]),
        ("penalty", [[-10, 0, 10], [0, 2, 0], [10, 0, -10]]),
    ],
)
def test_shares_of_a_common_payoff_add_up_to_the_table(game: str, team: list[list[float]]) -> None:
    for joint in np.ndindex(3, 3):
        first, second = paid(*joint, game=game)
        assert first == second
        assert first + second == np.array(team)[joint]


def test_the_penalty_is_a_config_key() -> None:
    assert sum(paid(0, 0, game="penalty", penalty=-100)) == -100
    assert sum(paid(2, 2, game="penalty", penalty=0)) == 0
    assert sum(paid(0, 2, game="penalty", penalty=-100)) == 10


def test_the_best_play_of_the_penalty_game_earns_250_in_25_repetitions() -> None:
    games, _ = started(game="penalty", repetitions=25)
    assert sum(float(games.step([np.array([[0, 2]])]).rewards.sum()) for _ in range(25)) == 250.0


@pytest.mark.parametrize("game", ["matching_pennies", "rock_paper_scissors"])
def test_zero_sum_games_sum_to_zero(game: str) -> None:
    assert not classic(game)[0].sum(axis=0).any()


@pytest.mark.parametrize("game", ["prisoners_dilemma", "stag_hunt", "chicken", "rock_paper_scissors", "penalty"])
def test_symmetric_games_look_the_same_to_both_players(game: str) -> None:
    payoffs, _ = classic(game)
    np.testing.assert_array_equal(payoffs[0], payoffs[1].T)


def test_half_and_half_leaves_the_other_stag_hunter_indifferent() -> None:
    payoffs, _ = classic("stag_hunt")
    assert (payoffs[0] @ [0.5, 0.5]).tolist() == [2.5, 2.5]


@pytest.mark.parametrize("game", CLASSICS)
def test_every_classic_names_all_its_actions(game: str) -> None:
    payoffs, names = classic(game)
    assert payoffs.shape == (2, *map(len, names))


def test_an_unknown_classic_names_the_nearest_one() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'stag_hunt'"):
        classic("staghunt")


def test_changing_a_returned_table_does_not_change_the_game() -> None:
    classic("chicken")[0][:] = 0
    assert classic("chicken")[0].min() == -10


THREE_PLAYERS = np.arange(3 * 2 * 3 * 2).reshape(3, 2, 3, 2)  # player 1 has three actions


def test_players_with_equally_many_actions_form_a_kind_and_are_paid_on_their_own_seat() -> None:
    games, _ = started(payoffs=THREE_PLAYERS.tolist())
    assert games.seat_names == ("player_0", "player_2", "player_1")
    assert [kind.name for kind in games.kinds] == ["player_with_2_actions", "player_with_3_actions"]
    frame = games.step([np.array([[1, 0]]), np.array([[2]])])  # player 0: 1, player 2: 0, player 1: 2
    assert frame.rewards[0].tolist() == THREE_PLAYERS[[0, 2, 1], 1, 2, 0].tolist()


def test_a_common_table_of_three_players_is_shared_by_three() -> None:
    table = np.zeros((2, 2, 2))
    table[1, 0, 1] = 6
    assert paid(1, 0, 1, payoffs=table.tolist(), common=True) == [2, 2, 2]


def test_lanes_are_paid_for_their_own_joint_action() -> None:
    games, _ = started(4, game="prisoners_dilemma")
    frame = games.step([np.array([[0, 0], [0, 1], [1, 0], [1, 1]])])
    assert frame.rewards.tolist() == [[3, 3], [0, 5], [5, 0], [1, 1]]


def test_a_one_shot_game_terminates_everybody_after_one_step() -> None:
    games, frame = started(3)
    assert frame.present.all()
    frame = games.step([np.zeros((3, 2), np.int64)])
    assert frame.over.all()
    assert frame.terminated.all()
    assert not frame.truncated.any()
    assert not frame.present.any()


def test_only_the_last_repetition_terminates() -> None:
    games, _ = started(repetitions=3)
    ends = [bool(games.step([np.zeros((1, 2), np.int64)]).terminated.all()) for _ in range(3)]
    assert ends == [False, False, True]


@pytest.mark.parametrize("env_config", [{}, {"observe": "last", "observe_round": True}, {"repetitions": 5}])
def test_with_nothing_to_see_the_observation_is_a_constant_one(env_config: dict[str, object]) -> None:
    games, frame = started(**env_config)
    assert frame.obs[0].tolist() == [[[1.0], [1.0]]]
    assert games.step([np.array([[1, 0]])]).obs[0].tolist() == [[[1.0], [1.0]]]


def test_the_last_joint_action_is_seen_as_one_hots_with_the_share_of_rounds_played() -> None:
    games, frame = started(game="climbing", repetitions=4, observe="last", observe_round=True)
    assert frame.obs[0][0].tolist() == [[0] * 7] * 2
    frame = games.step([np.array([[0, 2]])])
    assert frame.obs[0][0].tolist() == [[1, 0, 0, 0, 0, 1, 0.25]] * 2
    assert frame.state[0].tolist() == [1, 0, 0, 0, 0, 1, 0.25]
    assert games.kinds[0].obs_width == games.state_size == 7


def test_the_round_alone_can_be_seen() -> None:
    games, frame = started(repetitions=2, observe_round=True)
    assert frame.obs[0].tolist() == [[[0.0], [0.0]]]
    assert games.step([np.array([[1, 0]])]).obs[0].tolist() == [[[0.5], [0.5]]]


def test_one_hots_follow_the_players_where_kinds_differ() -> None:
    games, _ = started(payoffs=THREE_PLAYERS.tolist(), repetitions=2, observe="last")
    frame = games.step([np.array([[1, 0]]), np.array([[2]])])
    assert frame.state[0].tolist() == [0, 1, 0, 0, 1, 1, 0]  # player 0: 1; player 1: 2; player 2: 0
    assert [seen.shape for seen in frame.obs] == [(1, 2, 7), (1, 1, 7)]


def test_a_reset_forgets_the_rounds_of_its_own_lanes_only() -> None:
    games, _ = started(2, repetitions=3, observe="last")
    games.step([np.ones((2, 2), np.int64)])
    assert games.reset(np.array([0]), np.array([0])).state.tolist() == [[0, 0, 0, 0], [0, 1, 0, 1]]


def test_a_game_goes_on_bit_for_bit_from_its_saved_state() -> None:
    games, _ = started(3, repetitions=3, observe="last", observe_round=True)
    shown = games.step([np.array([[0, 1], [1, 1], [0, 0]])])
    saved = games.get_state()
    expected = games.step([np.ones((3, 2), np.int64)])
    other = MatrixGames(3, {"repetitions": 3, "observe": "last", "observe_round": True})
    again = other.set_state(saved)
    frame = other.step([np.ones((3, 2), np.int64)])
    assert (again.obs[0] == shown.obs[0]).all()
    assert (frame.obs[0] == expected.obs[0]).all()
    assert (frame.rewards == expected.rewards).all()


@pytest.mark.parametrize(
    ("env_config", "message"),
    [
        ({"payoffs": [[[1, 2], [3]], [[1, 2], [3, 4]]]}, "ragged"),
        ({"payoffs": [[["high", 2]]]}, "no number"),
        ({"payoffs": [[[1, float("nan")], [1, 1]], [[1, 1], [1, 1]]]}, "NaN"),
        ({"payoffs": [[]]}, "empty"),
        ({"payoffs": [[1, 2], [3, 4]]}, r"shape \(2, 2\): tables for 2 players.*of 1.*common: true"),
        ({"payoffs": np.zeros((3, 2, 2)).tolist()}, r"shape \(3, 2, 2\): tables for 3 players.*of 2"),
        ({"payoffs": [[1, 2], [3, 4]], "common": True, "actions": [["a", "b"]]}, r"name \[2\].*\[2, 2\]"),
        ({"payoffs": [[1, 2], [3, 4]], "common": True, "game": "climbing"}, "Leave one of them out"),
        ({"game": "climbing", "actions": [["a"]]}, "actions given without a table"),
    ],
)
def test_what_is_not_a_game_is_refused_with_what_was_got(env_config: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        MatrixGames(1, env_config)


@pytest.mark.parametrize("env_config", [{"gmae": "chicken"}, {"game": "checkers"}, {"repetitions": 0}])
def test_unknown_keys_names_and_lengths_are_refused(env_config: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        MatrixGames(1, env_config)


def test_the_picture_points_at_what_was_played_last() -> None:
    games, _ = started(repetitions=2)
    assert "->" not in games.render(0)
    games.step([np.array([[0, 1]])])
    assert "-> (cooperate, defect): 0, 5" in games.render(0)
