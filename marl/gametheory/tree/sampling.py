"""Monte Carlo CFR (Lanctot et al., 2009): iterations that look at a part of the tree only.

*External* sampling draws the moves of chance and of the others and follows every action of the player that learns.
*Outcome* sampling draws one play; the learning player explores with chance ``epsilon``, and what it earned is divided by the
chance of having been seen, so that regrets stay right on average:

    r[a] = (v[a] - sum_b s[b] v[b]) * reach of the others / reach of the sample,    v[a] = earned / chance of a, 0 if not drawn

Every iteration lets each player learn once. Same seed, same answer.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from marl.errors import ConfigError, UnknownNameError, did_you_mean
from marl.gametheory.solve.rounding import ROUNDING
from marl.gametheory.solve.solution import require_whole
from marl.gametheory.tree.response import Solved, solved
from marl.gametheory.tree.tree import CHANCE, TERMINAL, Behaviour, Tree

Weights = list[float]


class SampledCFR:
    """A solver that can be asked at any time; ``run`` goes on where it stopped."""

    def __init__(self, tree: Tree, sampling: str = "external", *, seed: int = 0, epsilon: float = 0.6) -> None:
        walks = {"external": self._external, "outcome": self._sampled_outcome}
        if sampling not in walks:
            raise UnknownNameError(
                f"unknown sampling {sampling!r}.{did_you_mean(sampling, walks)} Known: {', '.join(walks)}."
            )
        if not 0.0 < epsilon <= 1.0:
            raise ConfigError(
                f"epsilon is {epsilon}; expected a chance above 0 and up to 1, so that every play may be seen."
            )
        self.tree, self.epsilon, self.iterations = tree, epsilon, 0
        self._walk = walks[sampling]
        self._rng = np.random.default_rng(seed)
        sizes = tree.sets.num_actions.tolist()
        self.regrets: list[Weights] = [[0.0] * size for size in sizes]
        scales = [float(tree.scales[player]) for player in tree.sets.player]
        self._largest: list[Weights] = [[scale] * size for scale, size in zip(scales, sizes, strict=True)]
        self.sums: list[Weights] = [[0.0] * size for size in sizes]
        # Plain lists: a walk touches single numbers, which arrays are slow at.
        self._player, self._infoset = tree.player.tolist(), tree.infoset.tolist()
        self._child, self._payoffs = tree.first_child.tolist(), tree.payoffs.tolist()
        self._ladder = {node: self._chance_ladder(node) for node in np.flatnonzero(tree.player == CHANCE).tolist()}

    def _chance_ladder(self, node: int) -> Weights:
        first = self._child[node]
        ladder: Weights = np.cumsum(self.tree.probability[first : first + self.tree.num_children[node]]).tolist()
        return ladder

    def run(self, iterations: int) -> SampledCFR:
        for _ in range(iterations):
            self.iterations += 1
            for learner in range(self.tree.num_players):
                self._walk(0, learner)
        return self

    def average(self) -> Behaviour:
        """The average strategy of all players; uniform at information sets that were never seen."""
        strategy: Weights = []
        for row in self.sums:
            total = sum(row)
            if total > 0:
                strategy += [weight / total for weight in row]
            else:
                strategy += [1 / len(row)] * len(row)
        return np.array(strategy)

    def solved(self) -> Solved:
        return solved(self.tree, self.average(), self.iterations)

    # -- walks -----------------------------------------------------------------------------------------------------

    def _external(self, node: int, learner: int) -> float:
        """What the learner earns from here on, with the moves of all others drawn."""
        player, first = self._player[node], self._child[node]
        if player == TERMINAL:
            return float(self._payoffs[node][learner])
        if player == CHANCE:
            return self._external(first + self._drawn_chance(node), learner)
        infoset = self._infoset[node]
        chances = _matched(self.regrets[infoset])
        if player != learner:
            if player == (learner + 1) % self.tree.num_players:  # everybody's average grows once per iteration
                _add(self.sums[infoset], chances, 1.0)
            return self._external(first + self._drawn(chances), learner)
        earned = [self._external(first + branch, learner) for branch in range(len(chances))]
        value = sum(c * e for c, e in zip(chances, earned, strict=True))
        self._regret(infoset, [e - value for e in earned], 1.0)
        return value

    def _sampled_outcome(self, node: int, learner: int) -> float:
        return self._outcome(node, learner, 1.0, 1.0, 1.0)

    def _outcome(self, node: int, learner: int, own: float, others: float, sample: float) -> float:
        """An unbiased guess of what the learner earns from here on, from one play.

        ``own``, ``others`` and ``sample``: chances that the learner, everybody else and the drawing come to this node.
        """
        player, first = self._player[node], self._child[node]
        if player == TERMINAL:
            return float(self._payoffs[node][learner])
        if player == CHANCE:
            branch = self._drawn_chance(node)
            chance = float(self.tree.probability[first + branch])
            return self._outcome(first + branch, learner, own, others * chance, sample * chance)
        infoset = self._infoset[node]
        chances, mine = _matched(self.regrets[infoset]), player == learner
        even = self.epsilon / len(chances)
        drawing = [(1.0 - self.epsilon) * c + even for c in chances] if mine else chances
        branch = self._drawn(drawing)
        chance, seen = chances[branch], drawing[branch]
        reach = (own * chance, others) if mine else (own, others * chance)
        guess = self._outcome(first + branch, learner, *reach, sample * seen) / seen
        if mine:
            # Divided by the chance of having been seen, as everything here is, so that it is right on average.
            _add(self.sums[infoset], chances, own / sample)
            regret = [(guess if b == branch else 0.0) - chance * guess for b in range(len(chances))]
            self._regret(infoset, regret, others / sample)
        return chance * guess

    def _regret(self, infoset: int, regret: Weights, weight: float) -> None:
        """Add to the regrets of a set; what is zero but for rounding becomes zero (as in ``solve/rounding.py``)."""
        regrets, largest = self.regrets[infoset], self._largest[infoset]
        _add(regrets, regret, weight)
        for i, size in enumerate(map(abs, regrets)):
            largest[i] = max(largest[i], size, weight * abs(regret[i]))
            if size <= ROUNDING * largest[i]:
                regrets[i] = 0.0

    def _drawn(self, chances: Weights) -> int:
        point = self._rng.random() * sum(chances)
        for branch, chance in enumerate(chances):
            point -= chance
            if point < 0.0:
                return branch
        # Rounding may leave a rest of the point: the last action that can be drawn at all.
        return max(branch for branch, chance in enumerate(chances) if chance > 0.0)

    def _drawn_chance(self, node: int) -> int:
        ladder = self._ladder[node]
        return min(bisect_right(ladder, self._rng.random() * ladder[-1]), len(ladder) - 1)


def sampled_cfr(
    tree: Tree, iterations: int, sampling: str = "external", *, seed: int = 0, epsilon: float = 0.6
) -> Solved:
    """The average strategy after so many sampled iterations, with its exact NashConv. ``epsilon`` is for outcome sampling."""
    require_whole("sampled_cfr: iterations", iterations)
    return SampledCFR(tree, sampling, seed=seed, epsilon=epsilon).run(iterations).solved()


def _matched(regrets: Weights) -> Weights:
    positive = [max(regret, 0.0) for regret in regrets]
    total = sum(positive)
    return [p / total for p in positive] if total > 0.0 else [1.0 / len(regrets)] * len(regrets)


def _add(row: Weights, more: Weights, weight: float) -> None:
    for i, number in enumerate(more):
        row[i] += weight * number
