"""Elo ratings against closed forms, with gaps, undefeated strategies and cycles."""

import math

import numpy as np
import pytest

from marl.errors import ConfigError
from marl.gametheory.game import MatrixGame, bimatrix
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.rank import elo, elo_from_results, payoffs_from_results
from marl.gametheory.rank.elo import POINTS

NO_DRAWS2 = np.zeros((2, 2))


def test_three_wins_in_four_are_191_points_apart_when_the_prior_is_small() -> None:
    found = elo_from_results([[0, 75], [25, 0]], NO_DRAWS2, ["a", "b"], prior=1e-6)
    assert found.scores[0] - found.scores[1] == pytest.approx(400 * math.log10(3), rel=1e-6)
    assert found.expected("a", "b") == pytest.approx(0.75, rel=1e-6)


def test_the_standard_error_is_half_that_of_the_log_odds_when_two_have_met() -> None:
    # Each is half the difference d away from the mean, and Var(d) = 1 / (n w (1 - w)) on the logistic scale.
    found = elo_from_results([[0, 75], [25, 0]], NO_DRAWS2, ["a", "b"], prior=1e-6)
    assert found.stderr == pytest.approx([POINTS * math.sqrt(1 / (100 * 0.75 * 0.25)) / 2] * 2, rel=1e-5)
    (best, _) = found.table()
    assert best.high - best.low == pytest.approx(2 * 1.96 * found.stderr[0], rel=1e-4)


def test_about_95_of_100_intervals_hold_the_true_rating() -> None:
    truth = np.array([0.9, 0.2, -0.1, -1.0])
    rng, held = np.random.default_rng(0), []
    chance = np.triu(1 / (1 + np.exp(truth - truth[:, None])), 1)
    for _ in range(100):
        wins = np.triu(rng.binomial(200, chance), 1)
        found = elo_from_results(wins + np.triu(200 - wins, 1).T, np.zeros((4, 4)), list("abcd"), prior=1e-3)
        held.append(np.abs(found.scores - found.scores.mean() - POINTS * truth) <= 1.96 * found.stderr)
    assert 0.91 <= np.mean(held) <= 0.99


def test_ratings_of_a_transitive_env_are_recovered() -> None:
    truth = np.array([0.8, 0.3, -0.1, -1.0])
    share = 1 / (1 + np.exp(truth - truth[:, None]))
    found = elo(PayoffTensor.two_player(2 * share - 1, list("abcd")), prior=1e-6)
    assert found.scores - found.scores.mean() == pytest.approx(POINTS * truth, abs=1e-3)
    assert found.misfit == pytest.approx(0.0, abs=1e-6)
    assert found.warning is None
    assert not found.stderr.any()


def test_an_undefeated_strategy_has_the_finite_rating_at_which_prior_and_results_balance() -> None:
    found = elo_from_results([[0, 10], [0, 0]], NO_DRAWS2, ["a", "b"])
    r = found.scores[0] / POINTS
    assert found.scores[1] == pytest.approx(-found.scores[0])
    # Slope zero: 10 (1 - s(2r)) = s(r) - 1/2
    assert 10 / (1 + math.exp(2 * r)) == pytest.approx(1 / (1 + math.exp(-r)) - 0.5, rel=1e-9)


def test_matches_told_from_both_seats_count_once() -> None:
    seen = payoffs_from_results([[0, 75], [25, 0]], NO_DRAWS2, ["a", "b"])
    assert seen.is_mirrored
    lone = elo(PayoffTensor.two_player([[0, 0.5], [-0.5, 0]], ["a", "b"], count=[[0, 100], [100, 0]]))
    assert elo(seen).stderr == pytest.approx(lone.stderr)


def test_a_draw_counts_half() -> None:
    drawn = elo_from_results(NO_DRAWS2, [[0, 40], [40, 0]], ["a", "b"])
    assert drawn.scores == pytest.approx([0, 0], abs=1e-9)
    mixed = elo_from_results([[0, 50], [0, 0]], [[0, 50], [50, 0]], ["a", "b"])
    plain = elo_from_results([[0, 75], [25, 0]], NO_DRAWS2, ["a", "b"])
    assert mixed.scores == pytest.approx(plain.scores)


def test_win_shares_and_standard_errors_are_mean_and_deviation_of_the_single_results() -> None:
    results = [1.0] * 3 + [0.5] * 4 + [0.0]  # of a against b; a draw is half a win
    found = payoffs_from_results([[0, 3, 0], [1, 0, 0], [0, 1, 0]], [[0, 4, 0], [4, 0, 0], [0, 0, 0]], list("abc"))
    assert found.mean[0, 0, 1] == pytest.approx(np.mean(results))
    assert found.mean[0, 1, 0] == found.mean[1, 0, 1] == pytest.approx(1 - np.mean(results))
    error = np.std(results, ddof=1) / math.sqrt(len(results))
    assert found.stderr[:, [0, 1], [1, 0]] == pytest.approx(np.full((2, 2), error))
    assert found.stderr[0, 1, 2] == 0.0  # a single match: no deviation is known
    assert np.isnan(found.mean[0, 0, 2])  # never met
    assert found.mean[:, range(3), range(3)] == pytest.approx(np.full((2, 3), 0.5))
    assert found.count.tolist() == [[0, 8, 0], [8, 0, 1], [0, 1, 0]]


