"""Stationary distributions and fixation probabilities against slow, plain computations."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from marl.errors import ConfigError
from marl.gametheory.game import MatrixGame
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.rank import alpha_rank
from marl.gametheory.rank.alpha import log_fixation
from marl.gametheory.rank.chain import _add_product, _back_substituted, _eliminate_logs, stationary


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
    expected = stationary(rates, hops=2)
    _eliminate_logs(rates, 1, n)
    weights = np.exp(_back_substituted(rates))
    assert weights / weights.sum() == pytest.approx(expected, rel=1e-12)


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


@pytest.mark.parametrize("alpha", [2, 32, 128, 4096])
@pytest.mark.parametrize("shape", [(9, 7), (3, 5, 3)])
def test_strong_selection_gives_the_masses_of_an_elimination_in_sixty_decimal_digits(
    shape: tuple[int, ...], alpha: int
) -> None:
    # Payoffs are multiples of 1/64, so that gains are exact in both arithmetics; some are equal.
    mean = np.random.default_rng(alpha).integers(-128, 129, (len(shape), *shape)) / 64
    found = alpha_rank(PayoffTensor.exact(MatrixGame(mean), symmetric=False), float(alpha)).mass.ravel()
    expected = _decimal_masses(mean, alpha, population_size=50)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("depth", [1.0, 100.0, 3e3, 1e5])
@pytest.mark.parametrize("size", [1, 9, 40])
def test_a_product_of_logarithms_loses_no_digits_whatever_their_range(depth: float, size: int) -> None:
    rng = np.random.default_rng(size)
    left, right, total = (depth * rng.normal(size=shape) for shape in ((7, size), (size, 5), (7, 5)))
    left[2, :], left[3, 0], right[0, 4], total[1, 1], total[2, 2] = (-np.inf,) * 5
    terms = left[:, None, :] + right.T  # [i, j, k]
    expected = np.logaddexp(total, np.logaddexp.reduce(terms, axis=2))
    _add_product(total, left, right)
    assert total == pytest.approx(expected, rel=1e-13, abs=1e-12)


@pytest.mark.parametrize("before", [-1000.0, -990.0, -np.inf])
def test_a_sum_far_below_the_top_of_its_row_and_column_counts_all_its_terms(before: float) -> None:
    # Row and column reach 0, but never at the same k: the terms of [0, 0] are exp(-1000) times 1, 1, exp(-1) and exp(-10).
    left = np.array([[0.0, -1000.0, -1001.0, -1010.0]])
    right = np.array([[-1000.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    total = np.array([[before, 0.0]])
    _add_product(total, left, right)
    old = math.exp(before + 1000)
    assert total == pytest.approx(
        np.array([[math.log(old + 2 + math.exp(-1) + math.exp(-10)) - 1000, math.log(2)]]), rel=1e-14
    )


def _decimal_masses(mean: np.ndarray, alpha: int, population_size: int) -> list[float]:
    """Stationary masses of the chain over profiles, state by state, with numbers that never underflow."""
    profiles = list(product(*(range(count) for count in mean.shape[1:])))
    with localcontext() as context:
        context.prec = 60
        p = [[Decimal(0)] * len(profiles) for _ in profiles]
        for i, j in product(range(len(profiles)), repeat=2):
            differs = [k for k, (a, b) in enumerate(zip(profiles[i], profiles[j], strict=True)) if a != b]
            if len(differs) == 1:
                gain = Decimal(mean[differs[0]][profiles[j]]) - Decimal(mean[differs[0]][profiles[i]])
                x = (-alpha * gain).exp()
                p[i][j] = (1 - x) / (1 - x**population_size) if gain else Decimal(1) / population_size
        outflow = [Decimal(0)] * len(profiles)
        for k in range(len(profiles) - 1, 0, -1):
            outflow[k] = sum(p[k][:k], Decimal(0))
            for i, j in product(range(k), repeat=2):
                if i != j:
                    p[i][j] += p[i][k] * p[k][j] / outflow[k]
        weights = [Decimal(1)]
        for k in range(1, len(profiles)):
            weights.append(sum((weights[i] * p[i][k] for i in range(k)), Decimal(0)) / outflow[k])
        return [float(weight / sum(weights)) for weight in weights]


def test_a_pairing_that_nobody_has_played_is_named() -> None:
    table = np.array([[0.0, 1.0], [np.nan, 0.0]])
    with pytest.raises(ConfigError, match="2 of 4 pairings have no payoff yet, the first is a against b"):
        alpha_rank(PayoffTensor.two_player(table, ["a", "b"]))
