"""One equilibrium of a two-player game by complementary pivoting (Lemke and Howson, 1964).

With payoffs shifted above 0 the best-response polytopes are ``P = {x >= 0, B'x <= 1}`` and ``Q = {y >= 0, A y <= 1}``.
Every vertex carries labels: actions that are not played and actions of the other that are best responses. A pair of
vertices that carries all labels is an equilibrium (after scaling to sum 1), but for the pair of origins. Starting there,
one label is dropped and the pair of vertices with a doubled label is followed until the dropped one comes back.

Each reply of the other may be shifted and stretched on its own: with ``A'[:, j] = A[:, j] / c_j + d_j`` the equilibria are
those in which ``y_j`` is ``c_j`` times as likely, before scaling to sum 1. So stakes of all sizes become one size first.

Ties in the ratio test are broken lexicographically, so the path cannot cycle, degenerate game or not.
"""

from __future__ import annotations

import numpy as np

from marl.errors import ConfigError
from marl.gametheory.game import MatrixGame, Payoffs
from marl.gametheory.solve.polish import sharpened
from marl.gametheory.solve.solution import Solution, clean, require_two_players, solution

TIE = 1e-11  # relative to tableaus with entries between 1 and 2
MAX_PIVOTS = 20_000  # paths may be exponentially long (Savani and von Stengel, 2006); those of random games are short


def lemke_howson(game: MatrixGame, label: int = 0) -> Solution:
    """The equilibrium at the end of the path that drops ``label``: an action of player 0, or of player 1 counted on."""
    require_two_players(game, "lemke_howson")
    m, n = game.shape
    if not isinstance(label, int | np.integer) or not 0 <= label < m + n:
        raise ConfigError(f"lemke_howson: label {label!r}; game {game.name!r} has labels 0 to {m + n - 1}.")
    (rows, row_units), (columns, column_units) = above_zero(game.payoffs[0]), above_zero(game.payoffs[1].T)
    tableaus = _Tableau.of(columns, m), _Tableau.of(rows, 0)
    entering, side, pivots = label, (0 if label < m else 1), 0
    while pivots < MAX_PIVOTS:
        # What left one polytope is doubled now, so it enters the other one.
        entering = tableaus[side].pivot(entering)
        side, pivots = 1 - side, pivots + 1
        if entering == label:
            break
    row, column = tableaus[0].point()[:m] / column_units, tableaus[1].point()[m:] / row_units
    if not _is_scalable(row, column):
        return solution(game, game.uniform(), "Lemke-Howson", pivots)
    return solution(game, sharpened(game, (clean(row), clean(column))), "Lemke-Howson", pivots)


def above_zero(table: Payoffs) -> tuple[Payoffs, Payoffs]:
    """The same preferences among rows with payoffs between 1 and 2, and what each column was divided by: powers of two.

    The largest unit is 1, so that weights divided by units stay in range; columns in which all rows are alike have it too.
    """
    spread = np.ptp(table, axis=0)
    units = np.exp2(np.ceil(np.log2(np.where(spread > 0, spread, spread.max() or 1.0))))
    return (table - table.min(axis=0)) / units + 1.0, units / units.max()


def _is_scalable(row: Payoffs, column: Payoffs) -> bool:
    """Whether both points are away from the origin, which is no strategy, and rounding has not run away."""
    both = np.concatenate([row, column])
    return bool(np.isfinite(both).all() and min(row.max(), column.max()) > 1e-12)


class _Tableau:
    """``table @ z + slack = 1``: one column per label, then the right side; ``basis[r]`` is the label of row r."""

    def __init__(self, rows: Payoffs, basis: list[int], slack: slice) -> None:
        self.rows, self.basis, self.slack = rows, basis, slack

    @classmethod
    def of(cls, table: Payoffs, first_slack: int) -> _Tableau:
        count = len(table)
        parts = [table, np.eye(count)] if first_slack else [np.eye(count), table]
        slack = slice(first_slack, first_slack + count)
        return cls(np.hstack([*parts, np.ones((count, 1))]), list(range(slack.start, slack.stop)), slack)

    def pivot(self, entering: int) -> int:
        """Bring the label into the basis; returns the label that leaves."""
        row = self._leaving_row(self.rows[:, entering])
        self.rows[row] /= self.rows[row, entering]
        factors = self.rows[:, entering].copy()
        factors[row] = 0.0
        self.rows -= np.outer(factors, self.rows[row])
        left, self.basis[row] = self.basis[row], entering
        return left

    def _leaving_row(self, column: Payoffs) -> int:
        """The smallest ratio of right side to pivot; ties by the columns of the first basis, one after the other."""
        rows = np.flatnonzero(column > TIE)
        if not len(rows):  # only rounding brings us here: the polytope is bounded
            return int(column.argmax())
        for keys in (self.rows[:, -1], *self.rows[:, self.slack].T):
            ratios = keys[rows] / column[rows]
            rows = rows[ratios <= ratios.min() + TIE * max(1.0, abs(ratios.min()))]
            if len(rows) == 1:
                break
        return int(rows[0])

    def point(self) -> Payoffs:
        values = np.zeros(self.rows.shape[1] - 1)
        values[self.basis] = self.rows[:, -1]
        return values
