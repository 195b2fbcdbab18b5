"""Floor plans: where shelves stand at first, where the corridors and the goals are.

A cell is numbered row by row on a floor with a border of ``border`` cells around it, so that a step ahead and what a robot
sees never leave the array. In corridors (rware calls them highways) no shelf may be put down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from marl.data.task import Bools, Ints


@dataclass(frozen=True)
class Floor:
    """All arrays are over the cells of the bordered floor, but for ``shelves`` and ``goals``, which list cells."""

    rows: int
    columns: int
    border: int
    inside: Bools
    corridor: Bools
    shelves: Ints
    goals: Ints  # in the order in which deliveries are looked at

    @property
    def width(self) -> int:
        """Cells from one row to the next."""
        return self.columns + 2 * self.border

    def cell(self, row: int, column: int) -> int:
        return (row + self.border) * self.width + column + self.border

    def place(self, cell: Ints) -> tuple[Ints, Ints]:
        """Rows and columns without the border."""
        row, column = np.divmod(cell, self.width)
        return row - self.border, column - self.border


def floor_of_shelves(shelf_rows: int, shelf_columns: int, column_height: int, border: int) -> Floor:
    """Blocks of two columns of shelves with corridors around them; two goals in the middle of the lowest row, and a corridor
    where the block above them would be."""
    rows, columns = (column_height + 1) * shelf_rows + 2, 3 * shelf_columns + 1
    row, column = np.indices((rows, columns))
    middle = (column == columns // 2 - 1) | (column == columns // 2)
    corridor = (column % 3 == 0) | (row % (column_height + 1) == 0) | (row == rows - 1)
    corridor |= (row > rows - (column_height + 3)) & middle
    goals = [(rows - 1, columns // 2 - 1), (rows - 1, columns // 2)]
    return _floor(corridor, goals, border)


def floor_of_lines(text: str, border: int) -> Floor:
    """A plan of one's own."""
    lines = text.strip().replace(" ", "").lower().split("\n")
    if len({len(line) for line in lines}) > 1:
        raise ValueError(
            f"layout has lines of {sorted({len(line) for line in lines})} cells; expected all of one length"
        )
    unknown = sorted(set("".join(lines)) - set("xg."))
    if unknown:
        raise ValueError(
            f"layout holds {', '.join(map(repr, unknown))}; expected x (shelf), . (free) and g (goal) alone"
        )
    cells = np.array([list(line) for line in lines])
    goals = np.argwhere(cells == "g").tolist()
    if not goals:
        raise ValueError("layout has no goal; expected a g at least")
    return _floor(cells != "x", goals, border)


def _floor(corridor: Bools, goals: Sequence[Sequence[int]], border: int) -> Floor:
    rows, columns = corridor.shape
    framed = np.pad(corridor, border, constant_values=True).ravel()
    inside = np.pad(np.ones_like(corridor), border).ravel()
    width = columns + 2 * border
    at = np.array([(row + border) * width + column + border for row, column in goals])
    return Floor(rows, columns, border, inside, framed, np.flatnonzero(~framed), at)
