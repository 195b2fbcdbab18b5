"""The distribution of largest entropy under linear inequalities ``G p <= 0``.

Dual: minimise ``f(m) = log sum_a exp(-(G'm)_a)`` over prices ``m >= 0``; then ``p`` is proportional to ``exp(-G'm)``. The
minimum is only attained if some feasible ``p`` is positive everywhere, so cells that are 0 in every feasible ``p`` are
taken out first, by one linear program: the feasible set is a cone, and the point of it that maximises ``sum_a min(p_a, 1)``
is positive wherever any point is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog, minimize

from marl.gametheory.game import Payoffs

NEWTON_STEPS, SEARCHES = 100, 10


def largest_entropy(constraints: sparse.csr_matrix, cells: int) -> tuple[Payoffs, int]:
    """The distribution over the cells, and how many steps it took."""
    possible = _possible(constraints, cells)
    kept = np.asarray(constraints[:, possible].todense())
    kept = kept[np.abs(kept).max(axis=1) > 0] if kept.size else kept
    p = np.zeros(cells)
    if not len(kept):
        p[possible] = 1.0 / possible.sum()
        return p, 0
    # L-BFGS comes near from anywhere, Newton's method finds the last digits from there.
    rough, searched = _searched(kept)
    prices, steps = _newton(kept, rough)
    p[possible] = _primal(kept, prices)
    return p, searched + steps


def _searched(gains: Payoffs) -> tuple[Payoffs, int]:
    """Prices near the best, and steps. A search can stop early at a bound; from there the next one goes on."""
    prices, steps = np.zeros(len(gains)), 0
    for _ in range(SEARCHES):
        found = minimize(
            lambda m: _dual(gains, m),
            prices,
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, None)] * len(gains),
            options={"maxiter": 2000, "maxfun": 4000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 30},
        )
        prices, steps = found.x, steps + int(found.nit)
        if found.nit == 0 or _violation(_dual(gains, prices)[1], prices) < 1e-8:
            break
    return prices, steps


def _possible(constraints: sparse.csr_matrix, cells: int) -> NDArray[np.bool_]:
    """Which cells have a positive probability in some feasible distribution."""
    if not constraints.shape[0]:
        return np.ones(cells, bool)
    eye = sparse.identity(cells, format="csr")
    none = sparse.csr_matrix(constraints.shape)
    answer = linprog(
        np.r_[np.zeros(cells), -np.ones(cells)],  # variables: p, and t <= min(p, 1)
        A_ub=sparse.vstack([sparse.hstack([constraints, none]), sparse.hstack([-eye, eye])], format="csr"),
        b_ub=np.zeros(constraints.shape[0] + cells),
        bounds=[(0, None)] * cells + [(0, 1)] * cells,
        method="highs",
    )
    return np.asarray(answer.x[cells:] > 0.5)


def _primal(gains: Payoffs, prices: Payoffs) -> Payoffs:
    logits = -(prices @ gains)
    weights = np.exp(logits - logits.max())  # the largest is 1: nothing overflows
    return np.asarray(weights / weights.sum())


def _dual(gains: Payoffs, prices: Payoffs) -> tuple[float, Payoffs]:
    logits = -(prices @ gains)
    top = logits.max()
    return float(top + np.log(np.exp(logits - top).sum())), -(gains @ _primal(gains, prices))


def _newton(gains: Payoffs, prices: Payoffs) -> tuple[Payoffs, int]:
    """Projected Newton steps: prices at 0 that want to fall stay there, the others move together."""
    value, slope = _dual(gains, prices)
    for step in range(NEWTON_STEPS):
        free = (prices > 1e-12) | (slope < 0)
        if not free.any() or np.abs(slope[free]).max() < 1e-14:
            return prices, step
        p = _primal(gains, prices)
        centred = gains[free] - (gains[free] @ p)[:, None]
        curvature = (centred * p) @ centred.T
        move = np.zeros_like(prices)
        move[free] = np.linalg.lstsq(curvature, -slope[free], rcond=1e-13)[0]
        for size in 0.5 ** np.arange(30):
            tried = (prices + size * move).clip(min=0)
            new_value, new_slope = _dual(gains, tried)
            # Near the optimum the value no longer changes in its digits, so the slope has to get better too.
            if new_value <= value and _violation(new_slope, tried) < _violation(slope, prices):
                break
        else:
            return prices, step
        prices, value, slope = tried, new_value, new_slope
    return prices, NEWTON_STEPS


def _violation(slope: Payoffs, prices: Payoffs) -> float:
    """How far the prices are from optimal: slopes of positive ones, and falling ones at 0."""
    return float(np.abs(np.where(prices > 1e-12, slope, np.minimum(slope, 0))).max())
