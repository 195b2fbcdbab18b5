"""Where ships can lie: all places of every ship, and which of them leave room for the ships that are still to come.

A place is a number: ``cell`` for a ship to the right of its first cell, ``cells + cell`` for one that lies downwards.
Sets of cells are bit masks, so that a whole board is one number and all of them fit into a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from marl.data.task import Bools, Ints

MOST_CELLS = 16  # there are 2^cells sets of cells


@dataclass(frozen=True, eq=False)
class Places:
    """``S`` ships, ``2 * cells`` places of each."""

    covers: Ints  # [S, places]: the cells of a ship in that place, as a bit mask; 0 where it would not fit on the board
    room: Bools  # [S + 1, 2^cells]: whether ships s, s + 1, ... still fit where these cells are taken

    def legal(self, ship: Ints, taken: Ints) -> Bools:
        """``[N, places]``: where the next ship may lie, so that it meets no other one and the later ones fit as well."""
        covers = self.covers[ship]
        free = (covers != 0) & (covers & taken[:, None] == 0)
        legal: Bools = free & self.room[ship[:, None] + 1, covers | taken[:, None]]
        return legal


@lru_cache
def places_of(rows: int, columns: int, sizes: tuple[int, ...]) -> Places:
    """All places of ships of these lengths."""
    covers = np.array([_covers(rows, columns, size) for size in sizes])
    every_set = np.arange(2 ** (rows * columns))
    room = np.ones((len(sizes) + 1, len(every_set)), bool)
    # From the last ship back: a ship has room where some place of it leaves room for the rest.
    for ship in reversed(range(len(sizes))):
        room[ship] = False
        for cover in covers[ship][covers[ship] != 0]:
            room[ship] |= (every_set & cover == 0) & room[ship + 1, every_set | cover]
    return Places(covers, room)


def _covers(rows: int, columns: int, size: int) -> list[int]:
    """The bit mask of a ship by its place; a ship of one cell only lies to the right, for it has no direction."""
    right, down = [0] * (rows * columns), [0] * (rows * columns)
    for cell in range(rows * columns):
        row, column = divmod(cell, columns)
        if column + size <= columns:
            right[cell] = _mask(range(cell, cell + size))
        if size > 1 and row + size <= rows:
            down[cell] = _mask(range(cell, cell + size * columns, columns))
    return right + down


def _mask(cells: Sequence[int]) -> int:
    return sum(1 << cell for cell in cells)
