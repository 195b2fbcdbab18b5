"""CFR in exact rational arithmetic, by recursion over the nodes of a tree: slow, simple, and without rounding."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from marl.gametheory.tree.cfr import VARIANTS, Discount
from marl.gametheory.tree.tree import CHANCE, TERMINAL, Tree

Shares = list[list[Fraction]]  # [information sets][actions]


class ExactCFR:
    """Regrets and averages as fractions. Payoffs and chances of the tree have to be simple fractions."""

    def __init__(self, tree: Tree, variant: str) -> None:
        self.tree, self.discount = tree, VARIANTS[variant]
        self.sizes = tree.sets.num_actions.tolist()
        self.payoffs = [[Fraction(float(p)).limit_denominator(10**6) for p in row] for row in tree.payoffs]
        self.chance = [Fraction(float(p)).limit_denominator(10**6) for p in tree.probability]
        self.regrets: Shares = [[Fraction(0)] * n for n in self.sizes]
        self.sums: Shares = [[Fraction(0)] * n for n in self.sizes]
        self.strategy: Shares = [[Fraction(1, n)] * n for n in self.sizes]

    def run(self, iterations: int) -> ExactCFR:
        for t in range(1, iterations + 1):
            for player in range(self.tree.num_players):
                missed: Shares = [[Fraction(0)] * n for n in self.sizes]
                self._walk(0, player, Fraction(1), Fraction(1), missed, Fraction(t) ** int(self.discount.gamma))
                self._match(player, missed, t)
        return self

    def _walk(
        self, node: int, player: int, own: Fraction, others: Fraction, missed: Shares, weight: Fraction
    ) -> Fraction:
        tree = self.tree
        who = int(tree.player[node])
        if who == TERMINAL:
            return self.payoffs[node][player]
        children = [int(tree.first_child[node]) + b for b in range(int(tree.num_children[node]))]
        if who == CHANCE:
            return sum(
                (
                    self.chance[c] * self._walk(c, player, own, others * self.chance[c], missed, weight)
                    for c in children
                ),
                Fraction(0),
            )
        infoset = int(tree.infoset[node])
        shares = list(self.strategy[infoset])
        reach = [(own * s, others) if who == player else (own, others * s) for s in shares]
        earned = [self._walk(c, player, *r, missed, weight) for c, r in zip(children, reach, strict=True)]
        value = sum((s * e for s, e in zip(shares, earned, strict=True)), Fraction(0))
        if who == player:
            for a, e in enumerate(earned):
                missed[infoset][a] += others * (e - value)
            # The plan's weight counts once per information set: all nodes of a set have the same own reach.
            if node == self._first_node(infoset):
                for a, s in enumerate(shares):
                    self.sums[infoset][a] += weight * own * s
        return value

    def _first_node(self, infoset: int) -> int:
        return int((self.tree.infoset == infoset).argmax())

    def _match(self, player: int, missed: Shares, t: int) -> None:
        keep, lose = kept(t, self.discount.alpha), kept(t, self.discount.beta)
        for infoset in range(*self.tree.infosets(player).indices(len(self.sizes))):
            row = [r + m for r, m in zip(self.regrets[infoset], missed[infoset], strict=True)]
            row = [r * (keep if r > 0 else lose) for r in row]
            self.regrets[infoset] = row
            if self.discount.predictive:
                row = [r + m for r, m in zip(row, missed[infoset], strict=True)]
            positive = [max(r, Fraction(0)) for r in row]
            total = sum(positive, Fraction(0))
            if total > 0:
                self.strategy[infoset] = [p / total for p in positive]
            else:
                self.strategy[infoset] = [Fraction(1, len(row))] * len(row)

    def average(self) -> Shares:
        found = []
        for row in self.sums:
            total = sum(row, Fraction(0))
            found.append([s / total if total else Fraction(1, len(row)) for s in row])
        return found


def kept(t: int, exponent: float) -> Fraction:
    """``t^e / (t^e + 1)``; a power that is no fraction is taken as the float that it is."""
    if exponent in (float("inf"), -float("inf")):
        return Fraction(int(exponent > 0))
    power = Fraction(float(t) ** exponent)
    return power / (power + 1)


def exact_nash_conv(tree: Tree, strategy: Shares) -> Fraction:
    """By trying every pure strategy of every player."""
    chance = [Fraction(float(p)).limit_denominator(10**6) for p in tree.probability]
    payoffs = [[Fraction(float(p)).limit_denominator(10**6) for p in row] for row in tree.payoffs]

    def value(node: int, player: int, shares: Shares) -> Fraction:
        who = int(tree.player[node])
        if who == TERMINAL:
            return payoffs[node][player]
        total = Fraction(0)
        for b in range(int(tree.num_children[node])):
            child = int(tree.first_child[node]) + b
            share = chance[child] if who == CHANCE else shares[int(tree.infoset[node])][b]
            if share:
                total += share * value(child, player, shares)
        return total

    found = Fraction(0)
    for player in range(tree.num_players):
        mine = range(*tree.infosets(player).indices(len(tree.sets)))
        best = None
        for picks in product(*(range(int(tree.sets.num_actions[i])) for i in mine)):
            shares = list(strategy)
            for infoset, pick in zip(mine, picks, strict=True):
                shares[infoset] = [Fraction(int(a == pick)) for a in range(int(tree.sets.num_actions[infoset]))]
            earned = value(0, player, shares)
            best = earned if best is None else max(best, earned)
        assert best is not None
        found += best - value(0, player, strategy)
    return found


__all__ = ["Discount", "ExactCFR", "exact_nash_conv", "kept"]
