"""Notes of a run: what it had to say while it trained, kept beside its results in ``notes.jsonl``.

A terminal shows notes once. Whoever looks at the run later, in ``marl watch``, reads them here: one JSON object per line,
``{"kind": "note" or "warning", "text": ..., "iteration": ..., "time": seconds}``. A run without notes has no such file.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from marl.inputs import open_input, parse_json

NOTES = "notes.jsonl"
MOST_READ = 256 * 1024  # bytes: the newest notes


def keep_note(directory: Path, text: str, kind: Literal["note", "warning"] = "note", iteration: int = 0) -> None:
    """Append a note. A disk that is full or read-only does not end a run for the sake of a note."""
    line = json.dumps({"kind": kind, "text": text, "iteration": iteration, "time": round(time.time(), 3)})
    with suppress(OSError), (directory / NOTES).open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def read_notes(directory: Path) -> list[dict[str, Any]]:
    """The newest notes, oldest first; lines that are no notes are passed over."""
    try:
        with open_input(directory / NOTES) as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - MOST_READ))
            lines = file.read().split(b"\n")
    except OSError:
        return []
    found = []
    for line in lines:
        with suppress(ValueError):
            note = parse_json(line)
            if isinstance(note, dict) and isinstance(note.get("text"), str):
                found.append(note)
    return found
