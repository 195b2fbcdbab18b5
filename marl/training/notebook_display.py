"""A run as a notebook shows it: one output that is drawn anew in place, instead of a line per iteration."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from marl.page import notebook
from marl.runs.progress import Progress
from marl.runs.result import ShownResult
from marl.scenario.env import env_name
from marl.training.display import NEWEST_ROWS, Display, Result, table_cells, table_titles

if TYPE_CHECKING:
    from marl.training.trainer import Trainer

SECONDS_BETWEEN_DRAWINGS = 0.25  # a browser that gets more falls behind


def in_notebook() -> bool:
    """Whether this process is a kernel that shows HTML. Nothing is imported: a kernel has IPython already."""
    ipython = sys.modules.get("IPython")
    shell = getattr(ipython, "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def notebook_display() -> Display | None:
    """The display for a notebook, or None elsewhere."""
    if not in_notebook():
        return None
    return NotebookDisplay()


def trainer_as_html(trainer: Trainer) -> notebook.Html:
    """How far a trainer is, who learns in it, and its last result."""
    facts = [
        ("env", env_name(trainer.scenario.env)), ("iterations", trainer.iteration), ("env steps", trainer.timesteps_total),
        ("episodes", trainer.episodes_total), ("best evaluation", trainer.best_evaluation),
        ("results", trainer.store.directory),
    ]  # fmt: skip
    parts = [notebook.table(("", ""), [fact for fact in facts if fact[1] is not None])]
    parts.append(notebook.folded(f"{len(trainer.policies)} policies", notebook.lines(trainer.setup.header)))
    if trainer.last_result:
        # Of a run that was resumed it is a plain dict.
        parts.append(notebook.folded("last result", ShownResult(trainer.last_result).shown()))
    return notebook.block("Trainer", *parts)


class NotebookDisplay:
    """The newest results as a table, older ones folded, a bar towards the stop condition, and remarks."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._next = clock, float("-inf")
        self._header: list[str] = []
        self._rows: list[dict[str, str]] = []
        self._notes: list[str] = []
        self._last: list[str] = []
        self._progress = Progress(0.0, "")
        self._doing = ""
        self._handle: Any = None

    def start(self, header: Sequence[str]) -> None:
        self._header = list(header)
        self._draw()

    def update(self, result: Result, progress: Progress) -> None:
        self._rows = [*self._rows, table_cells(result)][-NEWEST_ROWS:]
        self._progress = progress
        if self._clock() >= self._next:
            self._draw()

    def busy(self, doing: str) -> None:
        self._doing = doing
        self._draw()

    def note(self, text: str) -> None:
        self._notes.append(text)
        self._draw()

    def finish(self, lines: Sequence[str]) -> None:
        self._doing, self._last = "", list(lines)
        self._draw()

    def html(self) -> notebook.Html:
        """What is shown now."""
        titles = table_titles(self._rows)
        newest = list(reversed(self._rows))  # what is new stays above the fold
        rows = [[row.get(title, "-") for title in titles] for row in newest]
        parts = [notebook.folded("about this run", notebook.lines(self._header))]
        if rows:
            parts.append(notebook.table(titles, rows))
        parts.append(notebook.bar(self._progress.fraction, self._doing or self._progress.label))
        if self._notes:
            notes = notebook.lines(self._notes)
            parts.append(notebook.folded(f"{len(self._notes)} notes: {self._notes[-1]}", notes))
        parts.append(notebook.lines(self._last))
        return notebook.block("marl", *parts)

    def _draw(self) -> None:
        from IPython.display import HTML, display  # there: `in_notebook` has seen it

        shown = HTML(self.html())
        if self._handle is None:
            self._handle = display(shown, display_id=True)
        else:
            self._handle.update(shown)
        self._next = self._clock() + SECONDS_BETWEEN_DRAWINGS
