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
LONGEST_NOTE = 1024 * 1024  # characters of a file of notes; those of the demo have 60,000


def note(directory: Path, content: Mapping[str, Any]) -> None:
    """Add a line, whole: it is written at once, and readers take whole lines only."""
    with (directory / NOTES).open("a", encoding="utf-8") as file:
        file.write(json.dumps(content, separators=(",", ":")) + "\n")


def read_notes(directory: Path) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
    """What stands there about the run, and its points; None where nothing was noted (yet)."""
    try:
        with (directory / NOTES).open(encoding="utf-8") as file:
            text = file.read(LONGEST_NOTE)
    except OSError:
        return None
    found = []
    for line in text.split("\n")[:-1]:  # behind the last break stands what is being written
        found.append(parse_json(line))
    if not found:
        return None
    return found[0], found[1:]
