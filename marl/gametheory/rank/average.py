"""Nash averaging (Balduzzi et al., 2018): rate everybody against the opponents that an equilibrium would send.

The measured table is read as a zero-sum game. Its equilibria form a convex set, and the one of largest entropy is taken:

    p* = argmax H(p)   subject to   p in the equilibria,        rating = A q*

so that copies of a strategy share its weight and change nobody's rating. In one population ``A`` holds the margins
``(A[r, s] - A[s, r]) / 2`` and its value is 0; with two populations (agents against tasks, attackers against defenders) both
sides are rated.

Three steps: a linear program gives the value; a second one finds which strategies can be played, and which opponents' replies
can be worse than the value, in any equilibrium; on that face the problem has an inner point, so its dual is smooth:
``p ~ exp(G'w)`` with ``w`` free for equalities and not negative for inequalities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog, minimize
from scipy.special import logsumexp, softmax

from marl.errors import ConfigError
from marl.gametheory.game import Payoffs, Strategy, bimatrix
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.rank.result import (
    Row,
    face_off,
    labels,
    one_population,
    populations,
    refuse_incomplete,
    refuse_more_than_two,
    table_rows,
)

CONSTANT = 1e-6
"""How far payoffs may be from a constant sum, relative to the largest payoff."""
SMALLEST = 1e-5
"""Weights below this are seen only where a corner of the equilibria has them."""
SEARCHES, NEWTON_STEPS = 10, 100
ROUNDING = 1e-10
"""Weights and losses of a corner up to this are taken for zero."""
PRECISE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclass(frozen=True, eq=False)
class NashAverage:
    """``scores`` are payoffs against the other side's equilibrium; in one population 0 is the best that can be."""

    names: tuple[str, ...]
    scores: Payoffs
    population: NDArray[np.int64]
    weights: Payoffs  # the equilibrium itself, per name; sums to 1 within a population
    value: float  # of the zero-sum game, for player 0
    nash_conv: float

    def table(self) -> list[Row]:
        return table_rows(self.names, self.scores, self.scores, self.scores)

    def as_json(self) -> dict[str, Any]:
        return {
            "method": "nash_average",
            "value": self.value,
            "nash_conv": self.nash_conv,
            "scores": dict(zip(self.names, self.scores.tolist(), strict=True)),
            "weights": dict(zip(self.names, self.weights.tolist(), strict=True)),
        }


def nash_average(payoffs: PayoffTensor) -> NashAverage:
    """Ratings against the maximum-entropy equilibrium of the measured zero-sum game."""
    refuse_more_than_two(payoffs, "Nash averaging")
    refuse_incomplete(payoffs, "Nash averaging")
    names = labels(payoffs)
    if one_population(payoffs):
        table = face_off(payoffs)[0]
        margin = (table - table.T) / 2
        weights = max_entropy_strategy(margin, 0.0)
        scores = margin @ weights
        conv = bimatrix(margin).nash_conv((weights, weights))
        return NashAverage(names, scores, populations(payoffs), weights, 0.0, conv)
    margin, total = _constant_sum(payoffs)
    value = game_value(margin)
    row, column = max_entropy_strategy(margin, value), max_entropy_strategy(-margin.T, -value)
    scores = np.concatenate([margin @ column, total - row @ margin])
    conv = bimatrix(margin).nash_conv((row, column))
    return NashAverage(names, scores, populations(payoffs), np.concatenate([row, column]), value, conv)


def game_value(table: Payoffs) -> float:
    """``max_p min_j (p' table)_j`` by a linear program."""
    return float((_corner(table) @ table).min())


def _corner(table: Payoffs) -> Strategy:
    """Some strategy that earns the value; a corner of the equilibria, so that even its tiny weights are exact."""
    rows, columns = table.shape
    found = linprog(
        np.r_[np.zeros(rows), -1.0],
        A_ub=np.c_[-table.T, np.ones(columns)],
        b_ub=np.zeros(columns),
        A_eq=np.r_[np.ones(rows), 0.0][None],
        b_eq=[1.0],
        bounds=[(0, None)] * rows + [(None, None)],
        method="highs",
        options=PRECISE,
    )
    corner: Strategy = found.x[:-1]
    return corner


def max_entropy_strategy(table: Payoffs, value: float) -> Strategy:
    """The row strategy of largest entropy among those that earn at least ``value`` against every column."""
    scale = max(float(np.abs(table - value).max()), np.finfo(float).tiny)
    surplus = (table - value).T / scale  # [columns, rows]; surplus @ p >= 0
    played, slack = _face(surplus)
    p = np.zeros(table.shape[0])
    p[played] = _max_entropy(surplus[:, played], slack)
    return p


