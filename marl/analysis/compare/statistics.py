"""Statistics of few runs (Agarwal et al., 2021): interquartile means, bootstrap intervals, probability of improvement.

    IQM(x)    = mean of the middle half of x                     less shaken by one lucky seed than the mean
    interval  = percentiles of the IQM over resamples            runs are drawn again, with replacement, within each entrant
    P(A > B)  = mean over all pairs of [a > b] + [a = b] / 2     how likely a run of A beats a run of B

Whether two entrants differ is decided by an exact permutation test of ranks: intervals from three or four runs are too
narrow, and would call chance a difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Scores: TypeAlias = NDArray[np.float64]

TRIM = 0.25  # of the values at each end do not count
MOST_SPLITS = 200_000  # beyond that the test uses the normal approximation


def iqm(scores: Scores, axis: int = 0) -> Scores:
    """Mean of the middle half along an axis; with fewer than four values, of all."""
    found: Scores = np.asarray(stats.trim_mean(scores, TRIM, axis=axis), np.float64)
    return found


def resampled(scores: Scores, resamples: int, rng: np.random.Generator) -> Scores:
    """Runs ``[n, ...]`` drawn again with replacement: ``[resamples, n, ...]``."""
    # Whole runs are drawn, with all their steps: values of one run hang together.
    return scores[rng.integers(0, len(scores), (resamples, len(scores)))]


def interval(values: Scores, confidence: float) -> tuple[Scores, Scores]:
    """Percentiles over the first axis that leave out equal shares on both sides."""
    tail = 50.0 * (1.0 - confidence)
    low, high = np.percentile(values, [tail, 100.0 - tail], axis=0)
    return low, high


def improvement(a: Scores, b: Scores) -> Scores:
    """Probability that a run of ``a [..., n]`` beats a run of ``b [..., m]``; equal runs count half."""
    difference = np.sign(a[..., :, None] - b[..., None, :])
    found: Scores = (0.5 + 0.5 * difference).mean(axis=(-1, -2))
    return found


def rank_test(a: Scores, b: Scores) -> float:
    """Two-sided p-value of the hypothesis that both come from the same distribution: how many of all ways to split the runs
    into two groups of these sizes have rank sums at least as far apart."""
    ranks = stats.rankdata(np.concatenate([a, b]))
    if math.comb(len(ranks), len(a)) > MOST_SPLITS:
        return float(stats.mannwhitneyu(a, b, alternative="two-sided", method="asymptotic").pvalue)
    centre = len(a) * (len(ranks) + 1) / 2
    found = abs(ranks[: len(a)].sum() - centre)
    sums = np.array([ranks[list(chosen)].sum() for chosen in combinations(range(len(ranks)), len(a))])
    # Ties have half ranks, whose sums must not be told apart by rounding.
    return float((np.abs(sums - centre) >= found - 1e-9).mean())


def smallest_p(n: int, m: int) -> float:
    """The smallest p-value that ``n`` and ``m`` runs can give: all of one better than all of the other."""
    return min(1.0, 2.0 / math.comb(n + m, n))


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values of several comparisons, raised so that the chance of any false difference stays what it says (Holm, 1979)."""
    order = np.argsort(p_values, kind="stable")
    adjusted, largest = [0.0] * len(p_values), 0.0
    for place, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = largest
    return adjusted
