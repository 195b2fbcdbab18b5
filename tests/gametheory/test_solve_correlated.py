"""Correlated and coarse correlated equilibria by each objective, against definitions and other solvers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from marl.errors import ConfigError, UnknownNameError
from marl.gametheory.classics import classic_game, random_game
from marl.gametheory.game import MatrixGame
from marl.gametheory.solve import all_equilibria, coarse_correlated, correlated, deviation_gains

OBJECTIVES = ("welfare", "egalitarian", "entropy", "any", "player:0", "player:1")


def slow_gains(game: MatrixGame, distribution: np.ndarray, coarse: bool) -> list[float]:
    """From the definition, cell by cell."""
    gains = []
    for player, count in enumerate(game.shape):
        swap = np.zeros((count, count))
        for joint in np.ndindex(game.shape):
            for other in range(count):
                moved = (*joint[:player], other, *joint[player + 1 :])
                gain = game.payoffs[(player, *moved)] - game.payoffs[(player, *joint)]
                swap[joint[player], other] += distribution[joint] * gain
        gains.append(max(0.0, swap.sum(0).max()) if coarse else swap.max(1).sum())
    return gains


@pytest.mark.parametrize("shape", [(2, 2), (3, 4), (2, 3, 2), (8, 8)])
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.slow
def test_nobody_gains_by_deviating_from_what_is_returned(shape: tuple[int, ...], objective: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(3):
        game = random_game(shape, rng)
        for solve, coarse in ((correlated, False), (coarse_correlated, True)):
            found = solve(game, objective)
            assert found.distribution.sum() == pytest.approx(1.0)
            assert found.distribution.min() >= 0
            assert found.gains == pytest.approx(slow_gains(game, found.distribution, coarse), abs=1e-9)
            assert found.max_gain == max(found.gains)
            assert found.max_gain < 1e-8
            assert found.converged


def test_gains_from_a_random_distribution_follow_the_definition() -> None:
    rng = np.random.default_rng(1)
    game = random_game((3, 2, 4), rng)
    distribution = rng.dirichlet(np.ones(24)).reshape(3, 2, 4)
    for coarse in (False, True):
        gains = deviation_gains(game, distribution, coarse)
        assert gains == pytest.approx(slow_gains(game, distribution, coarse))
        assert gains.max() > 0.05


def test_each_objective_is_at_least_as_good_in_its_own_coin_as_all_others() -> None:
    rng = np.random.default_rng(2)
    for _ in range(5):
        game = random_game((3, 3), rng)
        for solve in (correlated, coarse_correlated):
            found = {objective: solve(game, objective) for objective in OBJECTIVES}
            coins = {
                "welfare": lambda s: s.welfare,
                "egalitarian": lambda s: s.values.min(),
                "entropy": lambda s: s.entropy,
                "player:0": lambda s: s.values[0],
                "player:1": lambda s: s.values[1],
            }
            for objective, coin in coins.items():
                assert all(coin(found[objective]) >= coin(other) - 1e-8 for other in found.values())
        assert coarse_correlated(game).welfare >= correlated(game).welfare - 1e-9


def test_no_nash_equilibrium_has_more_welfare_than_the_best_correlated_one() -> None:
    rng = np.random.default_rng(3)
    for _ in range(10):
        game = random_game((4, 4), rng)
        best = correlated(game, "welfare").welfare
        assert all(s.values.sum() <= best + 1e-8 for s in all_equilibria(game))


def test_in_the_prisoners_dilemma_every_objective_ends_in_mutual_defection() -> None:
    for objective in OBJECTIVES:
        found = correlated(classic_game("prisoners_dilemma"), objective)
        assert found.distribution == pytest.approx(np.array([[0, 0], [0, 1]]), abs=1e-9)


def test_the_largest_entropy_agrees_with_a_general_purpose_optimiser() -> None:
    game = classic_game("aumann_chicken")
    found = correlated(game, "entropy")
    p0, p1 = game.payoffs

    def swaps(p: np.ndarray) -> np.ndarray:
        p = p.reshape(2, 2)
        row = [p[a] @ (p0[1 - a] - p0[a]) for a in (0, 1)]
        column = [p[:, b] @ (p1[:, 1 - b] - p1[:, b]) for b in (0, 1)]
        return -np.array(row + column)

    slow = minimize(
        lambda p: float((p * np.log(p)).sum()),
        np.full(4, 0.25),
        method="SLSQP",
        bounds=[(1e-9, 1)] * 4,
        constraints=[{"type": "eq", "fun": lambda p: p.sum() - 1}, {"type": "ineq", "fun": swaps}],
        options={"ftol": 1e-14},
    )
    assert found.entropy == pytest.approx(-slow.fun, abs=1e-6)
    assert found.distribution.ravel() == pytest.approx(slow.x, abs=1e-4)


def test_a_large_offset_of_payoffs_does_not_spoil_the_answer() -> None:
    game = random_game((5, 6), np.random.default_rng(4))
    moved = MatrixGame(game.payoffs + 1e6)
    for objective in OBJECTIVES:
        assert correlated(moved, objective).max_gain < 1e-7
    assert correlated(moved).welfare - 2e6 == pytest.approx(correlated(game).welfare, abs=1e-6)


def test_an_unknown_objective_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'welfare'"):
        correlated(classic_game("chicken"), "wellfare")
    with pytest.raises(UnknownNameError, match="player:0, player:1"):
        coarse_correlated(classic_game("chicken"), "player:2")


def test_a_distribution_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"shape \(4,\); expected \(2, 2\)"):
        deviation_gains(classic_game("chicken"), np.full(4, 0.25))
