"""All equilibria of a small two-player game, by enumerating the vertices of both best-response polytopes.

``P = {x >= 0, B'x <= 1}`` with payoffs above 0. A vertex with support ``I`` solves ``B[I, J]' x_I = 1`` for some ``J`` with
as many columns, all of which are then best responses, so

    vertices of P  =  { x_I = inv(B[I, J]') 1 > 0  with  B'x <= 1 }  over all pairs with |I| = |J|

and likewise for ``Q``; all systems of one size are solved in one call. A pair of vertices is an equilibrium exactly if each
action is unplayed or a best response. In a nondegenerate game these are all equilibria and their number is odd. A game is
degenerate if some strategy has more best responses than actions in use; then the pairs are the corners of sets of
equilibria, and there are infinitely many others between them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from marl.errors import ConfigError
from marl.gametheory.game import MatrixGame, Payoffs
from marl.gametheory.solve.lemke_howson import above_zero
from marl.gametheory.solve.polish import sharpened
from marl.gametheory.solve.solution import Solution, clean, precise, require_two_players, solution

COARSE, FINE = 1e-9, 1e-13
"""Slacks and probabilities below this are 0. The second is for games in which the first takes for equal what is not."""
MAX_SYSTEMS = 3_000_000
BATCH = 50_000  # linear systems solved in one call
METHOD = "vertex enumeration"


@dataclass(frozen=True, eq=False)
class Equilibria:
    """Every equilibrium of the game, or, if it is degenerate, the corners of its sets of equilibria."""

    solutions: tuple[Solution, ...]
    degenerate: bool
    nash_conv: float  # the largest of them

    def __len__(self) -> int:
        return len(self.solutions)

    def __iter__(self) -> Iterator[Solution]:
        return iter(self.solutions)


def all_equilibria(game: MatrixGame) -> Equilibria:
    """Equilibria with small supports first. Work grows with binomial(m + n, m): 8x8 takes some hundredths of a second."""
    require_two_players(game, "all_equilibria")
    m, n = game.shape
    if comb(m + n, m) > MAX_SYSTEMS:
        raise ConfigError(
            f"all_equilibria: game {game.name!r} of {m}x{n} actions asks for {comb(m + n, m):,} linear systems, more than "
            f"{MAX_SYSTEMS:,}. For one equilibrium of a large game: nash(game)."
        )
    found, degenerate = _labelled_pairs(game, COARSE)
    exact = _converged(found)
    if degenerate or len(exact) < len(found):  # are there ties, or only stakes of very different sizes?
        finer, still = _labelled_pairs(game, FINE)
        all_exact = len(_converged(finer)) == len(finer)
        if finer and all_exact and not still:
            exact, degenerate = finer, False
    kept = exact or found
    worst = max((one.nash_conv for one in kept), default=0.0)
    return Equilibria(tuple(kept), degenerate, worst)


def _converged(found: list[Solution]) -> list[Solution]:
    return [one for one in found if one.converged]


def _labelled_pairs(game: MatrixGame, tight: float) -> tuple[list[Solution], bool]:
    """Pairs of vertices that carry all labels, and whether the game is degenerate."""
    m, n = game.shape
    (replies_0, column_units), (replies_1, row_units) = above_zero(game.payoffs[0]), above_zero(game.payoffs[1].T)
    rows, row_slack = _vertices(replies_1.T, tight)
    columns, column_slack = _vertices(replies_0.T, tight)
    # Label of an action: it is unplayed by its owner or a best response to the other's strategy.
    row_labels = np.hstack([rows <= 0, row_slack])  # [vertices, m + n]
    column_labels = np.hstack([column_slack, columns <= 0])
    missing = (~row_labels).astype(np.float64) @ (~column_labels).astype(np.float64).T
    degenerate = bool((row_labels.sum(1) > m).any() or (column_labels.sum(1) > n).any())
    pairs = [(rows[p] / row_units, columns[q] / column_units) for p, q in np.argwhere(missing == 0)]
    return [_equilibrium(game, row, column) for row, column in pairs], degenerate


def _equilibrium(game: MatrixGame, row: Payoffs, column: Payoffs) -> Solution:
    found = solution(game, (clean(row), clean(column)), METHOD)
    if precise(game, found.profile):
        return found
    return solution(game, sharpened(game, found.profile, 0), METHOD)


def _vertices(table: Payoffs, zero: float) -> tuple[Payoffs, NDArray[np.bool_]]:
    """Vertices ``x`` of ``{x >= 0, table' x <= 1}`` without the origin, each once, and which inequalities they meet."""
    m, n = table.shape
    points, tight = [np.zeros((0, m))], [np.zeros((0, n), bool)]
    for size in range(1, min(m, n) + 1):
        supports = np.array(list(combinations(range(m), size)))
        replies = np.array(list(combinations(range(n), size)))
        at_once = max(1, BATCH // len(replies))
        for start in range(0, len(supports), at_once):
            x = _solve(table, supports[start : start + at_once], replies, zero)
            slack = 1.0 - x @ table
            inside = (slack > -zero).all(axis=1)
            points.append(x[inside])
            tight.append(slack[inside] < zero)
    return _each_once(np.concatenate(points), np.concatenate(tight))


def _solve(table: Payoffs, supports: NDArray[np.int64], replies: NDArray[np.int64], zero: float) -> Payoffs:
    """Positive solutions ``x`` of ``table[I, J]' x_I = 1`` for all supports I and replies J."""
    size = supports.shape[1]
    systems = table[supports[:, None, None, :], replies[None, :, :, None]].reshape(-1, size, size)
    owner = np.repeat(np.arange(len(supports)), len(replies))
    try:
        parts = np.linalg.solve(systems, np.ones((size, 1)))[..., 0]
    except np.linalg.LinAlgError:  # singular ones have no vertex of their own
        regular = np.linalg.matrix_rank(systems, tol=1e-12) == size
        owner = owner[regular]
        parts = np.linalg.solve(systems[regular], np.ones((size, 1)))[..., 0]
    positive = (parts > zero).all(axis=1)
    x = np.zeros((int(positive.sum()), table.shape[0]))
    x[np.arange(len(x))[:, None], supports[owner[positive]]] = parts[positive]
    return x


def _each_once(points: Payoffs, tight: NDArray[np.bool_]) -> tuple[Payoffs, NDArray[np.bool_]]:
    """Degenerate vertices come from several systems, with the same support and the same inequalities."""
    labels = np.hstack([points > 0, tight])
    _, first = np.unique(np.packbits(labels, axis=1), axis=0, return_index=True)
    order = np.sort(first)
    return points[order], tight[order]
