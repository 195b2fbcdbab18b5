"""Who may move: robots that wish to go forward, some of them to where others stand or wish to go.

Every robot points at the cell that it wishes to be on. Following these wishes from a robot leads to a free cell, or round in a
circle; one who stays points at itself.

* A circle of three or more moves, with nobody else; two who would change places stay; whoever waits for one of them stays.
* Of all who queue for a free cell, the longest queue moves up, one robot after the other. Where two branches of it are equally
  long, ``rware`` takes the one that comes first in a graph of ``networkx``: mostly that of the robot with the lower number,
  but in a large graph of small parts the order of a Python set of cells decides (``order_of_wishes``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from marl.data.task import Bools, Ints

Cell: TypeAlias = tuple[int, int]
"""Column and row."""


def right_of_way(cell: Ints, wished: Ints, columns_and_rows: Ints) -> Bools:
    """``[N, robots]``: who gets to its wish. ``columns_and_rows[c]`` are those of the cell ``c``."""
    robots = cell.shape[1]
    waits_for = wished[:, :, None] == cell[:, None]  # [N, who, for whom]
    ahead = np.where(waits_for.any(axis=2), waits_for.argmax(axis=2), robots)  # robots: nobody, the cell is free
    circle, to_free = _circles(ahead)
    queue = _queues(waits_for)
    rivals = (wished[:, :, None] == wished[:, None]) & ~np.eye(robots, dtype=bool) & to_free[:, :, None]
    tied = rivals & (queue[:, :, None] == queue[:, None])
    order = np.tile(np.arange(robots), (len(cell), 1))
    for row in np.flatnonzero(tied.any(axis=(1, 2))):
        places = [[(int(x), int(y)) for x, y in columns_and_rows[cells[row]]] for cells in (cell, wished)]
        order[row] = order_of_wishes(*places)
    beaten = rivals & (queue[:, None] > queue[:, :, None])
    beaten |= tied & (order[:, None] < order[:, :, None])
    moves = np.ones((len(cell), robots + 1), bool)  # the last one is nobody, who makes room
    moves[:, :-1] = to_free & ~beaten.any(axis=2)
    rows = np.arange(len(cell))[:, None]
    for _ in range(robots - 1):  # who follows one that does not move does not move either
        moves[:, :-1] &= moves[rows, ahead]
    allowed: Bools = moves[:, :-1] | (circle == 1) | (circle > 2)
    return allowed


def _circles(ahead: Ints) -> tuple[Ints, Bools]:
    """Of how many robots the circle is that a robot is part of (0: of none), and whether its way leads to a free cell."""
    count, robots = ahead.shape
    onward = np.full((count, robots + 1), robots)
    onward[:, :-1] = ahead
    circle = np.zeros_like(ahead)
    at, rows = np.arange(robots), np.arange(count)[:, None]
    for length in range(1, robots + 1):
        at = onward[rows, at]
        circle[(at == np.arange(robots)) & (circle == 0)] = length
    return circle, at == robots


def _queues(waits_for: Bools) -> Ints:
    """How many robots stand in the longest queue behind each, itself included; means nothing in circles."""
    count, robots, _ = waits_for.shape
    queue = np.ones((count, robots), np.int64)
    for _ in range(robots - 1):
        queue = 1 + (waits_for * queue[:, :, None]).max(axis=1)
    return queue


def order_of_wishes(cells: Sequence[Cell], wished: Sequence[Cell]) -> list[int]:
    """For each robot, how early its wish is looked at among equals.

    ``rware`` adds an edge from cell to wish for every robot to a graph, takes it apart into connected parts and copies these.
    A copy lists its edges in the order of the graph's nodes; but a part of less than half of the nodes in the order in which
    Python's set lists them. Small sets of tuples of numbers are listed alike by every CPython of 64 bits.
    """
    succeeding: dict[Cell, list[Cell]] = {}
    preceding: dict[Cell, list[Cell]] = {}
    for start, end in zip(cells, wished, strict=True):
        for node in (start, end):
            succeeding.setdefault(node, [])
            preceding.setdefault(node, [])
        succeeding[start].append(end)
        preceding[end].append(start)
    listed: list[Cell] = []
    unseen = len(succeeding)
    for source in succeeding:
        if source in listed:
            continue
        part = _part(source, succeeding, preceding, unseen)
        unseen -= len(part)
        chosen = set(iter(part))  # a set of a set may be listed in another order than that set, as in the original
        if 2 * len(chosen) < len(succeeding):
            listed += chosen
        else:
            listed += [node for node in succeeding if node in chosen]
    return [listed.index(cell) for cell in cells]


def _part(
    source: Cell, succeeding: dict[Cell, list[Cell]], preceding: dict[Cell, list[Cell]], unseen: int
) -> set[Cell]:
    """All nodes that hang together with one, found level by level."""
    seen = {source}
    level = [source]
    while level and len(seen) < unseen:
        reached: list[Cell] = []
        for node in level:
            for near in [*succeeding[node], *preceding[node]]:
                if near not in seen:
                    seen.add(near)
                    reached.append(near)
        level = reached
    return seen
