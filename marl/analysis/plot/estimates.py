"""One number for many envs (Agarwal et al., 2021, *Deep reinforcement learning at the edge of the statistical precipice*).

Scores of one algorithm are a list with an array per env; arrays lead with the runs, or with ``[resamples, runs]``.

    median          = median over envs of the mean over runs        half of the envs may be lost unseen
    IQM             = mean of the middle half of all runs           the paper's choice
    mean            = mean over envs of the mean over runs          one env may outweigh the others
    optimality gap  = 1 - mean of min(score, 1)                     how far from 1; less is better
    profile(tau)    = share of runs with a score above tau
    P(A > B)        = mean over envs of P(a run of A beats a run of B)

Intervals are percentiles of a stratified bootstrap: in every env the runs are drawn again with replacement, independently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from marl.analysis.compare.statistics import Scores, improvement, interval, iqm, resampled

Strata: TypeAlias = Sequence[Scores]
"""Scores by env: runs along the last axis."""
Estimate: TypeAlias = Callable[[Strata], Scores]


def _means(scores: Strata) -> Scores:
    """Mean over runs of each env, envs along the last axis."""
    return np.stack([env.mean(axis=-1) for env in scores], axis=-1)


def mean(scores: Strata) -> Scores:
    found: Scores = _means(scores).mean(axis=-1)
    return found


def median(scores: Strata) -> Scores:
    return np.asarray(np.median(_means(scores), axis=-1))


def pooled_iqm(scores: Strata) -> Scores:
    return iqm(np.concatenate(scores, axis=-1), axis=-1)


def optimality_gap(scores: Strata) -> Scores:
    found: Scores = 1.0 - mean([np.minimum(env, 1.0) for env in scores])
    return found


AGGREGATES: Mapping[str, Estimate] = {
    "median": median,
    "IQM": pooled_iqm,
    "mean": mean,
    "optimality gap": optimality_gap,
}


def profile(scores: Strata, thresholds: Scores) -> Scores:
    """Share of runs above each threshold, thresholds along the last axis; every env counts alike."""
    shares = [(env[..., None] > thresholds).mean(axis=-2) for env in scores]
    found: Scores = np.mean(shares, axis=0)
    return found


def better(a: Strata, b: Strata) -> Scores:
    """Probability that a run of ``a`` beats a run of ``b`` in the same env, averaged over envs."""
    found: Scores = np.mean([improvement(mine, yours) for mine, yours in zip(a, b, strict=True)], axis=0)
    return found


def drawn_again(scores: Strata, resamples: int, rng: np.random.Generator) -> list[Scores]:
    """The stratified bootstrap: ``[resamples, runs]`` for each env."""
    return [resampled(env, resamples, rng) for env in scores]


def band(
    values: Scores,
    statistic: Callable[..., Scores],
    resamples: int,
    confidence: float,
    rng: np.random.Generator,
) -> tuple[Scores, Scores]:
    """Interval of a statistic over the runs of ``values [runs, points]``, point by point."""
    runs, points = values.shape
    # Whole runs are drawn, the same ones at all points: values of one run hang together.
    drawn = rng.integers(0, runs, (resamples, runs))
    low, high = np.empty(points), np.empty(points)
    for point in range(points):
        # One point at a time: all at once would take gigabytes for a hundred runs.
        estimates = statistic(values[:, point][drawn], axis=1)
        low[point], high[point] = interval(estimates, confidence)
    return low, high
