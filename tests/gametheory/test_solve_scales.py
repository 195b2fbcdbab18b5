"""Payoffs of very different sizes: what counts as rounding depends on what is at stake, not on the largest payoff."""

import math

import numpy as np
import pytest

from marl.errors import ConfigError
from marl.gametheory.classics import classic_game, game_of, random_game
from marl.gametheory.game import MatrixGame, bimatrix
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.rank import alpha_rank, responses
from marl.gametheory.solve import (
    all_equilibria,
    correlated,
    fictitious_play,
    lemke_howson,
    logit_qre,
    nash,
    projected_replicator,
    pure_equilibria,
    regret_matching,
)
from marl.gametheory.solve.solution import solution

LOPSIDED = bimatrix([[1e10, 0], [2, 1]], [[1, 2], [0, 1]])
"""The column player always prefers column 1, where the row player prefers row 1, by 1."""


def test_a_huge_payoff_that_nobody_gets_makes_no_other_equilibrium() -> None:
    assert pure_equilibria(LOPSIDED) == [(1, 1)]
    for found in (nash(LOPSIDED), *all_equilibria(LOPSIDED)):
        assert [s.tolist() for s in found.profile] == [[0, 1], [0, 1]]
        assert found.converged
    wrong = solution(LOPSIDED, LOPSIDED.pure([0, 1]), "guess")
    assert (wrong.nash_conv, wrong.converged) == (1.0, False)


@pytest.mark.parametrize("objective", ["welfare", "egalitarian", "entropy", "any", "player:0"])
def test_no_mediator_suggests_what_loses_one_beside_a_huge_payoff(objective: str) -> None:
    found = correlated(LOPSIDED, objective)
    assert found.distribution.tolist() == [[0, 0], [0, 1]]
    assert (found.nash_conv, found.converged) == (0.0, True)


@pytest.mark.parametrize("penalty", [-1e2, -1e8, -1e10, -1e12])
def test_the_penalty_game_has_five_equilibria_however_large_the_penalty_is(penalty: float) -> None:
    game = classic_game("penalty", penalty)
    found = all_equilibria(game)
    assert (len(found), found.degenerate) == (5, False)
    assert found.nash_conv < 1e-9
    best = nash(game)
    assert best.nash_conv < 1e-9
    assert best.converged
    mixed = found.solutions[3].profile  # one plays a in a sixth of the games, so that the other's c earns 5/6, like b
    assert sorted(np.round(mixed[0], 9)) == pytest.approx([0, 1 / 6, 5 / 6], abs=1e-8)


def test_a_mixed_equilibrium_with_a_tiny_weight_is_found() -> None:
    """The row player is indifferent where the column player risks 1e10 with probability 1e-10."""
    found = all_equilibria(bimatrix([[1e10, 0], [2, 1]], [[2, 1], [0, 1]]))
    assert (len(found), found.degenerate) == (3, False)
    assert found.solutions[2].profile[1][0] == pytest.approx(1e-10, rel=1e-6)


def test_small_payoffs_are_a_game_like_any_other() -> None:
    dilemma = classic_game("prisoners_dilemma")
    small = MatrixGame(dilemma.payoffs * 1e-10, dilemma.actions)
    assert not small.is_constant_sum
    assert not small.is_common
    assert pure_equilibria(small) == [(1, 1)]
    assert nash(small).profile[0].tolist() == [0, 1]
    wrong = solution(small, small.pure([0, 0]), "guess")
    assert (wrong.nash_conv, wrong.converged) == (pytest.approx(4e-10), False)
    for size in (1.0, 1e-10):
        payoffs = PayoffTensor.exact(MatrixGame(dilemma.payoffs * size, dilemma.actions))
        assert alpha_rank(payoffs).scores == pytest.approx([0, 1], abs=1e-6)
        assert responses(payoffs).sinks == (("defect",),)


def test_the_same_game_with_other_units_per_player_has_the_same_equilibria() -> None:
    for seed in range(10):
        game = random_game((3, 4), seed)
        moved = MatrixGame(game.payoffs * np.array([1e9, 1e-9]).reshape(2, 1, 1))
        here, there = all_equilibria(game), all_equilibria(moved)
        assert len(here) == len(there)
        for a, b in zip(here, there, strict=True):
            assert b.converged
            assert np.concatenate(b.profile) == pytest.approx(np.concatenate(a.profile), abs=1e-8)


def test_the_largest_entropy_is_found_where_the_first_search_stops_early() -> None:
    rng = np.random.default_rng(1)
    shapes = [(3, 3), (2, 4), (2, 2, 2), (2, 3, 2)]
    for k in range(18):
        game = random_game(shapes[k % 4], rng)
    found = correlated(game, "entropy")
    assert found.converged
    assert found.nash_conv < 1e-12
    assert found.entropy == pytest.approx(
        1.00288834, abs=1e-7
    )  # the value of the dual, and of SLSQP from another start


def test_a_sharp_logit_equilibrium_is_judged_by_its_rationality() -> None:
    found = logit_qre(classic_game("chicken"), 1e5)
    assert found.converged
    assert found.nash_conv < 1e-3


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda g: fictitious_play(g, 2.5), "iterations is 2.5"),  # type: ignore[arg-type]
        (lambda g: regret_matching(g, 2.5), "iterations is 2.5"),  # type: ignore[arg-type]
        (lambda g: projected_replicator(g, 0), "iterations is 0"),
        (lambda g: logit_qre(g, "x"), "rationality is 'x'"),  # type: ignore[arg-type]
        (lambda g: lemke_howson(g, 1.5), "label 1.5"),  # type: ignore[arg-type]
        (lambda g: game_of({"gaem": "x"}), "Did you mean 'game'"),
        (lambda g: alpha_rank(PayoffTensor.exact(g), population_size=2.5), "population_size is 2.5"),  # type: ignore[arg-type]
        (lambda g: alpha_rank(PayoffTensor.exact(g), local_selection=False), "alpha = inf"),
        (lambda g: alpha_rank(PayoffTensor.exact(g), alpha="x"), "alpha is x"),  # type: ignore[arg-type]
    ],
)
def test_settings_without_meaning_are_refused(call: object, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        call(classic_game("chicken"))  # type: ignore[operator]


def test_local_selection_is_for_one_population() -> None:
    pennies = PayoffTensor.exact(classic_game("matching_pennies"))
    with pytest.raises(ConfigError, match="one population per player"):
        alpha_rank(pennies, alpha=1.0, local_selection=False)
    assert alpha_rank(pennies, alpha=math.inf).scores == pytest.approx([0.5] * 4)


def test_a_random_game_may_be_asked_for_by_its_seed() -> None:
    assert np.array_equal(random_game((3, 3), 7).payoffs, random_game((3, 3), np.random.default_rng(7)).payoffs)
