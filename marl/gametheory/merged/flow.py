"""Sums along the edges of a graph of positions, level by level, for chances of the edges that change all the time.

    forward     r(y) = sum of r(x) * chance of the edge, over the edges x -> y        how likely everybody comes to y
    backward    V(x) = sum of chance of the edge * (what it pays + V(y))              what a player earns from x on

Both are sparse products with the same three arrays per level (``tree/kernels.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from marl.data.task import Ints
from marl.gametheory.merged.kernel import Table
from marl.gametheory.merged.positions import Positions
from marl.gametheory.tree.kernels import Product, add, add_transposed, product, short
from marl.gametheory.tree.tree import Reals


class Flow:
    """Sums along the edges of the graph, forward and backward, with chances of the edges that change."""

    def __init__(self, positions: Positions) -> None:
        self.chance = np.empty(len(positions.source))  # of every edge
        self.numbers = np.empty(len(positions))  # of every position
        self._positions = positions
        self._levels: list[Product] = []
        bounds = positions.first_of_level.tolist()
        for begin, middle, end in zip(bounds[:-2], bounds[1:-1], bounds[2:], strict=True):
            first = positions.first_edge[begin : middle + 1]
            edges = slice(int(first[0]), int(first[-1]))
            start, index = short(first - first[0]), short(positions.target[edges] - middle)
            # An edge leads to the next level: rows are the positions of this one, columns those of the next.
            there, here = self.numbers[middle:end], self.numbers[begin:middle]
            self._levels.append(product(start, index, self.chance[edges], there, here))
        self._first = short(positions.first_edge)
        self._edges = short(np.arange(len(positions.source)))
        self._factors = _factors(positions)

    def set_chances(self, tables: Sequence[Table]) -> None:
        """Chances of all edges where the players play by their tables."""
        numbers = np.concatenate([table.reshape(-1) for table in tables] + [np.ones(1)])
        np.copyto(self.chance, self._positions.probability)
        for places in self._factors:
            np.multiply(self.chance, numbers.take(places), out=self.chance)

    def forward(self) -> Reals:
        """How likely each position is reached ``[N]``; a view that the next call overwrites."""
        positions = self._positions
        self.numbers.fill(0.0)
        np.add.at(self.numbers, positions.start, positions.start_probability)
        add_transposed(self._levels)
        return self.numbers

    def backward(self, rewards: Reals) -> Reals:
        """What is earned from each position on ``[N]``, where edges pay ``rewards`` ``[M]``; overwritten by the next call."""
        self.numbers.fill(0.0)
        add([product(self._first, self._edges, self.chance, rewards, self.numbers)])
        add(reversed(self._levels))
        return self.numbers


def _factors(positions: Positions) -> list[Ints]:
    """Where the chances that make up an edge's stand in all players' tables, one behind the other and a 1 at the end.

    The first array ``[M]`` has one place of every edge, the second another one, and so on; most games are through after one,
    because one player moves at a time. What an edge lacks is the 1.
    """
    sizes = [views.legal.size for views in positions.views]
    begins = np.cumsum([0, *sizes])
    places: list[Ints] = []
    used = np.zeros(len(positions.source), np.int64)  # how many places each edge has so far
    for player, views in enumerate(positions.views):
        edges = np.flatnonzero(positions.actions[:, player] >= 0)
        view, actions = positions.view[positions.source[edges], player], positions.actions[edges, player]
        place = begins[player] + view * views.legal.shape[1] + actions
        for number in np.unique(used[edges]).tolist():
            if number == len(places):
                places.append(np.full(len(positions.source), begins[-1]))
            these = used[edges] == number
            places[number][edges[these]] = place[these]
        used[edges] += 1
    return places
