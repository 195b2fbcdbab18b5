"""The kernel unrolled by the player's own decisions: what can be its first, its second, its third, ...

A view may come again after itself (an agent that sees nothing of a repeated game), though positions never do. Cut by view
alone, such positions would follow each other within one block. So a *group* is a view at a number of own decisions before:
groups never come again. A position that can be reached after different numbers of them is there several times, and one
that the others never lead to is not there at all.
"""

from __future__ import annotations

import numpy as np

from marl.data.task import Ints
from marl.gametheory.merged.kernel import Kernel, Moves
from marl.gametheory.tree.tree import Reals


class Layers:
    """``n`` positions, in ``G`` groups that stand side by side; moves lead from a group to later ones."""

    def __init__(self, kernel: Kernel) -> None:
        self.paid = kernel.paid
        first_move = np.searchsorted(kernel.moves.source, np.arange(len(kernel) + 1))
        layer = np.flatnonzero(kernel.start > 0)
        places: list[Ints] = []
        layers: list[Ints] = []
        moves, size = [], 0
        while layer.size:
            index, row = _ranges(first_move[layer], first_move[layer + 1])
            reached = kernel.moves.target[index]
            below = np.unique(reached)
            target = size + len(layer) + np.searchsorted(below, reached)
            moves.append(Moves(size + row, kernel.moves.action[index], target, kernel.moves.chance[index]))
            places.append(layer)
            layers.append(np.full(len(layer), len(layers)))
            size, layer = size + len(layer), below
        place = _joined(places)
        self.start: Reals = np.where(_joined(layers) == 0, kernel.start[place], 0.0)  # [n]
        self.moves = Moves(
            _joined([part.source for part in moves]),
            _joined([part.action for part in moves]),
            _joined([part.target for part in moves]),
            np.concatenate([np.zeros(0), *(part.chance for part in moves)]),
        )
        self.reward = kernel.reward[place]  # [n, actions]
        self._group(_joined(layers), kernel.view[place])
        self.legal = kernel.legal[self.seen]  # [G, actions]

    def _group(self, layer: Ints, view: Ints) -> None:
        """Positions of a layer are sorted by view already."""
        new = np.ones(len(view), bool)
        new[1:] = (view[1:] != view[:-1]) | (layer[1:] != layer[:-1])
        self.group = np.cumsum(new) - 1  # [n]
        self.first = np.append(np.flatnonzero(new), len(view))  # [G + 1]
        self.seen = view[new]  # [G] the view of each group

    def __len__(self) -> int:
        return len(self.group)


def _ranges(begin: Ints, end: Ints) -> tuple[Ints, Ints]:
    """All numbers from begins to ends, and which of the ranges each belongs to."""
    counts = end - begin
    row = np.repeat(np.arange(len(begin)), counts)
    return np.arange(len(row)) - (np.cumsum(counts) - counts)[row] + begin[row], row


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate([np.zeros(0, np.int64), *parts])
