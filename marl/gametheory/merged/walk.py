"""Exact best responses: all information sets of one player, many at a time.

An information set ``h`` is what the player saw and did so far. Of the histories that show it only their sum matters, per
position in which they end: ``b_h(x)``, the probability that the others and chance lead there. With K and R of ``kernel.py``:

    b_{hao}(y) = sum_x b_h(x) K(x, a)(y)      for the positions y that show o
    Q(h, a)    = sum_x b_h(x) R(x, a) + sum_o V(hao),        V(h) = max_a Q(h, a)

This is exact, because merged histories have the same future, and the player cannot tell them apart. Information sets with
the same present view, after as many own decisions, are rows of one matrix, so a level of the walk is a dense product for each
such group (``blocks.py``). Rows never interact: a level that would be larger than the budget is cut, and each piece is walked
to its end before the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from marl.errors import ConfigError
from marl.gametheory.merged.blocks import Blocks
from marl.gametheory.tree.tree import Reals

BUDGET = 4_000_000  # cells of a level that are walked at once; measured to be fastest
Level = dict[int, Reals]
"""By group: a row ``[positions of the group]`` for each information set."""
Piece = list[tuple[int, slice]]
"""Some groups, with some rows of each."""


@dataclass
class Below:
    """The information sets after some others."""

    parts: dict[int, list[Reals]] = field(default_factory=dict)  # by next group
    origin: dict[int, list[tuple[int, int]]] = field(
        default_factory=dict
    )  # which matrix they come from, by which action

    def add(self, group: int, part: Reals, matrix: int, action: int) -> None:
        self.parts.setdefault(group, []).append(part)
        self.origin.setdefault(group, []).append((matrix, action))


def check_budget(budget: int) -> None:
    if budget < 1:
        raise ConfigError(f"budget: expected 1 or more numbers that are walked at once, got {budget}.")


class Walk:
    """Values of information sets of one player against the others' tables."""

    def __init__(self, blocks: Blocks, budget: int = BUDGET) -> None:
        check_budget(budget)
        self.blocks, self.budget = blocks, budget

    def best_value(self) -> float:
        """The most that the player can earn."""
        found = self.values(self.first_level())
        return self.blocks.layers.paid + float(sum(values.sum() for values in found.values()))

    def first_level(self) -> Level:
        """What the player knows at its first decision: its view."""
        layers = self.blocks.layers
        level = {}
        for group in np.unique(layers.group[layers.start > 0]).tolist():
            level[group] = layers.start[None, layers.first[group] : layers.first[group + 1]]
        return level

    def values(self, level: Level) -> dict[int, Reals]:
        """``V`` of the information sets of a level."""
        found = {group: np.empty(len(rows)) for group, rows in level.items()}
        for piece in self.pieces(level):
            for (group, rows), q in zip(piece, self.q_values(level, piece), strict=True):
                found[group][rows] = q.max(axis=0)
        return found

    def pieces(self, level: Level) -> Iterator[Piece]:
        """Rows of the level, in portions after which the next level is within the budget."""
        piece: Piece = []
        room = self.budget
        for group, rows in level.items():
            width, at = int(self.blocks.width[group]), 0
            while at < len(rows):
                fits = len(rows) - at if not width else room // width
                if fits <= 0 and piece:
                    yield piece
                    piece, room = [], self.budget
                    continue
                end = min(len(rows), at + max(fits, 1))
                piece.append((group, slice(at, end)))
                room -= (end - at) * width
                at = end
        if piece:
            yield piece

    def q_values(self, level: Level, piece: Piece) -> list[Reals]:
        """``Q`` ``[legal actions, information sets]`` of each part of a piece."""
        found, below = [], Below()
        for number, (group, rows) in enumerate(piece):
            found.append(self._expand(group, level[group][rows], number, below))
        for group, values in self.values(_stacked(below)).items():
            at = 0
            for number, action in below.origin[group]:
                worth = found[number][action]
                worth += values[at : at + len(worth)]
                at += len(worth)
        return found

    def _expand(self, group: int, rows: Reals, number: int, below: Below) -> Reals:
        """What is paid at once ``[legal actions, information sets]``; what follows goes into ``below``."""
        after = rows @ self.blocks.matrix(group)
        for action, then, columns in self.blocks.after(group):
            below.add(then, after[:, columns], number, action)
        return after[:, int(self.blocks.width[group]) :].T.copy()


def _stacked(below: Below) -> Level:
    """One matrix per group. The parts are dropped, so that a level is not in memory twice."""
    level = {}
    for group in list(below.parts):
        level[group] = np.concatenate(below.parts.pop(group))
    return level
