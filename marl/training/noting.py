"""A run's notes and warnings are kept with its results, whatever shows them to people."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from marl.log import PACKAGE
from marl.runs.notes import keep_note
from marl.runs.progress import Progress
from marl.training.display import Display, Result

_running: ContextVar[Path | None] = ContextVar(
    "running", default=None
)  # of several seeds in one process, which one runs


class NotingDisplay:
    """Shows what another display shows, and keeps the notes."""

    def __init__(self, shown: Display, directory: Path, iteration: Callable[[], int]) -> None:
        self._shown, self._directory, self._iteration = shown, directory, iteration

    def start(self, header: Sequence[str]) -> None:
        self._shown.start(header)

    def update(self, result: Result, progress: Progress) -> None:
        self._shown.update(result, progress)

    def busy(self, doing: str) -> None:
        self._shown.busy(doing)

    def note(self, text: str) -> None:
        keep_note(self._directory, text, "note", self._iteration())
        self._shown.note(text)

    def finish(self, lines: Sequence[str]) -> None:
        self._shown.finish(lines)


class _KeepWarnings(logging.Handler):
    def __init__(self, directory: Path, iteration: Callable[[], int]) -> None:
        super().__init__(logging.WARNING)
        self._directory, self._iteration = directory, iteration

    def emit(self, record: logging.LogRecord) -> None:
        if _running.get() in (None, self._directory):  # else it is about another seed
            keep_note(self._directory, record.getMessage(), "warning", self._iteration())


@contextmanager
def noted_in(directory: Path, display: Display, iteration: Callable[[], int]) -> Iterator[Display]:
    """While the block runs, notes of the display and warnings of the package go to the run's directory as well."""
    logger = logging.getLogger(PACKAGE)
    handler = _KeepWarnings(directory, iteration)
    logger.addHandler(handler)
    token = _running.set(directory)
    try:
        yield NotingDisplay(display, directory, iteration)
    finally:
        _running.reset(token)
        logger.removeHandler(handler)
