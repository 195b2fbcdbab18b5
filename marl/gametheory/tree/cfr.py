"""Counterfactual regret minimisation (Zinkevich et al., 2007) and its faster relatives.

At every information set a player keeps the regret ``R[c]`` of each choice and plays in proportion to the positive ones. One
iteration goes through the players in turn, each against the newest strategies of the others:

    r[c] = (what c would have earned) - (what the strategy earned there)      counterfactually
    R[c] += r[c]
    R[c] *= t^alpha / (t^alpha + 1) if R[c] > 0,  t^beta / (t^beta + 1) otherwise
    average = sum_t t^gamma x_t / sum_t t^gamma                               over plans, not over behaviour

| variant | alpha | beta | gamma | |
|---|---|---|---|---|
| ``cfr`` | inf | inf | 0 | nothing is discounted, all iterations count alike |
| ``cfr+`` | inf | -inf | 1 | negative regrets are forgotten (Tammelin, 2014) |
| ``linear`` | 1 | 1 | 1 | iteration t counts t times, regrets too (Brown and Sandholm, 2019) |
| ``dcfr`` | 1.5 | 0 | 2 | discounted CFR (the same) |
| ``dcfr+`` | 1.5 | -inf | 4 | both ideas at once (Xu et al., 2024) |
| ``pcfr+`` | inf | -inf | 2 | predictive CFR+ (Farina, Kroer and Sandholm, 2021) |
| ``pdcfr+`` | 2.3 | -inf | 5 | predictive and discounted (Xu et al., 2024) |

Predictive variants play in proportion to ``max(R + r, 0)``: as if the regrets of this iteration came once more in the next.
In two-player zero-sum games the average converges to an equilibrium; in others its NashConv tells.

**Ties.** Where all regrets of a set are 0 or less, its actions are played alike; so are actions whose regrets are equal.
Differences that are rounding do not count, so that a tie is a tie whatever the order of additions (``solve/rounding.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isfinite, isinf, isnan, log

import numpy as np

from marl.errors import ConfigError, UnknownNameError, did_you_mean
from marl.gametheory.solve.rounding import Ties
from marl.gametheory.solve.solution import require_whole
from marl.gametheory.tree.kernels import add
from marl.gametheory.tree.response import Solved, solved
from marl.gametheory.tree.sequence import PlayerForm
from marl.gametheory.tree.tree import Behaviour, Reals, Tree

LARGEST_GAMMA = 40.0  # 1e7 iterations to this power are still a number
LARGEST_LOG = 700.0  # of a number that a float can hold


@dataclass(frozen=True)
class Discount:
    """Exponents of the three discounts, and whether the last regrets count as a forecast of the next."""

    alpha: float = inf
    beta: float = inf
    gamma: float = 0.0
    predictive: bool = False

    def __post_init__(self) -> None:
        # Else every number of the run would be NaN, which compares as false and plays as nothing.
        if isnan(self.alpha) or isnan(self.beta) or not isfinite(self.gamma):
            raise ConfigError(
                f"CFR with the exponents alpha {self.alpha}, beta {self.beta} and gamma {self.gamma}; expected numbers, of "
                "which alpha and beta may be infinite."
            )
        if abs(self.gamma) > LARGEST_GAMMA:
            raise ConfigError(
                f"CFR with gamma {self.gamma}; expected at most {LARGEST_GAMMA:g}: iterations to that power have to be finite."
            )


VARIANTS = {
    "cfr": Discount(),
    "cfr+": Discount(beta=-inf, gamma=1.0),
    "linear": Discount(1.0, 1.0, 1.0),
    "dcfr": Discount(1.5, 0.0, 2.0),
    "dcfr+": Discount(1.5, -inf, 4.0),
    "pcfr+": Discount(beta=-inf, gamma=2.0, predictive=True),
    "pdcfr+": Discount(2.3, -inf, 5.0, predictive=True),
}


class Regrets:
    """One player: its regrets, what it plays by them, and the sum of what it played.

    Arrays are made once and products are bound to them, because an iteration of a small game takes some 50 microseconds.
    """

    def __init__(self, form: PlayerForm, scale: float, discount: Discount) -> None:
        self.form, self.discount = form, discount
        self.regrets = np.zeros(form.num_choices)
        self.strategy: Behaviour = form.uniform.copy()
        self.plan, self.sums = form.plan(self.strategy), np.zeros(form.num_sequences)
        self.payoffs, self._weighted = np.zeros(form.num_sequences), np.empty(form.num_sequences)
        self._paid, self._reached = self.payoffs[1:], self.plan[1:]  # without the empty sequence: by choice
        self._ties = Ties(form.owner, scale)
        self._counts = form.counts.astype(np.float64)
        self._now, self._spread = np.zeros(form.num_choices), np.zeros(form.num_choices)
        # CFR+ keeps no negative regrets, so that those it keeps are those it plays by.
        self._clipped = discount.beta == -inf and not discount.predictive
        self._positive = self.regrets if self._clipped else np.zeros(form.num_choices)
        self._earned, self._total = np.zeros(form.num_sets), np.zeros(form.num_sets)
        self._empty = np.empty(form.num_sets, bool)
        # Nobody asks for the value of the game, which the last product would add up.
        fold = form.fold_products(self.payoffs, self.strategy)[:-1]
        self._earning = [*fold, form.set_product(self.strategy, self._paid, self._earned)]
        self._totalling = [form.set_product(np.ones(form.num_choices), self._positive, self._total)]
        self._planning = form.plan_products(self.strategy, self.plan)

    def average_in(self, t: float) -> None:
        # Plans, not behaviour: what is rarely reached weighs little, and the average of plans is a strategy that plays as the
        # average of the strategies would.
        np.multiply(self.plan, t**self.discount.gamma, out=self._weighted)
        np.add(self.sums, self._weighted, out=self.sums)

    def learn(self, t: float) -> None:
        """The next strategy after the counterfactual payoffs of this one, which are used up."""
        self._earned.fill(0.0)
        add(self._earning)
        now = np.subtract(self._paid, self._at_choices(self._earned), out=self._now)
        np.add(self.regrets, now, out=self.regrets)
        self._ties.keep(self.regrets)
        _shrink(self.regrets, _kept(t, self.discount.alpha), _kept(t, self.discount.beta))
        if not self._clipped:
            self._look_ahead()
        self._match()
        self._reached.fill(0.0)
        add(self._planning)

    def _look_ahead(self) -> None:
        ahead = self.regrets
        if self.discount.predictive:
            ahead = np.add(self.regrets, self._now, out=self._positive)
            self._ties.keep(ahead)
        np.maximum(ahead, 0.0, out=self._positive)

    def _match(self) -> None:
        """In proportion to positive regrets, evenly where there are none."""
        positive, total, empty = self._positive, self._total, self._empty
        total.fill(0.0)
        add(self._totalling)
        if np.count_nonzero(np.equal(total, 0.0, out=empty)):
            # Equal weights, which the division makes equal shares. Sums instead of masks: faster, see ``Ties.keep``.
            positive = np.add(positive, empty.take(self.form.owner), out=self.strategy)
            np.add(total, empty * self._counts, out=total)
        np.divide(positive, self._at_choices(total), out=self.strategy)

    def _at_choices(self, numbers: Reals) -> Reals:
        """Those of each choice's set; overwritten by the next call."""
        # With an array for the answer, "clip" keeps numpy from making another one; all numbers are in range.
        return numbers.take(self.form.owner, None, self._spread, "clip")


