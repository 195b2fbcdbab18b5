"""What strategies earn, the best reply to them, and how far they are from an equilibrium.

    NashConv(s) = sum_i  max_b u_i(b, s_-i) - u_i(s)

Exact: one pass over the sequence form per player. In a two-player zero-sum game half of it is the exploitability.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marl.gametheory.tree.tree import Behaviour, Reals, Tree


@dataclass(frozen=True, eq=False)
class Solved:
    """What a solver found, with its exact distance to equilibrium."""

    strategy: Behaviour  # of all players
    values: Reals  # [P] what it pays
    nash_conv: float
    iterations: int
    last: Solved | None = None  # what was played last, where the strategy is an average of all that was played


def solved(tree: Tree, strategy: Behaviour, iterations: int) -> Solved:
    """A strategy together with what it pays and how far it is from an equilibrium."""
    return Solved(strategy, expected_values(tree, strategy), nash_conv(tree, strategy), iterations)


def expected_values(tree: Tree, strategy: Behaviour) -> Reals:
    """What each player earns ``[P]``."""
    return tree.form.values(tree.form.plans(tree.checked(strategy)))


def best_response(tree: Tree, strategy: Behaviour, player: int) -> tuple[float, Behaviour]:
    """The most that the player can earn against the others, and a pure strategy (its part only) that does.

    The first of equally good actions is taken, also at information sets that the others never lead to.
    """
    form = tree.form
    plans = form.plans(tree.checked(strategy))
    return form.players[player].best_response(form.counterfactual(player, plans))


def gains(tree: Tree, strategy: Behaviour) -> Reals:
    """What each player could gain by its best reply ``[P]``; never below 0 but for rounding."""
    return plan_gains(tree, tree.form.plans(tree.checked(strategy)))


def plan_gains(tree: Tree, plans: list[Reals]) -> Reals:
    """The same for strategies in sequence form."""
    found = np.empty(tree.num_players)
    for player, form in enumerate(tree.form.players):
        payoffs = tree.form.counterfactual(player, plans)
        earned = float(plans[player] @ payoffs)
        found[player] = form.best_value(payoffs) - earned
    return found


def nash_conv(tree: Tree, strategy: Behaviour) -> float:
    """0 exactly in a Nash equilibrium."""
    return float(gains(tree, strategy).sum())
