"""Kitchens as lines of text, and what a cook in one of their cells can do there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from marl.data.task import Ints
from marl.envs.games.overcooked.rules import COUNTER, FLOOR, GOAL, ONION_PILE, PLATE_PILE, POT, POT_EMPTY
from marl.errors import ConfigError, did_you_mean

# W counter, O onions, B plates (bowls), P pot, X where soups are delivered, 0 and 1 (or A and A) where the cooks begin.
LAYOUTS: dict[str, tuple[str, ...]] = {
    "cramped_room": (
        "WWPWW",
        "O0 1O",
        "W   W",
        "WBWXW",
    ),
    "asymm_advantages": (
        "WWWWWWWWW",
        "O WXWOW X",
        "W   P   W",
        "W 0 P1  W",
        "WWWBWBWWW",
    ),
    "coord_ring": (
        "WWWPW",
        "W 0 P",
        "B1W W",
        "O   W",
        "WOXWW",
    ),
    "forced_coord": (
        "WWWPW",
        "O W1P",
        "O0W W",
        "B W W",
        "WWWXW",
    ),
    "counter_circuit": (
        "WWWPPWWW",
        "W 0    W",
        "B WWWW X",
        "W     1W",
        "WWWOOWWW",
    ),
}
CODES = {
    "W": COUNTER,
    "O": ONION_PILE,
    "B": PLATE_PILE,
    "P": POT + POT_EMPTY,
    "X": GOAL,
    " ": FLOOR,
    "A": FLOOR,
    "0": FLOOR,
    "1": FLOOR,
}
NEEDED = {"O": "a pile of onions", "B": "a pile of plates", "P": "a pot", "X": "a place to deliver soups"}
STEPS = ((-1, 0), (1, 0), (0, 1), (0, -1))  # rows and columns: up, down, right, left


@dataclass(frozen=True)
class Layout:
    """A kitchen. Cells are numbered row by row from the upper left corner."""

    lines: tuple[str, ...]

    @property
    def height(self) -> int:
        return len(self.lines)

    @property
    def width(self) -> int:
        return len(self.lines[0])

    @cached_property
    def codes(self) -> Ints:
        """``[C]``: what is in each cell when an episode begins."""
        return np.array([CODES[letter] for letter in "".join(self.lines)])

    @cached_property
    def pots(self) -> Ints:
        return np.flatnonzero(self.codes >= POT)

    @cached_property
    def floor(self) -> Ints:
        return np.flatnonzero(self.codes == FLOOR)

    @cached_property
    def starts(self) -> tuple[int, int]:
        """The cells of both cooks."""
        cells = "".join(self.lines)
        first, second = ("A", "A") if "A" in cells else ("0", "1")
        return cells.index(first), cells.rindex(second)

    @cached_property
    def front(self) -> Ints:
        """``[C, 4]``: the cell before a cook who stands in a cell and faces up, down, right or left; 0 from no floor."""
        cells = np.zeros((self.codes.size, len(STEPS)), np.int64)
        cells[self.floor] = self.floor[:, None] + [rows * self.width + columns for rows, columns in STEPS]
        return cells

    @cached_property
    def leads(self) -> Ints:
        """``[6, C]``: where each action leads from a cell, if nobody is in the way; only floor can be entered."""
        here = np.arange(self.codes.size)
        leads = np.tile(here, (6, 1))
        for direction, front in enumerate(self.front.T):
            leads[direction] = np.where((self.codes == FLOOR) & (self.codes[front] == FLOOR), front, here)
        return leads


def read_layout(given: str | Sequence[str]) -> Layout:
    """The kitchen of this name, or of these lines: a list of them, or one text."""
    lines: Sequence[str] = given.strip("\n").split("\n") if isinstance(given, str) else given
    if isinstance(given, str) and len(lines) == 1:
        if given not in LAYOUTS:
            raise ConfigError(
                f"fast:overcooked: there is no layout {given!r}. Known: {', '.join(LAYOUTS)}; or give the lines of one."
                f"{did_you_mean(given, LAYOUTS)}"
            )
        lines = LAYOUTS[given]
    lines = tuple(lines)
    trouble = _trouble(lines)
    if trouble:
        letters = "W counter, O onions, B plates, P pot, X delivery, a space for floor, 0 and 1 (or A and A) the cooks"
        raise ConfigError(
            f"fast:overcooked: the layout {list(lines)} {trouble}. Expected lines of equal length: {letters}."
        )
    return Layout(lines)


def _trouble(lines: tuple[str, ...]) -> str:
    """What is wrong with the lines of a kitchen; empty: nothing."""
    cells = "".join(lines)
    if not cells or len(set(map(len, lines))) > 1:
        return "is not a rectangle"
    unknown = sorted(set(cells) - set(CODES))
    if unknown:
        return f"has cells {', '.join(map(repr, unknown))}, which mean nothing"
    return _missing(cells) or _open_border(lines)


def _missing(cells: str) -> str:
    names = [name.removeprefix("a ") for letter, name in NEEDED.items() if letter not in cells]
    if names:
        return f"has no {' and no '.join(names)}"
    cooks = {letter: cells.count(letter) for letter in "A01"}
    if cooks not in ({"A": 2, "0": 0, "1": 0}, {"A": 0, "0": 1, "1": 1}):
        return "does not have two cooks"
    return ""


def _open_border(lines: tuple[str, ...]) -> str:
    sides = [line[0] + line[-1] for line in lines]
    border = set("".join([lines[0], lines[-1], *sides]))
    floor = {letter for letter, code in CODES.items() if code == FLOOR}
    return "is open: floor on its border" if border & floor else ""
