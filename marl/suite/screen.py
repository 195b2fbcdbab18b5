"""What a person sees while a suite is trained: cells done, what runs now, how far it is, and for how long it will go on.

All of it goes to standard error. Outside of a terminal: a line when a job begins or ends, and one every minute.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

from marl.errors import printable
from marl.suite.hosts import Host
from marl.suite.plan import PlannedCell
from marl.suite.train import DONE, FAILED, Job, Status

SECONDS_BETWEEN_LINES = 60.0


class Screen:
    """Draws what the files of the running jobs say."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
        )
        self._bars = Progress(*columns, console=self._console, transient=True, disable=not self._console.is_terminal)
        self._host: Host | None = None
        self._rows: dict[str, TaskID] = {}
        self._open: dict[str, int] = {}  # cell to its open jobs
        self._cells = 0
        self._finished_before = 0
        self._work: dict[str, float] = {}  # env steps that each job has to play
        self._ahead: dict[str, float] = {}  # of these, before this call
        self._began = self._told = time.monotonic()
        self._ended: set[str] = set()
        self._total = TaskID(0)

    def start(self, cells: Sequence[PlannedCell], jobs: Sequence[Job]) -> None:
        for job in jobs:
            self._open[job.cell] = self._open.get(job.cell, 0) + 1
            self._work[job.title] = float(job.budget * len(job.seeds))
            self._ahead[job.title] = _steps_of(job)
        self._cells = len(cells)
        self._finished_before = len(cells) - len(self._open)
        self._began = self._told = time.monotonic()
        self._bars.start()
        self._total = self._bars.add_task(self._summary(), total=1.0)

    def watch(self, host: Host) -> None:
        self._host = host

    def begun(self, job: Job) -> None:
        self._rows[job.title] = self._bars.add_task(f"  {job.title}", total=1.0)
        self._line(f"{job.title}: training")

    def ended(self, job: Job, status: Status) -> None:
        if job.title in self._rows:
            self._bars.remove_task(self._rows.pop(job.title))
        said = f"{job.title}: {status.status}"
        if status.status == DONE:
            self._open[job.cell] -= 1
            self._ended.add(job.title)
            said = f"{said} ({status.wall_s:,.0f} s)"
        elif status.status == FAILED:
            first_line = next(iter(status.error.splitlines()), "")
            said = f"{said}, {first_line}"
        self._line(said)

    def show(self) -> None:
        """Draw how far the running jobs are."""
        for job in self._running:
            steps, all_of_them = _steps_of(job), self._work[job.title]
            what = f"  {job.title}: {steps:,.0f} of {all_of_them:,.0f} env steps"
            self._bars.update(self._rows[job.title], completed=min(1.0, steps / all_of_them), description=what)
        self._bars.update(self._total, completed=self._done_share(), description=self._summary())
        if not self._console.is_terminal and time.monotonic() - self._told >= SECONDS_BETWEEN_LINES:
            self._told = time.monotonic()
            self._line(f"{self._summary()}; now: {', '.join(job.title for job in self._running)}")

    def say(self, text: str) -> None:
        self._console.print(printable(text), markup=False, soft_wrap=True)

    def finish(self) -> None:
        self._bars.stop()

    def _line(self, text: str) -> None:
        if not self._console.is_terminal:
            self.say(text)

    @property
    def _running(self) -> list[Job]:
        return [] if self._host is None else self._host.running

    def _done_share(self) -> float:
        """Of the work of this call, by env steps."""
        return sum(self._played().values()) / sum(self._work.values())

    def _played(self) -> dict[str, float]:
        """Env steps by job; a job that has reached its end counts as a whole, wherever it stopped."""
        found = {}
        now = {job.title: _steps_of(job) for job in self._running}
        for title, all_of_them in self._work.items():
            steps = all_of_them if title in self._ended else now.get(title, self._ahead[title])
            found[title] = min(steps, all_of_them)
        return found

    def _summary(self) -> str:
        done = self._finished_before + sum(1 for left in self._open.values() if not left)
        return f"{done} of {self._cells} cells{self._remaining()}"

    def _remaining(self) -> str:
        """How long it will take, by how quick it was since this call began; nothing before that can be said."""
        before = sum(self._ahead.values())
        total = sum(self._work.values())
        now = self._done_share() * total
        took = time.monotonic() - self._began
        if now - before < 0.01 * total or took < 5.0:
            return ""
        left = (total - now) / (now - before) * took
        return f", about {left / 60:,.0f} minutes left" if left >= 90 else f", about {left:,.0f} seconds left"


def _steps_of(job: Job) -> float:
    """Env steps that the seeds of a job have played, by its file."""
    known = Status.read(job.status_file).steps
    return float(sum(known.get(str(seed), 0) for seed in job.seeds))
