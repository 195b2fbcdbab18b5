"""What wins on a board: so many stones in a row, or a chain of stones from one edge to the other.

A ``Wins`` looks at the stones of one player, ``[N, cells]``, and says for every row whether they win. Small boards have few
sets of stones, so the answers for all of them are worked out once and looked up afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from marl.data.task import Bools, Ints

Wins: TypeAlias = Callable[[Bools], Bools]

MOST_TABLED = 12  # cells of a board whose 2^cells sets of stones are kept in a table
WAYS = ((0, 1), (1, 0), (1, 1), (1, -1))  # along a row, down a column, down both diagonals
AROUND = ((-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0))  # the six neighbours on a board of hexagons


@lru_cache
def in_a_row(rows: int, columns: int, length: int) -> Wins:
    """Whether ``length`` stones stand in a row, a column or a diagonal without a gap."""
    lines = all_lines(rows, columns, length)
    members = np.zeros((rows * columns, len(lines)), np.float32)
    for number, line in enumerate(lines):
        members[line, number] = 1.0

    def wins(stones: Bools) -> Bools:
        # How many stones stand in every line; a line wins only when all of its cells are taken.
        counts = stones.astype(np.float32) @ members
        return np.asarray(counts.max(axis=1, initial=0) == length)

    return _looked_up(wins, rows * columns)


def all_lines(rows: int, columns: int, length: int) -> Ints:
    """``[lines, length]``: the cells of every line, counted row by row."""
    lines: list[list[int]] = []
    for row, column in np.ndindex(rows, columns):
        for down, right in WAYS:
            last_row, last_column = row + down * (length - 1), column + right * (length - 1)
            if last_row < rows and 0 <= last_column < columns:
                lines.append([(row + down * i) * columns + column + right * i for i in range(length)])
    return np.array(lines, np.int64).reshape(-1, length)


@lru_cache
def edge_to_edge(rows: int, columns: int, upright: bool) -> Wins:
    """Whether a chain of neighbouring hexagons leads from the top to the bottom (``upright``) or from left to right."""
    cells = np.arange(rows * columns).reshape(rows, columns)
    first, last = (cells[0], cells[-1]) if upright else (cells[:, 0], cells[:, -1])
    touches = neighbours(rows, columns).astype(np.float32)

    def wins(stones: Bools) -> Bools:
        reached = np.zeros_like(stones)
        reached[:, first] = stones[:, first]
        grown = True
        # One more ring of hexagons a turn: every stone that touches what the first edge reaches belongs to it.
        while grown:
            further = reached | (stones & (reached.astype(np.float32) @ touches > 0))
            grown = bool((further != reached).any())
            reached = further
        return np.asarray(reached[:, last].any(axis=1))

    return _looked_up(wins, rows * columns)


def neighbours(rows: int, columns: int) -> Bools:
    """``[cells, cells]``: which hexagons touch; each row of the board is shifted by half a cell to the right."""
    touches = np.zeros((rows * columns, rows * columns), bool)
    for row, column in np.ndindex(rows, columns):
        for down, right in AROUND:
            if 0 <= row + down < rows and 0 <= column + right < columns:
                touches[row * columns + column, (row + down) * columns + column + right] = True
    return touches


def _looked_up(wins: Wins, cells: int) -> Wins:
    """The same answers from a table, where the board is small enough for one."""
    if cells > MOST_TABLED:
        return wins
    powers = 2.0 ** np.arange(cells)  # as floats: their matrix products are the fast ones
    every_set = (np.arange(2**cells)[:, None] >> np.arange(cells)) & 1
    table = wins(every_set.astype(bool))

    def look_up(stones: Bools) -> Bools:
        return table[(stones @ powers).astype(np.int64)]

    return look_up