class CFR:
    """A solver that can be asked at any time; ``run`` goes on where it stopped."""

    def __init__(self, tree: Tree, variant: str | Discount = "cfr+") -> None:
        if isinstance(variant, str) and variant not in VARIANTS:
            raise UnknownNameError(
                f"unknown variant {variant!r} of CFR.{did_you_mean(variant, VARIANTS)} Known: {', '.join(VARIANTS)}, or a "
                "Discount(alpha, beta, gamma, predictive)."
            )
        self.tree, self.form = tree, tree.form
        discount = VARIANTS[variant] if isinstance(variant, str) else variant
        self.iterations = 0
        self.players = [
            Regrets(form, float(scale), discount) for form, scale in zip(self.form.players, tree.scales, strict=True)
        ]
        self.plans = [player.plan for player in self.players]

    @property
    def regrets(self) -> list[Reals]:
        """Of each player's choices."""
        return [player.regrets for player in self.players]

    def run(self, iterations: int) -> CFR:
        for _ in range(iterations):
            self.iterations += 1
            for number in range(len(self.players)):
                self._update(number, float(self.iterations))
        return self

    def _update(self, number: int, t: float) -> None:
        player = self.players[number]
        if player.form.num_sets:
            player.average_in(t)
            self.form.counterfactual(number, self.plans, player.payoffs)
            player.learn(t)

    def average(self) -> Behaviour:
        """The average strategy of all players, which is what converges; uniform before the first iteration."""
        return self.form.behaviour([player.sums for player in self.players])

    def current(self) -> Behaviour:
        """What is played in the next iteration."""
        return np.concatenate([player.strategy for player in self.players])

    def solved(self) -> Solved:
        """The average, and beside it the last iterate."""
        last = solved(self.tree, self.current(), self.iterations)
        return replace(solved(self.tree, self.average(), self.iterations), last=last)


def cfr(tree: Tree, iterations: int, variant: str | Discount = "cfr+") -> Solved:
    """The average strategy after so many iterations with its exact NashConv, and the last one (``last``) with its own."""
    require_whole("cfr: iterations", iterations)
    return CFR(tree, variant).run(iterations).solved()


def _kept(t: float, exponent: float) -> float:
    """``t^e / (t^e + 1)``."""
    if isinf(exponent) or exponent * log(t) > LARGEST_LOG:
        return float(exponent > 0)
    power: float = t**exponent
    return power / (power + 1.0)


def _shrink(regrets: Reals, positive: float, negative: float) -> None:
    if positive == 1.0 and negative == 0.0:  # CFR+, without the temporary arrays of the general case
        np.maximum(regrets, 0.0, out=regrets)
    elif positive != 1.0 or negative != 1.0:
        regrets *= np.where(regrets > 0.0, positive, negative)
