"""Boards of our own games as scenes, as text, and the names of their cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_lowercase
from typing import Any, TypeAlias

import numpy as np

from marl.data.task import AgentID, Ints

Cells: TypeAlias = list[list[str | None]]

PIECES = ("X", "O")
"""Of ``player_0`` and ``player_1``."""


def board_scene(
    title: str,
    cells: Cells,
    turn: AgentID | None,
    *,
    line: Sequence[Sequence[int]],
    actions: Mapping[str, int],
    style: str = "squares",
) -> dict[str, Any]:
    """A scene of kind ``board``. ``line``: the cells that have won; ``actions``: the action of a click, by place."""
    # Players are numbered at the end of their names.
    piece = None if turn is None else PIECES[int(turn.rpartition("_")[2])]
    return {
        "kind": "board",
        "text": _sentence(title, cells, turn, line),
        "rows": len(cells),
        "columns": len(cells[0]),
        "cells": cells,
        "style": style,
        "line": line,
        "turn": turn,
        "piece": piece,
        "actions": dict(actions),
    }


def _sentence(title: str, cells: Cells, turn: AgentID | None, line: Sequence[Sequence[int]]) -> str:
    # A viewer of a hidden board is told its own count, so that the sentence gives nothing away either.
    pieces = np.count_nonzero(np.array(cells, object))
    state = f"{turn} is to move"
    if turn is None:
        state = "the game is over"
    if line:
        row, column = line[0]
        state = f"{cells[row][column]} has won"
    return f"{title}: {pieces} pieces are seen; {state}."


def board_text(cells: Cells, shift: int = 0) -> str:
    """One line per row, a dot for an empty cell; each row ``shift`` letters further to the right."""
    lines = []
    for number, row in enumerate(cells):
        shown = [piece or "." for piece in row]
        # Rows of hexagons stand half a cell further to the right than the ones above.
        lines.append(" " * (shift * number) + " ".join(shown))
    return "\n".join(lines)


def places(cells: Ints, columns: int) -> list[list[int]]:
    """Cells that are counted row by row, as rows and columns."""
    found: list[list[int]] = np.stack(np.divmod(cells, columns), axis=1).tolist()
    return found


def clicks(legal: Ints, columns: int) -> dict[str, int]:
    """Where a click on a cell is the action of that number."""
    actions: dict[str, int] = {}
    for cell, (row, column) in zip(legal.tolist(), places(legal, columns), strict=True):
        actions[f"{row},{column}"] = cell
    return actions


def rows_of(pieces: Sequence[str | None], columns: int) -> Cells:
    """A board row by row, from its cells in their order."""
    starts = range(0, len(pieces), columns)
    return [list(pieces[start : start + columns]) for start in starts]


def cell_names(rows: int, columns: int) -> tuple[str, ...]:
    """``a1`` is the upper left corner: columns are letters, rows are numbers from the top."""
    names: list[str] = []
    for row in range(rows):
        names += [f"{ascii_lowercase[column]}{row + 1}" for column in range(columns)]
    return tuple(names)
