"""Value and equilibrium of a two-player zero-sum game by one linear program (Koller, Megiddo and von Stengel, 1996).

Constant-sum games are solved as well: what one earns more, the other earns less.

With plans ``x`` of player 0 and values ``q`` of player 1's information sets (``q[0]``: of the whole game):

    maximise q[0]   such that   E_0 x = e,  x >= 0,   E_1' q <= A' x

``E`` says that what enters an information set is divided among its choices. The dual variables of the inequality are the plan
of player 1. The program is sparse and as long as the game has sequences, not strategies.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from marl.errors import ConfigError
from marl.gametheory.tree.response import Solved, solved
from marl.gametheory.tree.sequence import PlayerForm
from marl.gametheory.tree.tree import Reals, Tree


def equilibrium(tree: Tree) -> Solved:
    """A Nash equilibrium by linear programming; its ``values`` are the values of the game.

    It is precise to about 1e-7 of the largest payoff, so next to a payoff of a million cents do not count.
    """
    if tree.num_players != 2 or not tree.is_constant_sum:
        what = f"{tree.num_players} players" if tree.num_players != 2 else "payoffs that do not add up to a constant"
        raise ConfigError(
            f"game {tree.name!r} has {what}; a value by linear programming needs two players whose payoffs do. Use "
            "cfr(tree, iterations) and look at the NashConv of its answer."
        )
    form = tree.form
    result = maxmin_program(form.matrices[0] / (tree.scale or 1.0), *form.players)  # solvers have absolute tolerances
    if result.status != 0:
        raise ConfigError(
            f"the linear program of game {tree.name!r} was not solved: {result.message} Payoffs range from "
            f"{tree.payoffs.min():g} to {tree.payoffs.max():g}; bring them nearer to 1, or use cfr(tree, iterations)."
        )
    # HiGHS gives the marginals of a minimisation, hence the sign.
    plans: list[Reals] = [result.x[: form.players[0].num_sequences], -result.ineqlin.marginals]
    return solved(tree, form.behaviour([np.maximum(plan, 0.0) for plan in plans]), int(result.nit))


def maxmin_program(payoffs: Any, first: PlayerForm, second: PlayerForm) -> Any:
    """The plan of the first player that earns most against the worst one of the second; ``payoffs`` are by sequences."""
    sequences, sets = first.num_sequences, second.num_sets + 1
    goal = np.zeros(sequences + sets)
    goal[sequences] = -1.0
    flow, rest = flow_of(first), sparse.csr_array((first.num_sets + 1, sets))
    start = np.zeros(first.num_sets + 1)
    start[0] = 1.0
    return linprog(
        goal,
        A_ub=sparse.hstack([-payoffs.T, flow_of(second).T], format="csr"),
        b_ub=np.zeros(second.num_sequences),
        A_eq=sparse.hstack([flow, rest], format="csr"),
        b_eq=start,
        bounds=np.array([(0.0, np.inf)] * sequences + [(-np.inf, np.inf)] * sets),
        method="highs",
    )


def flow_of(form: PlayerForm) -> Any:
    """``E`` ``[sets + 1, sequences]``: the empty sequence has weight 1, the choices of a set what leads to it."""
    sets = np.arange(1, form.num_sets + 1)
    rows = np.concatenate([[0], form.owner + 1, sets])
    columns = np.concatenate([[0], np.arange(1, form.num_sequences), form.parent])
    entries = np.concatenate([np.ones(form.num_sequences), -np.ones(form.num_sets)])
    return sparse.csr_array((entries, (rows, columns)), shape=(form.num_sets + 1, form.num_sequences))
