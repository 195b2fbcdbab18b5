"""The kernel cut by the player's views: one small dense matrix per view.

The matrix of a view has a row for each of its positions and, for each action and each next view, a column for each position
of that next view; the last columns are what the legal actions pay. So all that can follow from information sets with this
view is one product ``B[information sets, positions] @ matrix``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from marl.data.task import Ints
from marl.gametheory.merged.kernel import Kernel
from marl.gametheory.tree.tree import Reals


class Blocks:
    """``T`` blocks: (view, action, next view) that can follow each other, sorted."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.views, self.actions = kernel.legal.shape
        self.sizes = np.diff(kernel.first)  # [V] positions per view
        code = (kernel.view[kernel.source] * self.actions + kernel.action) * self.views + kernel.view[kernel.target]
        codes, block = np.unique(code, return_inverse=True)
        self.view = codes // (self.actions * self.views)  # [T]
        self.action = codes // self.views % self.actions
        self.next = codes % self.views
        self.first_block = np.searchsorted(self.view, np.arange(self.views + 1))  # [V + 1]
        # Numbers of the actions among the legal ones of a view.
        self.rank = np.cumsum(kernel.legal, axis=1) - 1  # [V, actions]
        self._place(block.reshape(-1))

    def _place(self, block: Ints) -> None:
        """Where each block and each entry of the kernel stands in the matrix of its view."""
        kernel, ends = self.kernel, np.cumsum(self.sizes[self.next])
        begins = ends - self.sizes[self.next]
        base = np.concatenate([[0], ends])[self.first_block]
        self.column = begins - base[self.view]  # [T] first column of the block
        self.width = np.diff(base)  # [V] columns of next positions
        self.order = np.argsort(kernel.view[kernel.source], kind="stable")
        self.first_entry = np.searchsorted(kernel.view[kernel.source][self.order], np.arange(self.views + 1))
        self.entry_row = (kernel.source - kernel.first[kernel.view[kernel.source]])[self.order]
        within = kernel.target - kernel.first[kernel.view[kernel.target]]
        self.entry_column = (self.column[block] + within)[self.order]
        self.entry = kernel.chance[self.order]

    def matrix(self, view: int) -> Reals:
        """``[positions of the view, next positions + legal actions]``."""
        kernel, width, legal = self.kernel, int(self.width[view]), self.kernel.legal[view]
        found = np.zeros((int(self.sizes[view]), width + int(legal.sum())))
        entries = slice(self.first_entry[view], self.first_entry[view + 1])
        found[self.entry_row[entries], self.entry_column[entries]] = self.entry[entries]
        found[:, width:] = kernel.reward[kernel.first[view] : kernel.first[view + 1], legal]
        return found

    def after(self, view: int) -> Iterator[tuple[int, int, slice]]:
        """Numbers of the action and of the next view, and the columns, of each block of a view."""
        for block in range(int(self.first_block[view]), int(self.first_block[view + 1])):
            then, first = int(self.next[block]), int(self.column[block])
            yield int(self.rank[view, self.action[block]]), then, slice(first, first + int(self.sizes[then]))
