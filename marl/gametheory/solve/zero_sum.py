"""Two players whose interests are opposed: an equilibrium and the value by one linear program.

The row player guarantees itself as much as possible (von Neumann):

    maximise v   subject to   sum_a x(a) A[a, b] >= v  for all b,   sum_a x(a) = 1,   x >= 0

The prices of the constraints are the column player's strategy. Works for constant-sum games too, whose equilibria do not
depend on the constant.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from marl.errors import ConfigError
from marl.gametheory.game import MatrixGame, Payoffs, Profile
from marl.gametheory.solve.polish import sharpened
from marl.gametheory.solve.solution import Solution, clean, precise, require_two_players, solution

TIGHT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
"""Options of HiGHS: the smallest errors that it accepts."""


def zero_sum(game: MatrixGame) -> Solution:
    """An equilibrium of a zero-sum or constant-sum game; ``values[0]`` is the value for player 0."""
    require_two_players(game, "zero_sum")
    if not game.is_constant_sum:
        raise ConfigError(
            f"zero_sum: in game {game.name!r} what both get adds up to different numbers in different cells. "
            "For such games: nash(game)."
        )
    row, column, pivots = maximin(game.payoffs[0])
    found: Profile = (clean(row), clean(column))
    if not precise(game, found):  # tolerances of the program show in the last digits
        found = sharpened(game, found)
    return solution(game, found, "linear program", pivots)


def maximin(table: Payoffs) -> tuple[Payoffs, Payoffs, int]:
    """Best guarantees of the row player, who wants the table's entries high, and of the column player; and pivots."""
    rows, columns = table.shape
    # HiGHS has absolute tolerances, so that stakes of cents and of millions have to look alike to it.
    centre, size = table.mean(), max(np.ptp(table), 1e-300)
    scaled = (table - centre) / size
    answer = linprog(
        np.r_[np.zeros(rows), -1.0],
        A_ub=np.hstack([-scaled.T, np.ones((columns, 1))]),
        b_ub=np.zeros(columns),
        A_eq=np.r_[np.ones(rows), 0.0][None],
        b_eq=[1.0],
        bounds=[(0, None)] * rows + [(None, None)],
        method="highs",
        options=TIGHT,
    )
    if answer.status != 0:  # a bounded feasible program always has an optimum: only numbers beyond floats get here
        raise ConfigError(f"zero_sum: the linear program was not solved ({answer.message}). Rescale the payoffs.")
    return answer.x[:rows], -answer.ineqlin.marginals, int(answer.nit)
