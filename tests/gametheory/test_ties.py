"""Regret matching where actions tie exactly: rounding must not decide. Against rational arithmetic."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from marl.gametheory.game import MatrixGame
from marl.gametheory.solve.dynamics import regret_matching
from marl.gametheory.solve.rounding import WIDE, Ties
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.cfr import CFR, VARIANTS, cfr
from marl.gametheory.tree.sampling import SampledCFR
from marl.gametheory.tree.tree import Tree

from .exact_cfr import ExactCFR, exact_nash_conv

SPLITS = [(4 - k, k) for k in range(5)]


def blotto() -> MatrixGame:
    """Three players lay 4 coins on 2 fields; a field goes to the most coins, shared by those who tie.

    The winner of most fields (shared by those who tie) earns 1 in all, the others lose 1 in all.
    """
    payoffs = np.zeros((3, 5, 5, 5))
    for actions in product(range(5), repeat=3):
        won = [Fraction(0)] * 3
        for field in range(2):
            coins = [SPLITS[a][field] for a in actions]
            holders = [i for i in range(3) if coins[i] == max(coins)]
            for i in holders:
                won[i] += Fraction(1, len(holders))
        winners = [i for i in range(3) if won[i] == max(won)]
        losers = [i for i in range(3) if won[i] != max(won)]
        for i in winners:
            payoffs[(i, *actions)] = 0.0 if not losers else 1 / len(winners)
        for i in losers:
            payoffs[(i, *actions)] = -1 / len(losers)
    return MatrixGame(payoffs)


def as_floats(shares: list[list[Fraction]]) -> list[float]:
    return [float(share) for row in shares for share in row]


def openspiel_blotto() -> Tree:
    return build_tree("openspiel:blotto(coins=4,fields=2,players=3)")


@pytest.mark.parametrize(("variant", "iterations"), [("cfr", 8), ("cfr+", 12), ("dcfr", 12), ("pcfr+", 8)])
def test_cfr_on_three_player_blotto_is_that_of_rational_arithmetic(variant: str, iterations: int) -> None:
    tree = openspiel_blotto()
    exact = ExactCFR(tree, variant).run(iterations).average()
    found = cfr(tree, iterations, variant)
    assert found.strategy == pytest.approx(as_floats(exact), abs=1e-12)
    assert found.nash_conv == pytest.approx(float(exact_nash_conv(tree, exact)), abs=1e-12)


def test_cfr_on_three_player_blotto_has_the_known_nash_conv() -> None:
    assert cfr(openspiel_blotto(), 8, "cfr").nash_conv == pytest.approx(0.06375, abs=1e-12)


def test_cfr_on_four_player_kuhn_poker_has_the_known_nash_conv() -> None:
    # 2.401822916... was worked out with fractions; rounding noise made it 2.41979.
    tree = build_tree("kuhn_poker", {"players": 4})
    exact = ExactCFR(tree, "cfr").run(2).average()
    found = cfr(tree, 2, "cfr")
    assert found.strategy == pytest.approx(as_floats(exact), abs=1e-12)
    assert found.nash_conv == pytest.approx(2.401822916666667, abs=1e-12)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("env", "config", "iterations"),
    [
        ("kuhn_poker", {}, 5),
        ("kuhn_poker", {"players": 3}, 2),
        ("openspiel:goofspiel(num_cards=3,players=2)", {}, 4),
        ("openspiel:matrix_rps", {}, 8),
        ("matrix_game", {"payoffs": [[[0.1, 0.1, 0.1], [0.1, 0.1, 0.1]], [[0.3, 0.3, 0.3], [0.7, 0.7, 0.7]]]}, 8),
    ],
)
def test_every_variant_of_cfr_is_that_of_rational_arithmetic(
    env: str, config: dict, iterations: int, variant: str
) -> None:
    tree = build_tree(env, config)
    exact = as_floats(ExactCFR(tree, variant).run(iterations).average())
    assert CFR(tree, variant).run(iterations).average() == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_ties_are_found_in_every_unit_of_payoffs(unit: float) -> None:
    tree = build_tree("matrix_game", {"payoffs": (np.array(blotto().payoffs) * unit).tolist()})
    assert cfr(tree, 8, "cfr").nash_conv == pytest.approx(0.06375 * unit, rel=1e-9)


def test_a_player_paid_in_small_change_still_regrets() -> None:
    # The second player is paid a billionth of a billionth; uniform play of the first makes it regret.
    payoffs = [[[1.0, -1.0], [-1.0, 1.0]], [[-2e-18, 1e-18], [1e-18, -1e-18]]]
    tree = build_tree("matrix_game", {"payoffs": payoffs})
    solver = CFR(tree, "cfr").run(50)
    assert (solver.regrets[1] != 0.0).any()


@pytest.mark.parametrize("plus", [False, True])
def test_regret_matching_is_that_of_rational_arithmetic(plus: bool) -> None:
    game = blotto()
    exact = exact_regret_matching(game, 10, plus)
    found = regret_matching(game, 10, plus=plus)
    for share, truth in zip(found.profile, exact, strict=True):
        assert share == pytest.approx([float(t) for t in truth], abs=1e-12)


def exact_regret_matching(game: MatrixGame, iterations: int, plus: bool) -> list[list[Fraction]]:
    table = {
        a: [Fraction(float(game.payoffs[(i, *a)])).limit_denominator(100) for i in range(3)]
        for a in product(range(5), repeat=3)
    }
    regrets = [[Fraction(0)] * 5 for _ in range(3)]
    sums = [[Fraction(0)] * 5 for _ in range(3)]
    for t in range(1, iterations + 1):
        played = [shares(row) for row in regrets]
        for i in range(3):
            others = [j for j in range(3) if j != i]
            earned = [Fraction(0)] * 5
            for actions, paid in table.items():
                earned[actions[i]] += (
                    paid[i] * played[others[0]][actions[others[0]]] * played[others[1]][actions[others[1]]]
                )
            value = sum((p * e for p, e in zip(played[i], earned, strict=True)), Fraction(0))
            regrets[i] = [r + e - value for r, e in zip(regrets[i], earned, strict=True)]
            if plus:
                regrets[i] = [max(r, Fraction(0)) for r in regrets[i]]
            sums[i] = [s + (t if plus else 1) * p for s, p in zip(sums[i], played[i], strict=True)]
    return [[s / sum(row, Fraction(0)) for s in row] for row in sums]


def shares(regrets: list[Fraction]) -> list[Fraction]:
    positive = [max(r, Fraction(0)) for r in regrets]
    total = sum(positive, Fraction(0))
    return [p / total for p in positive] if total else [Fraction(1, len(regrets))] * len(regrets)


@pytest.mark.parametrize("sampling", ["external", "outcome"])
def test_sampled_cfr_plays_tied_actions_alike(sampling: str) -> None:
    # Whatever the first player does it earns 0.1: nothing is ever regretted. (Outcome sampling needs payoffs of 0 for that.)
    paid = 0.1 if sampling == "external" else 0.0
    tree = build_tree("matrix_game", {"payoffs": [[[paid] * 3] * 7, [[0.3, 0.7, 0.1]] * 7]})
    solver = SampledCFR(tree, sampling, seed=1).run(300)
    assert solver.average()[:7] == pytest.approx([1 / 7] * 7)


def test_outcome_sampling_forgets_rounding_left_by_large_weights() -> None:
    tree = build_tree("matrix_game", {"game": "matching_pennies"})
    solver = SampledCFR(tree, "outcome")
    for step in (0.3, -0.1, -0.2):  # exactly 0, as floats 2.8e-17
        solver._regret(0, [step, -step], 1e6)
    assert solver.regrets[0] == [0.0, 0.0]


@pytest.mark.parametrize("width", [3, WIDE, WIDE + 1, 100])
def test_equal_regrets_become_equal_and_different_ones_stay(width: int) -> None:
    rng = np.random.default_rng(width)
    levels = np.round(rng.normal(size=width // 3 + 1), 3)
    truth = rng.choice(levels, size=2 * width)
    owner = np.repeat([0, 1], width)
    noisy = truth + rng.uniform(-1e-15, 1e-15, size=2 * width)
    Ties(owner, 1.0).keep(noisy)
    for choices in (slice(0, width), slice(width, None)):
        equal = truth[choices][:, None] == truth[choices][None, :]
        assert ((noisy[choices][:, None] == noisy[choices][None, :]) == equal).all()
    assert noisy == pytest.approx(truth, abs=1e-14)


def test_choices_of_different_sets_are_not_joined_and_small_regrets_remain() -> None:
    regrets = np.array([0.5, 1e-9, 0.5 + 1e-15, -1e-9, 1e-16, 0.0])
    Ties(np.array([0, 0, 1, 1, 2, 2]), 1.0).keep(regrets)
    assert regrets.tolist() == [0.5, 1e-9, 0.5 + 1e-15, -1e-9, 0.0, 0.0]
