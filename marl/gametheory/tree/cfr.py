"""Counterfactual regret minimisation (Zinkevich et al., 2007) and its faster relatives.

At every information set a player keeps the regret ``R[c]`` of each choice and plays in proportion to the positive ones. One
iteration goes through the players in turn, each against the newest strategies of the others:

    R[c] += (what c would have earned) - (what the strategy earned there)      counterfactually
    R[c] *= t^alpha / (t^alpha + 1) if R[c] > 0,  t^beta / (t^beta + 1) otherwise
    average = sum_t t^gamma x_t / sum_t t^gamma                                over plans, not over behaviour

Plain CFR discounts nothing and averages evenly: ``alpha = beta = inf``, ``gamma = 0``. CFR+ (Tammelin, 2014) forgets
negative regrets and averages linearly: ``alpha = inf``, ``beta = -inf``, ``gamma = 1``. Discounted CFR (Brown and Sandholm,
2019) takes 1.5, 0 and 2. In two-player zero-sum games the average converges to an equilibrium; in others its NashConv tells.
Actions that tie are played alike: differences that are rounding do not count (``solve/rounding.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isinf

import numpy as np

from marl.errors import UnknownNameError, did_you_mean
from marl.gametheory.solve.rounding import Ties
from marl.gametheory.solve.solution import require_whole
from marl.gametheory.tree.response import Solved, solved
from marl.gametheory.tree.sequence import PlayerForm
from marl.gametheory.tree.tree import Behaviour, Reals, Tree


@dataclass(frozen=True)
class Discount:
    """Exponents of the three discounts."""

    alpha: float = inf
    beta: float = inf
    gamma: float = 0.0


VARIANTS = {"cfr": Discount(), "cfr+": Discount(beta=-inf, gamma=1.0), "dcfr": Discount(1.5, 0.0, 2.0)}


class CFR:
    """A solver that can be asked at any time; ``run`` goes on where it stopped."""

    def __init__(self, tree: Tree, variant: str | Discount = "cfr+") -> None:
        if isinstance(variant, str) and variant not in VARIANTS:
            raise UnknownNameError(
                f"unknown variant {variant!r} of CFR.{did_you_mean(variant, VARIANTS)} Known: {', '.join(VARIANTS)}, or a "
                "Discount(alpha, beta, gamma)."
            )
        self.tree, self.form = tree, tree.form
        self.discount = VARIANTS[variant] if isinstance(variant, str) else variant
        self.iterations = 0
        self.regrets: list[Reals] = []
        self.strategies: list[Reals] = []
        self.plans: list[Reals] = []
        self.sums: list[Reals] = []
        self._ties: list[Ties] = []
        for form, scale in zip(self.form.players, tree.scales, strict=True):
            strategy = form.uniform.copy()
            self.regrets.append(np.zeros(form.num_choices))
            self.strategies.append(strategy)
            self.plans.append(form.plan(strategy))
            self.sums.append(np.zeros(form.num_sequences))
            self._ties.append(Ties(form.owner, float(scale)))

    def run(self, iterations: int) -> CFR:
        for _ in range(iterations):
            self.iterations += 1
            for player in range(len(self.plans)):
                self._update(player)
        return self

    def _update(self, player: int) -> None:
        form, regrets, t = self.form.players[player], self.regrets[player], float(self.iterations)
        if not form.num_sets:
            return
        # Plans, not behaviour: what is rarely reached weighs little, and the average of plans is a strategy that plays as the
        # average of the strategies would.
        self.sums[player] += t**self.discount.gamma * self.plans[player]
        payoffs = self.form.counterfactual(player, self.plans)
        regrets += form.regrets(payoffs, self.strategies[player])
        self._ties[player].keep(regrets)
        _shrink(regrets, _kept(t, self.discount.alpha), _kept(t, self.discount.beta))
        self.strategies[player] = matched(form, regrets)
        self.plans[player] = form.plan(self.strategies[player])

    def average(self) -> Behaviour:
        """The average strategy of all players, which is what converges; uniform before the first iteration."""
        return self.form.behaviour(self.sums)

    def current(self) -> Behaviour:
        """What is played in the next iteration."""
        return np.concatenate(self.strategies)

    def solved(self) -> Solved:
        return solved(self.tree, self.average(), self.iterations)


def cfr(tree: Tree, iterations: int, variant: str | Discount = "cfr+") -> Solved:
    """The average strategy after so many iterations, with its exact NashConv."""
    require_whole("cfr: iterations", iterations)
    return CFR(tree, variant).run(iterations).solved()


def matched(form: PlayerForm, regrets: Reals) -> Behaviour:
    """Regret matching: in proportion to positive regrets, evenly where there are none."""
    positive = np.maximum(regrets, 0.0)
    total = np.add.reduceat(positive, form.first)
    empty = total <= 0.0
    if empty.any():  # equal weights, which the division below makes equal shares
        positive[empty[form.owner]] = 1.0
        total[empty] = form.counts[empty]
    positive /= total[form.owner]
    return positive


def _kept(t: float, exponent: float) -> float:
    """``t^e / (t^e + 1)``."""
    if isinf(exponent):
        return float(exponent > 0)
    power: float = t**exponent
    return power / (power + 1.0)


def _shrink(regrets: Reals, positive: float, negative: float) -> None:
    if positive == 1.0 and negative == 0.0:  # CFR+, without the temporary arrays of the general case
        np.maximum(regrets, 0.0, out=regrets)
    elif positive != 1.0 or negative != 1.0:
        regrets *= np.where(regrets > 0.0, positive, negative)
