"""The steps along the logit branch: points lie on the curve, slopes are differences, and what was lost says so."""

from __future__ import annotations

import numpy as np
import pytest

from marl.gametheory.classics import classic_game, random_game
from marl.gametheory.game import bimatrix
from marl.gametheory.solve import logit_qre
from marl.gametheory.solve.qre import _Curve, branch, unit_game


def curve_of(shape: tuple[int, ...], seed: int = 0) -> _Curve:
    _, game = unit_game(random_game(shape, np.random.default_rng(seed)))
    return _Curve(game, np.random.default_rng(seed).normal(size=sum(shape)))


@pytest.mark.parametrize("shape", [(2, 3), (2, 2, 3)])
def test_the_slope_is_that_of_small_differences(shape: tuple[int, ...]) -> None:
    curve = curve_of(shape)
    z = np.random.default_rng(1).random(sum(shape) + 1)
    error, slope = curve.error_and_slope(z)
    for i in range(len(z)):
        step = 1e-6 * (np.arange(len(z)) == i)
        ahead, behind = curve.error_and_slope(z + step)[0], curve.error_and_slope(z - step)[0]
        assert slope[:, i] == pytest.approx((ahead - behind) / 2e-6, abs=1e-7)
    assert error.shape == (sum(shape),)


def test_the_curve_starts_at_the_bias_and_its_tangent_keeps_its_way() -> None:
    curve = curve_of((2, 3))
    z = curve.start()
    assert z[-1] == 0.0
    assert curve.error_and_slope(z)[0] == pytest.approx(np.zeros(5), abs=1e-12)
    weights = np.exp(curve.bias)
    assert curve.profile(z)[0] == pytest.approx(weights[:2] / weights[:2].sum())
    assert curve.profile(z)[1] == pytest.approx(weights[2:] / weights[2:].sum())
    for sign in (1.0, -1.0):
        tangent = curve.tangent(z, np.r_[np.zeros(5), sign])
        assert np.linalg.norm(tangent) == pytest.approx(1.0)
        assert curve.error_and_slope(z)[1] @ tangent == pytest.approx(np.zeros(5), abs=1e-12)
        assert tangent[-1] * sign > 0


def test_newtons_method_stays_in_its_plane_and_counts_its_steps() -> None:
    curve = curve_of((3, 3))
    z = curve.start()
    tangent = curve.tangent(z, np.r_[np.zeros(6), 1.0])
    moved, steps = curve.follow(z, tangent, 0.3)
    assert 1 <= steps <= 8
    assert curve.error_and_slope(moved)[0] == pytest.approx(np.zeros(6), abs=1e-10)
    assert (moved - z) @ tangent == pytest.approx(0.3)
    landed, steps = curve.land(z, moved, moved[-1] / 3)
    assert steps > 0
    assert landed[-1] == pytest.approx(moved[-1] / 3, abs=1e-12)
    assert curve.error_and_slope(landed)[0] == pytest.approx(np.zeros(6), abs=1e-10)
    assert curve.correct(moved, tangent)[1] == 1  # it was there already


def test_newtons_method_that_is_lost_says_so_with_no_steps() -> None:
    curve = curve_of((3, 3))
    upwards = np.r_[np.zeros(6), 1.0]
    outside = np.r_[np.full(6, 0.5), -0.5]  # the branch begins at s = 0
    assert curve.correct(outside, upwards)[1] == 0
    nowhere = np.r_[np.full(6, np.nan), 1.0]
    assert curve.correct(nowhere, upwards)[1] == 0
    _, sharp = unit_game(classic_game("matching_pennies"))
    far = np.r_[1.0, 0.0, 0.4, 0.6, 9.0]  # steps from so far go round in circles
    moved, steps = _Curve(sharp, np.zeros(4)).correct(far, np.r_[np.zeros(4), 1.0])
    assert steps == 0
    assert np.isfinite(moved).all()


def test_a_step_that_leaves_the_branch_is_taken_back() -> None:
    _, game = unit_game(classic_game("stag_hunt"))
    for point in branch(game, 1e4):
        x = point.profile
        weights = [np.exp(point.rationality * (game.deviations(x, i) - game.deviations(x, i).max())) for i in range(2)]
        for strategy, weight in zip(x, weights, strict=True):
            assert strategy == pytest.approx(weight / weight.sum(), abs=1e-6)
    curve = _Curve(game, np.zeros(4))
    z = curve.start()
    tangent = curve.tangent(z, np.r_[np.zeros(4), 1.0])
    stays, steps = curve.follow(z, -tangent, 1.0)  # before the beginning there is no branch
    assert steps == 0
    assert stays is z or np.isfinite(stays).all()


def test_where_all_payoffs_are_alike_everybody_plays_evenly_however_rational() -> None:
    spread, scaled = unit_game(bimatrix([[7.0, 7.0], [7.0, 7.0]], [[-2.0, -2.0], [-2.0, -2.0]]))
    assert spread == 1.0
    assert scaled.payoffs.tolist() == np.zeros((2, 2, 2)).tolist()
    found = logit_qre(bimatrix([[7.0, 7.0], [7.0, 7.0]], [[-2.0, -2.0], [-2.0, -2.0]]), 5.0)
    assert [strategy.tolist() for strategy in found.profile] == [[0.5, 0.5], [0.5, 0.5]]
    assert found.converged
    assert found.rationality == pytest.approx(5.0)
