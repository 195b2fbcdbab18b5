"""Cooks who know their way: random play rarely delivers a soup, and rules that are never used are not tested.

Needs nothing but the lines of a kitchen, and what is where: cells are numbered row by row, and have the codes of
``marl/envs/games/overcooked/rules.py`` (written out here, so that the original can be recorded where marl is not installed).
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import cache

NOTHING, ONION, PLATE, SOUP = range(4)
FLOOR, COUNTER, ONION_PILE, PLATE_PILE, GOAL, POT = 0, 1, 5, 6, 7, 8
FULL, EMPTY, READY = POT + 20, POT + 23, POT
STEPS = ((-1, 0), (1, 0), (0, 1), (0, -1))  # up, down, right, left
INTERACT = 5

Codes = Sequence[int]


@cache
def _ways(floor: tuple[bool, ...], width: int, target: int) -> dict[int, int]:
    """The action that leads to the target or faces it, by the cell of floor where a cook stands."""
    ways: dict[int, int] = {}
    todo = deque([target])
    while todo:
        cell = todo.popleft()
        for action, (rows, columns) in enumerate(STEPS):
            before = cell - rows * width - columns
            if 0 <= before < len(floor) and floor[before] and before not in ways:
                ways[before] = action
                todo.append(before)
    return ways


class Cook:
    """One of the two cooks, who sometimes does anything."""

    def __init__(self, width: int, seed: int, careless: float = 0.15) -> None:
        self.width, self.careless = width, careless
        self.rng = random.Random(seed)

    def action(self, codes: Codes, place: int, facing: int, held: int, other: int, other_holds: int) -> int:
        """``other`` is the cell of the other cook."""
        if self.rng.random() < self.careless:
            return self.rng.randrange(6)
        floor = tuple(code == FLOOR for code in codes)
        for wanted in self._wishes(codes, held, other_holds):
            ways = [(_ways(floor, self.width, cell), cell) for cell in wanted]
            here = [(way[place], cell) for way, cell in ways if place in way]
            if here:
                action, cell = self.rng.choice(here)
                rows, columns = STEPS[facing]
                if place + rows * self.width + columns == cell:
                    return INTERACT
                return action
            if held != NOTHING and wanted:  # out of reach: lay it where the other cook can take it
                return self._hand_over(codes, floor, place, facing, other)
        return self.rng.randrange(6)

    def _hand_over(self, codes: Codes, floor: tuple[bool, ...], place: int, facing: int, other: int) -> int:
        empty = [_ways(floor, self.width, cell) | {-1: cell} for cell in _where(codes, lambda code: code == COUNTER)]
        shared = [ways for ways in empty if place in ways and other in ways]
        if not shared:
            return self.rng.randrange(6)
        ways = self.rng.choice(shared)
        rows, columns = STEPS[facing]
        return INTERACT if place + rows * self.width + columns == ways[-1] else ways[place]

    def _wishes(self, codes: Codes, held: int, other_holds: int) -> Iterable[list[int]]:
        """Cells to reach for, the most wanted first."""
        with_room = _where(codes, lambda code: code > FULL)
        with_soup = _where(codes, lambda code: POT <= code <= FULL)
        if held == SOUP:
            return [_where(codes, lambda code: code == GOAL)]
        if held == ONION:
            return [with_room, _where(codes, lambda code: code == COUNTER)]
        if held == PLATE:
            return [with_soup, _where(codes, lambda code: code == COUNTER)]
        wishes = [_where(codes, lambda code: code == COUNTER + SOUP)]
        if with_soup and other_holds != PLATE:
            wishes.append(_where(codes, lambda code: code == COUNTER + PLATE))
            wishes.append(_where(codes, lambda code: code == PLATE_PILE))
        if with_room:
            wishes.append(_where(codes, lambda code: code in (ONION_PILE, COUNTER + ONION)))
        return wishes


def _where(codes: Codes, fits: Callable[[int], bool]) -> list[int]:
    return [cell for cell, code in enumerate(codes) if fits(code)]
