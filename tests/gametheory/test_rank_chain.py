"""Stationary distributions and fixation probabilities against slow, plain computations."""

import math
from fractions import Fraction

import numpy as np
import pytest

from marl.gametheory.rank.alpha import log_fixation
from marl.gametheory.rank.chain import _back_substituted, _eliminated_logs, stationary


def random_rates(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.01, 1.0, (n, n))


@pytest.mark.parametrize("n", [2, 3, 31, 32, 33, 34, 100])
def test_nothing_flows_net_out_of_a_state(n: int) -> None:
    rates = random_rates(n, n)
    np.fill_diagonal(rates, 0)
    pi = stationary(np.log(np.where(rates > 0, rates, 1)) + np.where(rates > 0, 0, -np.inf), hops=1)
    assert pi @ rates == pytest.approx(pi * rates.sum(axis=1), rel=1e-12)


@pytest.mark.parametrize("n", [2, 32, 33, 70])
def test_elimination_of_logarithms_gives_the_same_distribution(n: int) -> None:
    rates = np.log(random_rates(n, 1))
    rates[0, n - 1] = -np.inf if n > 2 else rates[0, n - 1]
    np.fill_diagonal(rates, -np.inf)
    weights = np.exp(_back_substituted(_eliminated_logs(rates)))
    assert weights / weights.sum() == pytest.approx(stationary(rates, hops=2), rel=1e-12)


@pytest.mark.parametrize("depth", [1.0, 100.0, 1e4, 1e8])
def test_two_classes_linked_by_tiny_rates_share_the_mass_as_the_rates_say(depth: float) -> None:
    # Pairs {0, 1} and {2, 3} mix at rate 1; 1 -> 2 at exp(-depth), 3 -> 0 three times as fast: mass 3/4 to 1/4.
    logs = np.full((4, 4), -np.inf)
    logs[0, 1] = logs[1, 0] = logs[2, 3] = logs[3, 2] = 0.0
    logs[1, 2], logs[3, 0] = -depth, math.log(3) - depth
    pi = stationary(logs, hops=2)
    if depth > 50:
        assert pi == pytest.approx([0.375, 0.375, 0.125, 0.125], rel=1e-6)
    assert pi[1] == pytest.approx(3 * pi[3], rel=1e-6)


def test_fixation_probabilities_equal_the_sum_over_numbers_of_mutants_in_exact_fractions() -> None:
    # With exp(-u) = x the chance is 1 / (1 + x + ... + x^(m-1)).
    for x in (Fraction(1, 3), Fraction(3), Fraction(999, 1000), Fraction(1)):
        expected = 1 / sum(x**k for k in range(50))
        found = log_fixation(np.array(-math.log(x)), 50)
        assert math.exp(found) == pytest.approx(float(expected), rel=1e-10)


def test_fixation_never_overflows_and_falls_by_m_minus_1_per_unit_of_loss() -> None:
    with np.errstate(all="raise", under="ignore"):
        logs = log_fixation(np.array([-1e8, -1e3, 0.0, 1e-300, 1e3, 1e8]), 50)
    assert logs == pytest.approx([-49e8, -49e3, -math.log(50), -math.log(50), 0.0, 0.0])
