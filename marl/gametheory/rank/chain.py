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

from marl.gametheory.game import Payoffs

BLOCK = 32
DEEPEST = 600.0
"""Numbers below exp(-DEEPEST) are treated by their logarithms."""
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
        weights = _back_substituted(_eliminated_logs(off_diagonal))
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


def _eliminated_logs(log_rates: Payoffs) -> Payoffs:
    """The same on logarithms, block by block; a product of matrices becomes a log-sum over the states of the block."""
    p = log_rates.copy()
    for high in range(len(p), 1, -BLOCK):
        low = max(high - BLOCK, 1)
        rows, columns = p[low:high, :high].copy(), p[:low, low:high].T.copy()
        for k in range(high - 1 - low, -1, -1):
            total = log_sum(rows[k, : low + k])
            rows[:k, low + k] -= total
            columns[k] -= total
            _add_logs(rows[:k, : low + k], rows[:k, low + k, None] + rows[k, : low + k])
            _add_logs(columns[:k], rows[k, low : low + k, None] + columns[k])
        p[low:high, :high], p[:low, low:high] = rows, columns.T
        for i in range(low):
            _add_logs(p[i, :low], _log_sums(rows[:, :low] + columns[:, i, None]))
    return p


def _add_logs(total: Payoffs, new: Payoffs) -> None:
    """``total <- log(exp(total) + exp(new))``."""
    top = np.maximum(np.maximum(total, new), LOWEST)
    total[...] = _log(np.exp(total - top) + np.exp(new - top)) + top


def _log_sums(logs: Payoffs) -> Payoffs:
    """``log sum exp`` of every column."""
    top = np.maximum(logs.max(axis=0), LOWEST)
    logs -= top
    sums: Payoffs = _log(np.exp(logs, out=logs).sum(axis=0)) + top
    return sums


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
