"""Files in which the runs of the demo note what they believe after every iteration; the server reads them, without torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from marl.inputs import parse_json

FOLDER = "demo"  # of the results
NOTES = "joint_values.jsonl"
"""In a run directory: one line about the run, then one per iteration."""
ALGOS = ("qmix", "vdn", "dqn")
STEPS = 16_384  # env steps of each run
ABOUT = frozenset({"algo", "mixer", "gamma", "truth", "best", "keys"})
POINT = frozenset({"steps", "reward", "members", "joint", "greedy"})
LONGEST_NOTE = 1024 * 1024  # characters of a file of notes; those of the demo have 60,000


def note(directory: Path, content: Mapping[str, Any]) -> None:
    """Add a line, whole: it is written at once, and readers take whole lines only."""
    with (directory / NOTES).open("a", encoding="utf-8") as file:
        file.write(json.dumps(content, separators=(",", ":")) + "\n")


def read_notes(directory: Path) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
    """What stands there about the run, and its points; None where nothing was noted (yet), or by somebody else."""
    try:
        with (directory / NOTES).open(encoding="utf-8") as file:
            text = file.read(LONGEST_NOTE)
        # Behind the last break stands what is being written.
        found = [parse_json(line) for line in text.split("\n")[:-1]]
    except (OSError, ValueError):
        return None
    if not found or not _are_ours(found):
        return None
    return found[0], found[1:]


def _are_ours(lines: list[Any]) -> bool:
    """Whether the lines have what the page shows; a folder of results may come from elsewhere, or from another version."""
    for line, needed in zip(lines, (ABOUT, *[POINT] * len(lines)), strict=False):
        if not isinstance(line, dict) or not needed <= line.keys():
            return False
    return True
