"""Checkpoints that were passed over because they are damaged: nobody takes an older one without a word.

Whoever looks for the newest checkpoint of a run calls ``tell``; it goes to the standard error (by ``logging``). A program that
wants to pass it on as well, such as a command with ``--json``, collects it by ``noted``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PassedOver:
    """A checkpoint that could not be used, why, and which one was used instead (None: those beside it, without it)."""

    checkpoint: Path
    damage: str
    used: Path | None


@dataclass
class Noted:
    """What was passed over since ``noted`` began, each once."""

    found: list[PassedOver] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """``{"damaged_checkpoints": [...]}``; empty where nothing was passed over."""
        entries = []
        for one in self.found:
            used = None
            if one.used is not None:
                used = str(one.used)
            entries.append({"checkpoint": str(one.checkpoint), "damage": one.damage, "used": used})
        if not entries:
            return {}
        return {"damaged_checkpoints": entries}

    def lines(self) -> list[str]:
        """The same for people."""
        return [_line(one) for one in self.found]


_notes: ContextVar[Noted | None] = ContextVar("notes", default=None)
_reported: set[PassedOver] = set()  # a report looks up the same run several times


@contextmanager
def noted() -> Iterator[Noted]:
    """Collect what is passed over while the block runs."""
    notes = Noted()
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


def tell(damaged: Sequence[tuple[Path, str]], used: Path | None) -> None:
    """Name the checkpoints that were passed over, newest first, and the one that is used instead."""
    notes = _notes.get()
    for checkpoint, damage in damaged:
        one = PassedOver(checkpoint, damage, used)
        if notes is not None and one not in notes.found:
            notes.found.append(one)
        if one not in _reported:
            _reported.add(one)
            log.warning("%s", _line(one))  # a path may hold a percent sign


def _line(one: PassedOver) -> str:
    instead = "The others are used."
    if one.used is not None:
        instead = f"{one.used.name} is used instead."
    return f"{one.checkpoint} is passed over: {one.damage}. {instead}"