def test_two_populations_of_different_sizes_are_rated_on_one_scale() -> None:
    truth = np.array([0.5, -0.1, 0.4, 0.0, -0.8])  # two rows, three columns
    share = 1 / (1 + np.exp(truth[2:] - truth[:2, None]))
    mean = np.stack([2 * share - 1, 1 - 2 * share])
    found = elo(PayoffTensor.exact(MatrixGame(mean)), prior=1e-6)
    assert found.scores - found.scores.mean() == pytest.approx(POINTS * (truth - truth.mean()), abs=1e-2)


@pytest.mark.parametrize(
    ("wins", "draws"),
    [([[0, 1]], NO_DRAWS2), (NO_DRAWS2, [[0, 1], [2, 0]]), ([[0, -1], [0, 0]], NO_DRAWS2), ([[0, np.inf], [0, 0]], NO_DRAWS2),
     (NO_DRAWS2, [[0, -1], [-1, 0]]), (NO_DRAWS2, np.zeros((3, 3)))],
)  # fmt: skip
def test_counts_that_are_none_are_refused(wins: object, draws: object) -> None:
    with pytest.raises(ConfigError, match="of 2 strategies"):
        payoffs_from_results(wins, draws, ["a", "b"])


def test_cyclic_play_gets_equal_ratings_a_large_misfit_and_a_warning_that_names_the_cycle() -> None:
    found = elo(PayoffTensor.two_player([[0, -1, 1], [1, 0, -1], [-1, 1, 0]], ["rock", "paper", "scissors"]))
    assert found.scores == pytest.approx([0, 0, 0], abs=1e-9)
    assert found.misfit == pytest.approx(0.5)
    assert found.warning is not None
    assert "rock > scissors > paper > rock" in found.warning
    assert found.worst[2:] in ((0.0, 0.5), (1.0, 0.5))


def test_two_populations_share_one_scale_and_payoffs_beyond_one_are_scaled_by_their_range() -> None:
    found = elo(PayoffTensor.exact(bimatrix([[3.0, 0.0], [0.0, -3.0]])), prior=1e-6)
    assert found.names == ("player_0: 0", "player_0: 1", "player_1: 0", "player_1: 1")
    assert found.scores[0] == pytest.approx(found.scores[3])
    assert found.scores[0] > found.scores[1]


def test_pairings_not_played_are_left_out_and_strategies_apart_are_named() -> None:
    gaps = elo(PayoffTensor.two_player([[0, 0.5, np.nan], [-0.5, 0, 0.5], [np.nan, -0.5, 0]], list("abc")), prior=1e-6)
    assert np.diff(gaps.scores) == pytest.approx([-400 * math.log10(3)] * 2, rel=1e-4)
    apart = elo(PayoffTensor.two_player([[0, 0.5, np.nan], [-0.5, 0, np.nan], [np.nan, np.nan, 0]], list("abc")))
    assert apart.warning is not None
    assert "1 of 3 strategies" in apart.warning


def test_a_single_strategy_is_rated_at_the_level_of_the_prior() -> None:
    assert elo(PayoffTensor.two_player([[0.0]], ["only"])).table() == [("only", 0.0, 0.0, 0.0)]


def test_those_who_never_met_are_rated_alike() -> None:
    found = elo(
        PayoffTensor(
            np.full((2, 2, 2), np.nan), np.zeros((2, 2, 2)), np.zeros((2, 2)), [["a", "b"], ["x", "y"]], ["p", "q"]
        )
    )
    assert found.scores.tolist() == [0.0] * 4
    assert found.worst[2:] == (0.5, 0.5)
    assert found.misfit == 0.0


def test_wrong_bounds_general_sum_games_and_no_prior_are_refused() -> None:
    with pytest.raises(ConfigError, match="between 0"):
        elo(PayoffTensor.two_player([[0, 0.5], [-0.5, 0]], ["a", "b"]), bounds=(0, 1))
    beyond = PayoffTensor.two_player([[0.5, 1.2], [-0.2, 0.5]], ["a", "b"])  # mirrored, but more than a win
    with pytest.raises(ConfigError, match="between 0"):
        elo(beyond, bounds=(0, 1))
    with pytest.raises(ConfigError, match="alpha_rank"):
        elo(PayoffTensor.exact(bimatrix([[3, 0], [0, 2]], [[2, 0], [0, 3]])))
    with pytest.raises(ConfigError, match="3 players"):
        elo(PayoffTensor.exact(MatrixGame(np.zeros((3, 2, 2, 2)))))
    with pytest.raises(ConfigError, match="prior is 0"):
        elo(PayoffTensor.two_player([[0.0]], ["only"]), prior=0)
    with pytest.raises(ConfigError, match="draws"):
        elo_from_results([[0, 1], [1, 0]], [[0, 1], [0, 0]], ["a", "b"])
