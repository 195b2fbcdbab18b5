"""Stationary distributions of Markov chains, however nearly they fall apart.

States are eliminated one by one (Grassmann, Taksar and Heyman, 1985): when state ``k`` is cut out, what passed through it
goes directly,

    P[i, j]  <-  P[i, j] + P[i, k] P[k, j] / sum_{l < k} P[k, l],

and on the way back ``pi[k] = sum_{i < k} pi[i] P[i, k] / s_k``. Nothing is ever subtracted, so every entry of the answer is
right to a few units in the last place, even when classes are left only with probability 1e-200. The diagonal is not used.
Where probabilities are too small for floating-point numbers the same recursion runs on their logarithms.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marl.gametheory.game import Payoffs

Places = NDArray[np.intp]

BLOCK = 32
DEEPEST = 600.0
"""Numbers below exp(-DEEPEST) are treated by their logarithms."""
SMALL = 8
"""Up to so many states are cut out one by one where logarithms are used."""
NEGLIGIBLE = 50.0
"""A term smaller than exp(-NEGLIGIBLE) of a sum is far below its last digit, and so are a thousand of them."""
LOWEST = -1e300
"""Below every logarithm of a rate, but finite, so that differences to it are numbers."""


def stationary(log_rates: Payoffs, hops: int) -> Payoffs:
    """The stationary distribution of an irreducible chain, given the logarithms of its rates, ``-inf`` where there is none.

    ``hops`` bounds how many steps lead from any state to any other; no product on the way is smaller than the smallest
    rate to that power, which decides whether ordinary numbers do.
    """
    if len(log_rates) == 1:
        return np.ones(1)
    off_diagonal = np.where(np.eye(len(log_rates), dtype=bool), -np.inf, log_rates)
    smallest = off_diagonal[np.isfinite(off_diagonal)].min()
    if -smallest * hops < DEEPEST:
        weights = _back_substituted(_log(_eliminated(np.exp(off_diagonal))))
    else:
        _eliminate_logs(off_diagonal, 1, len(off_diagonal))
        weights = _back_substituted(off_diagonal)
    shares: Payoffs = np.exp(weights - weights.max())
    shares /= shares.sum()
    return shares


def _eliminated(rates: Payoffs) -> Payoffs:
    """Cuts out the states from the last to the first; column ``k`` then holds ``P[i, k] / s_k``.

    Within a block only its own rows and columns are kept up to date; all others follow by one matrix product.
    """
    p = rates
    for high in range(len(p), 1, -BLOCK):
        low = max(high - BLOCK, 1)
        rows, columns = p[low:high, :high].copy(), p[:low, low:high].T.copy()  # the panel, contiguous
        for k in range(high - 1 - low, -1, -1):
            total = rows[k, : low + k].sum()
            rows[:k, low + k] /= total
            columns[k] /= total
            rows[:k, : low + k] += rows[:k, low + k, None] * rows[k, : low + k]
            columns[:k] += rows[k, low : low + k, None] * columns[k]
        p[low:high, :high], p[:low, low:high] = rows, columns.T
        p[:low, :low] += columns.T @ rows[:, :low]
    return p


def _eliminate_logs(p: Payoffs, low: int, high: int) -> None:
    """The same on logarithms, in place: cuts out the states ``low .. high - 1``, and brings their rows and columns up to date.

    The upper half goes first; what passes through it to the lower half follows in two products.
    """
    if high - low <= SMALL:
        _eliminate_few_logs(p, low, high)
        return
    middle = (low + high) // 2
    _eliminate_logs(p, middle, high)
    _add_product(p[low:middle, :middle], p[low:middle, middle:high], p[middle:high, :middle])
    _add_product(p[:low, low:middle], p[:low, middle:high], p[middle:high, low:middle])
    _eliminate_logs(p, low, middle)


def _eliminate_few_logs(p: Payoffs, low: int, high: int) -> None:
    rows, columns = p[low:high, :high].copy(), p[:low, low:high].T.copy()  # contiguous
    for k in range(high - 1 - low, -1, -1):
        total = log_sum(rows[k, : low + k])
        rows[:k, low + k] -= total
        columns[k] -= total
        _add_logs(rows[:k, : low + k], rows[:k, low + k, None] + rows[k, : low + k])
        _add_logs(columns[:k], rows[k, low : low + k, None] + columns[k])
    p[low:high, :high], p[:low, low:high] = rows, columns.T


def _add_product(total: Payoffs, left: Payoffs, right: Payoffs) -> None:
    """``total[i, j] <- log(exp(total[i, j]) + sum_k exp(left[i, k] + right[k, j]))``.

    With every row of ``left`` and every column of ``right`` measured from its top, this is a product of ordinary matrices
    with entries up to 1. Terms that underflow do not matter to a sum above ``exp(-DEEPEST)``. A sum below is either too
    small to matter to ``total``, or it is one of the few that are taken over the logarithms themselves.
    """
    peak = _tops(right, axis=1)  # of the ways on from k; without it few rows would reach the top of their column
    onward, inward = right - peak[:, None], left + peak
    across, down = _tops(inward, axis=1), _tops(onward, axis=0)
    sums = np.exp(inward - across[:, None]) @ np.exp(onward - down)
    bound = across[:, None] + down
    lost = (sums < np.exp(-DEEPEST)) & (bound - DEEPEST + NEGLIGIBLE > total)
    new = _log(sums) + bound
    i, j = np.nonzero(lost)
    new[i, j] = _paired_sums(left, right.T, i, j)
    _add_logs(total, new)


def _paired_sums(left: Payoffs, right: Payoffs, i: Places, j: Places) -> Payoffs:
    """``log sum_k exp(left[i, k] + right[j, k])`` for pairs ``i, j``; only terms near the largest are exponentiated."""
    sums = np.empty(len(i))
    step = max(1, 65536 // left.shape[1])  # pairs at once, so that their terms stay in the cache
    for start in range(0, len(i), step):
        some = slice(start, start + step)
        terms = left[i[some]] + right[j[some]]
        top = _tops(terms, axis=1)
        terms -= top[:, None]
        pair, k = np.nonzero(terms > -NEGLIGIBLE)
        above: Payoffs = np.bincount(pair, np.exp(terms[pair, k]), len(terms)).astype(np.float64)
        sums[some] = _log(above) + top
    return sums


def _add_logs(total: Payoffs, new: Payoffs) -> None:
    """``total <- log(exp(total) + exp(new))``."""
    top = np.maximum(np.maximum(total, new), LOWEST)
    total[...] = _log(np.exp(total - top) + np.exp(new - top)) + top


def _tops(logs: Payoffs, axis: int) -> Payoffs:
    """Largest logarithms along an axis, finite even where there is none."""
    tops: Payoffs = np.maximum(logs.max(axis=axis), LOWEST)
    return tops


def _back_substituted(p: Payoffs) -> Payoffs:
    """Logarithms of weights proportional to the stationary distribution."""
    columns = np.ascontiguousarray(p.T)
    weights = np.zeros(len(p))
    for k in range(1, len(p)):
        weights[k] = log_sum(weights[:k] + columns[k, :k])
    return weights


def log_sum(logs: Payoffs) -> float:
    """``log sum exp``; at least one of the numbers is above ``-inf``."""
    top = logs.max()
    return float(top + np.log(np.exp(logs - top).sum()))


def _log(p: Payoffs) -> Payoffs:
    with np.errstate(divide="ignore"):
        logs: Payoffs = np.log(p)
    return logs
