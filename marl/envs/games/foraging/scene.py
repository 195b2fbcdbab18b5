"""The field from above: food and agents with their levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from marl.data.task import AgentID

Walker: TypeAlias = tuple[AgentID, int, int, int]
"""Name, row, column, level."""
Food: TypeAlias = tuple[int, int, int]
"""Row, column, level."""

PLACES = {"stay": 0, "up": 1, "down": 2, "left": 3, "right": 4, "load": 5}  # the actions, by where they lead


def foraging_scene(
    size: tuple[int, int], walkers: Sequence[Walker], food: Sequence[Food], sight: int, viewer: AgentID | None
) -> dict[str, Any]:
    """A viewer sees as far as its sight goes; somebody who is no agent sees nothing, and nobody in particular all."""
    things: list[dict[str, Any]] = []
    for row, column, level in food:
        things.append(
            {"name": f"food of level {level}", "row": row, "column": column, "text": str(level), "sort": "food"}
        )
    for name, row, column, level in walkers:
        things.append({"name": name, "row": row, "column": column, "text": str(level), "sort": "walker"})
    if viewer is not None:
        things = _near(things, [walker[1:3] for walker in walkers if walker[0] == viewer], sight)
    rows, columns = size
    return {
        "kind": "maze",
        "text": f"Level-based foraging: {len(walkers)} agents, {len(food)} fruits are left.",
        "lines": ["." * columns] * rows,
        "things": things,
        "actions": PLACES,
    }


def _near(things: Sequence[dict[str, Any]], places: Sequence[tuple[int, int]], sight: int) -> list[dict[str, Any]]:
    """What lies at most ``sight`` rows and columns from one of the places."""
    found: list[dict[str, Any]] = []
    for thing in things:
        for row, column in places:
            if max(abs(thing["row"] - row), abs(thing["column"] - column)) <= sight:
                found.append(thing)
    return found


def foraging_text(size: tuple[int, int], walkers: Sequence[Walker], food: Sequence[Food]) -> str:
    """A line per row: levels of food as digits, agents as letters (``A`` is the first), and a line that tells their levels."""
    rows, columns = size
    cells = [["."] * columns for _ in range(rows)]
    for row, column, level in food:
        cells[row][column] = str(level)[-1]
    levels: list[str] = []
    for number, (name, row, column, level) in enumerate(walkers):
        letter = chr(ord("A") + number % 26)
        cells[row][column] = letter
        levels.append(f"{letter} {name} level {level}")
    lines = ["".join(line) for line in cells]
    return "\n".join([*lines, ", ".join(levels)])