def _face(surplus: Payoffs) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which rows some equilibrium plays, and which columns earn less than the value against some equilibrium.

    Equilibria times any factor form a cone, so both sets are reached at once: by the largest
    ``sum min(y, 1) + sum min(surplus y, 1)``. That program cannot see weights below ``SMALLEST``, on which an equilibrium
    can depend nevertheless, so whatever a corner plays counts as well.
    """
    columns, rows = surplus.shape
    # variables: y, t <= y, u <= surplus y; t and u at most 1
    constraints = np.block(
        [
            [-np.eye(rows), np.eye(rows), np.zeros((rows, columns))],
            [-surplus, np.zeros((columns, rows)), np.eye(columns)],
        ]
    )
    bounds = [(0, 1 / SMALLEST)] * rows + [(0, 1)] * (rows + columns)
    found = linprog(
        np.r_[np.zeros(rows), -np.ones(rows + columns)],
        A_ub=constraints,
        b_ub=np.r_[np.zeros(rows), np.full(columns, 1e-9)],
        bounds=bounds,
        method="highs",
        options=PRECISE,
    )
    corner = _corner(surplus.T)
    played = (found.x[rows : 2 * rows] > 0.5) | (corner > ROUNDING)
    slack = (found.x[2 * rows :] > 0.5) | (surplus @ corner > ROUNDING)
    return played, slack


def _max_entropy(surplus: Payoffs, slack: NDArray[np.bool_]) -> Strategy:
    """Largest entropy with ``surplus p = 0`` where not slack and ``>= 0`` where slack, by the dual ``log sum exp(G'w)``."""
    w = np.zeros(len(surplus))

    def dual(w: Payoffs) -> tuple[float, Payoffs]:
        heights = w @ surplus
        return float(logsumexp(heights)), surplus @ softmax(heights)

    bounds = [(0.0, None) if free else (None, None) for free in slack]
    options = {"maxiter": 5000, "ftol": 0.0, "gtol": 1e-10}
    for _ in range(SEARCHES):  # a search can stop early at a bound; from there the next one goes on
        found = minimize(dual, w, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        if found.nit == 0:
            break
        w = found.x
    return _polished(surplus, w, slack)


def _polished(surplus: Payoffs, w: Payoffs, slack: NDArray[np.bool_]) -> Strategy:
    """Projected Newton steps on the dual, because the first search stops short of the last digits, and sometimes earlier.

    A multiplier that is 0 stays there while its inequality is slack; a step is halved until it helps.
    """
    p: Strategy = softmax(w @ surplus)
    for _ in range(NEWTON_STEPS):
        gradient = surplus @ p
        free = ~slack | (w > 0) | (gradient < 0)
        missing = _largest(gradient[free])
        if missing < 1e-15:
            break
        active, residual = surplus[free], gradient[free]
        hessian = (active * p) @ active.T - np.outer(residual, residual)
        step = np.zeros_like(w)
        step[free] = np.linalg.lstsq(hessian, -residual, rcond=1e-13)[0]
        for length in 0.5 ** np.arange(30):
            trial = np.where(slack, np.maximum(w + length * step, 0), w + length * step)
            closer: Strategy = softmax(trial @ surplus)
            left = surplus @ closer
            fell = logsumexp(trial @ surplus) < logsumexp(w @ surplus) - 1e-14
            if fell or _largest(left[~slack | (trial > 0) | (left < 0)]) < missing:
                break
        else:
            break
        w, p = trial, closer
    return p


def _largest(residual: Payoffs) -> float:
    return float(np.abs(residual).max(initial=0.0))


def _constant_sum(payoffs: PayoffTensor) -> tuple[Payoffs, float]:
    """Player 0's table and the sum of both players' payoffs; refuses games in which both can gain."""
    total = payoffs.mean.sum(axis=0)
    spread = float(np.ptp(total))
    if spread > CONSTANT * float(np.abs(payoffs.mean).max()):
        raise ConfigError(
            f"Nash averaging needs a game in which one wins what the other loses, but the sum of both payoffs ranges from "
            f"{total.min():.6g} to {total.max():.6g}. Rank it with alpha_rank, which takes any game."
        )
    table: Payoffs = payoffs.mean[0]
    return table, float(total.mean())
