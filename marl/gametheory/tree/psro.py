"""PSRO without any estimate (Lanctot et al., 2017): exact payoffs, exact best responses, the Nash equilibrium between them.

Each player has a growing list of strategies. One iteration solves the matrix game between the lists, takes the equilibrium's
mixture of each list, and adds each player's best response to the other's mixture. In a two-player zero-sum game it ends in an
equilibrium of the whole game, at the latest when no best response is new. It is the truth that trained PSRO is measured by.

A mixture of few strategies leaves most information sets of the other player out, where every action is a best response. What
is chosen there decides how fast PSRO goes: by default the best reply to uniform play, or the first legal action. Elsewhere the
first of equally good actions is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from marl.errors import ConfigError
from marl.gametheory.solve.solution import require_whole
from marl.gametheory.solve.zero_sum import maximin
from marl.gametheory.tree.response import Solved, plan_gains, solved
from marl.gametheory.tree.sequence import Aside
from marl.gametheory.tree.tree import Behaviour, Reals, Tree


@dataclass(frozen=True, eq=False)
class ExactPSRO:
    """How it went: iteration ``i`` stands for the mixture before the ``i``-th best responses are added."""

    nash_convs: tuple[float, ...]
    mixtures: tuple[tuple[Reals, Reals], ...]  # weights of both lists, per iteration
    answer: Solved


def exact_psro(
    tree: Tree,
    iterations: int,
    start: Behaviour | None = None,
    *,
    unreached: Literal["uniform", "first"] = "uniform",
    tolerance: float = 1e-9,
) -> ExactPSRO:
    """PSRO from a strategy of both players (default: the first legal action), until NashConv is that small next to payoffs.

    ``unreached``: what a best response does where the other's mixture never leads: the best reply to ``uniform`` play, or the
    ``first`` legal action.
    """
    _check(tree, iterations, unreached)
    form = tree.form
    if start is None:
        start = tree.first_action()
    lists = [[plan] for plan in form.plans(tree.checked(start))]
    history: list[float] = []
    mixtures: list[tuple[Reals, Reals]] = []
    for iteration in range(iterations + 1):
        stacked = [np.stack(plans) for plans in lists]
        row, column, _ = maximin(stacked[0] @ (form.matrices[0] @ stacked[1].T))
        weights = (_distribution(row), _distribution(column))
        mixed = [own @ plans for own, plans in zip(weights, stacked, strict=True)]
        history.append(float(plan_gains(tree, mixed).sum()))
        mixtures.append(weights)
        if history[-1] <= tolerance * tree.scale or iteration == iterations:
            break
        for player, plans in enumerate(lists):
            plans.append(_reply(tree, player, mixed, unreached))
    return ExactPSRO(tuple(history), tuple(mixtures), solved(tree, form.behaviour(mixed), len(history) - 1))


def _check(tree: Tree, iterations: int, unreached: str) -> None:
    if tree.num_players != 2 or not tree.is_zero_sum:
        raise ConfigError(
            f"game {tree.name!r} is no two-player zero-sum game, for which the Nash equilibrium between the lists can be "
            "computed by linear programming. Use cfr(tree, iterations), or trained PSRO with another meta-solver."
        )
    require_whole("exact_psro: iterations", iterations)
    if unreached not in ("uniform", "first"):
        raise ConfigError(f"unreached is {unreached!r}; expected 'uniform' or 'first'.")


def _reply(tree: Tree, player: int, mixed: list[Reals], unreached: str) -> Reals:
    """The plan of a best response to the other's mixture."""
    form = tree.form
    instead = [np.zeros_like(plan) for plan in mixed]  # all actions alike, so that the first is taken
    if unreached == "uniform":
        instead = form.plans(tree.uniform())
    aside = Aside(form.leads(player, mixed), form.counterfactual(player, instead))
    _, reply = form.players[player].best_response(form.counterfactual(player, mixed), aside)
    return form.players[player].plan(reply)


def _distribution(weights: Reals) -> Reals:
    positive = np.maximum(weights, 0.0)
    return np.asarray(positive / positive.sum())
