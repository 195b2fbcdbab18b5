"""Logit quantal response equilibria: fixed points, known limits, and the way between."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq

from marl.errors import ConfigError
from marl.gametheory.classics import classic_game, random_game
from marl.gametheory.game import MatrixGame, bimatrix
from marl.gametheory.solve import all_equilibria, logit_qre
from marl.gametheory.solve.qre import branch, unit_game


@pytest.mark.parametrize("shape", [(2, 2), (3, 4), (8, 8), (3, 3, 3), (2, 2, 2, 2)])
def test_every_answer_is_a_fixed_point_of_the_logit_response(shape: tuple[int, ...]) -> None:
    game = random_game(shape, np.random.default_rng(0))
    for rationality in (0.3, 3.0, 30.0, 300.0):
        found = logit_qre(game, rationality)
        assert found.converged
        assert found.rationality == pytest.approx(rationality)
        for player, strategy in enumerate(found.profile):
            weights = np.exp(rationality * (game.deviations(found.profile, player)))
            assert strategy == pytest.approx(weights / weights.sum(), abs=1e-8)
        assert found.residual < 1e-8
        assert found.nash_conv == game.nash_conv(found.profile)


def test_at_rationality_zero_all_play_uniformly() -> None:
    found = logit_qre(random_game((3, 2, 4), np.random.default_rng(1)), 0.0)
    for strategy in found.profile:
        assert strategy == pytest.approx(1 / len(strategy))
    assert found.converged


def test_symmetric_chicken_follows_the_one_equation_it_has() -> None:
    # Both swerve with x: x / (1 - x) = exp(lambda (u_swerve - u_straight)) = exp(lambda (9 - 10 x)).
    for rationality in (0.1, 1.0, 10.0):

        def off(x: float, rationality: float = rationality) -> float:
            return float(np.log(x / (1 - x)) - rationality * (9 - 10 * x))

        expected = brentq(off, 1e-9, 1 - 1e-9, xtol=1e-13)
        found = logit_qre(classic_game("chicken"), rationality)
        assert found.profile[0][0] == pytest.approx(expected, abs=1e-9)
        assert found.profile[1][0] == pytest.approx(expected, abs=1e-9)


def test_rational_players_end_in_a_nash_equilibrium() -> None:
    rng = np.random.default_rng(2)
    for _ in range(10):
        game = random_game((3, 3), rng)
        found = logit_qre(game, 1e5)
        gaps = [
            max(np.abs(a - b).max() for a, b in zip(found.profile, s.profile, strict=True))
            for s in all_equilibria(game)
        ]
        assert min(gaps) < 1e-2
        assert found.nash_conv < 1e-3


def test_rationality_counts_per_unit_of_payoff() -> None:
    game = random_game((3, 3), np.random.default_rng(3))
    tenfold = MatrixGame(10 * game.payoffs + 7)
    for a, b in zip(logit_qre(game, 5.0).profile, logit_qre(tenfold, 0.5).profile, strict=True):
        assert a == pytest.approx(b, abs=1e-9)


@pytest.mark.parametrize("seed", [25, 85])
def test_the_branch_is_followed_where_it_turns_back_and_the_first_crossing_counts(seed: int) -> None:
    spread, scaled = unit_game(bimatrix(*np.random.default_rng(seed).integers(0, 10, (2, 4, 4))))
    points = list(branch(scaled, until=500.0))
    rationality = np.array([point.rationality for point in points])
    turn = int(np.flatnonzero(np.diff(rationality) < -0.1)[0])  # it does turn back
    assert rationality[-1] == pytest.approx(500.0)
    for point in points:
        for player, strategy in enumerate(point.profile):
            weights = np.exp(point.rationality * scaled.deviations(point.profile, player))
            assert strategy == pytest.approx(weights / weights.sum(), abs=1e-8)
    # A rationality that the branch passes three times: the answer is the point of the first time.
    between = float(rationality[turn] - 0.05)
    found, before = logit_qre(scaled, between), points[int(np.argmax(rationality > between)) - 1]
    assert found.converged
    assert max(np.abs(a - b).max() for a, b in zip(found.profile, before.profile, strict=True)) < 0.3
    assert spread == 9.0


@pytest.mark.parametrize("rationality", [-1.0, float("nan"), float("inf")])
def test_impossible_rationalities_are_refused(rationality: float) -> None:
    with pytest.raises(ConfigError, match="rationality is"):
        logit_qre(classic_game("chicken"), rationality)


def test_without_rationality_everybody_plays_evenly_and_nothing_is_followed() -> None:
    found = logit_qre(classic_game("chicken"), 0.0)
    assert np.concatenate(found.profile) == pytest.approx([0.5] * 4)
    assert (found.iterations, found.rationality, found.converged) == (0, 0.0, True)
