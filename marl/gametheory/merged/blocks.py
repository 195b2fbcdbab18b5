"""The kernel cut by what the player knows now: one small dense matrix per group (a view, after so many own decisions).

The matrix of a group has a row for each of its positions and, for each action and each next group, a column for each position
of that next group; the last columns are what the legal actions pay. So all that can follow from information sets of this
group is one product ``B[information sets, positions] @ matrix``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from marl.data.task import Ints
from marl.gametheory.merged.layers import Layers
from marl.gametheory.tree.tree import Reals


class Blocks:
    """``T`` blocks: (group, action, next group) that can follow each other, sorted."""

    def __init__(self, layers: Layers) -> None:
        self.layers, moves = layers, layers.moves
        self.groups, self.actions = layers.legal.shape
        self.sizes = np.diff(layers.first)  # [G] positions per group
        source, target = layers.group[moves.source], layers.group[moves.target]
        codes, block = np.unique((source * self.actions + moves.action) * self.groups + target, return_inverse=True)
        self.group = codes // (self.actions * self.groups)  # [T]
        self.action = codes // self.groups % self.actions
        self.next = codes % self.groups
        self.first_block = np.searchsorted(self.group, np.arange(self.groups + 1))  # [G + 1]
        # Numbers of the actions among the legal ones of a group.
        self.rank = np.cumsum(layers.legal, axis=1) - 1  # [G, actions]
        self._place(source, target, block.reshape(-1))

    def _place(self, source: Ints, target: Ints, block: Ints) -> None:
        """Where each block and each move stands in the matrix of its group."""
        layers, moves, ends = self.layers, self.layers.moves, np.cumsum(self.sizes[self.next])
        base = np.concatenate([[0], ends])[self.first_block]
        self.column = ends - self.sizes[self.next] - base[self.group]  # [T] first column of the block
        self.width = np.diff(base)  # [G] columns of next positions
        # Moves are sorted by source, so those of a group stand together.
        self.first_move = np.searchsorted(source, np.arange(self.groups + 1))
        self.move_row = moves.source - layers.first[source]
        self.move_column = self.column[block] + moves.target - layers.first[target]

    def matrix(self, group: int) -> Reals:
        """``[positions of the group, next positions + legal actions]``."""
        layers, width, legal = self.layers, int(self.width[group]), self.layers.legal[group]
        found = np.zeros((int(self.sizes[group]), width + int(legal.sum())))
        moves = slice(self.first_move[group], self.first_move[group + 1])
        found[self.move_row[moves], self.move_column[moves]] = layers.moves.chance[moves]
        found[:, width:] = layers.reward[layers.first[group] : layers.first[group + 1], legal]
        return found

    def after(self, group: int) -> Iterator[tuple[int, int, slice]]:
        """Numbers of the action and of the next group, and the columns, of each block of a group."""
        for block in range(int(self.first_block[group]), int(self.first_block[group + 1])):
            then, first = int(self.next[block]), int(self.column[block])
            yield int(self.rank[group, self.action[block]]), then, slice(first, first + int(self.sizes[then]))
