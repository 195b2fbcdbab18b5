"""Statistics of few runs against numbers worked out by hand and against scipy."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from marl.analysis.compare.statistics import holm, improvement, interval, iqm, rank_test, resampled, smallest_p


def test_the_interquartile_mean_is_the_mean_of_the_middle_half() -> None:
    assert iqm(np.array([100.0, 1, 2, 3, 4, 5, 6, -90])) == pytest.approx((2 + 3 + 4 + 5) / 4)
    assert iqm(np.array([0.0, 1, 5, 9, 100])) == pytest.approx(5.0)  # one of five is cut at each end
    assert iqm(np.array([1.0, 2, 6])) == pytest.approx(3.0)  # too few to cut
    assert iqm(np.array([[1.0, 10], [3, 30]])).tolist() == [2.0, 20.0]


def test_the_probability_of_improvement_counts_pairs_and_halves_ties() -> None:
    assert improvement(np.array([1.0, 3]), np.array([0.0, 2, 3])) == pytest.approx((1 + 0 + 0 + 1 + 1 + 0.5) / 6)
    a, b = np.array([1.0, 5, 2]), np.array([4.0, 0])
    assert improvement(a, b) + improvement(b, a) == pytest.approx(1.0)


def test_resamples_draw_whole_runs_with_replacement() -> None:
    runs = np.array([[1.0, 10], [2, 20], [3, 30]])
    drawn = resampled(runs, 500, np.random.default_rng(0))
    assert drawn.shape == (500, 3, 2)
    assert np.array_equal(drawn[..., 1], 10 * drawn[..., 0])  # points of a run stay together
    assert drawn[..., 0].mean() == pytest.approx(2.0, abs=0.1)


def test_an_interval_leaves_out_equal_shares_on_both_sides() -> None:
    low, high = interval(np.arange(101.0), 0.9)
    assert (low, high) == (pytest.approx(5.0), pytest.approx(95.0))


def test_the_rank_test_counts_all_ways_to_split_the_runs() -> None:
    assert rank_test(np.array([4.0, 5, 6]), np.array([1.0, 2, 3])) == pytest.approx(2 / 20)
    assert rank_test(np.array([1.0, 1, 1]), np.array([1.0, 1, 1])) == 1.0
    assert smallest_p(3, 3) == pytest.approx(0.1)
    assert smallest_p(4, 4) == pytest.approx(2 / 70)
    rng = np.random.default_rng(3)
    for n, m in ((4, 5), (6, 3), (5, 5)):
        a, b = rng.normal(0.8, 1, n), rng.normal(0, 1, m)
        assert rank_test(a, b) == pytest.approx(stats.mannwhitneyu(a, b, method="exact").pvalue)


def test_the_rank_test_with_ties_equals_a_slow_loop() -> None:
    a, b = np.array([1.0, 2, 2, 5]), np.array([2.0, 0, 0])
    both, u = np.concatenate([a, b]), float(improvement(a, b))
    far = [
        abs(float(improvement(both[list(c)], np.delete(both, c))) - 0.5) >= abs(u - 0.5) - 1e-12
        for c in combinations(range(7), 4)
    ]
    assert rank_test(a, b) == pytest.approx(sum(far) / len(far))


def test_many_runs_are_tested_by_the_normal_approximation() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(1, 1, 40), rng.normal(0, 1, 40)
    assert rank_test(a, b) == pytest.approx(stats.mannwhitneyu(a, b, method="asymptotic").pvalue)


def test_holm_raises_p_values_and_keeps_their_order() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([0.02]) == [0.02]
