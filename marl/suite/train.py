"""One job of a suite: the seeds of a cell that are trained together, or one of them, in this process.

Each seed is an ordinary run in its run directory, and goes on there from its newest checkpoint. Beside the runs
``job_NAME.json`` tells how the job stands and what it has cost so far: whoever watches (``hosts.py``) reads that file.
"""

from __future__ import annotations

import json
import os
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from marl.analysis.report.curves import read_results
from marl.errors import UserError
from marl.inputs import read_json, real_path
from marl.runs.lock import check_unlocked
from marl.runs.result import look_up
from marl.runs.resume import resumable_in
from marl.scenario.load import compose
from marl.storage import make_folder, write_atomically
from marl.suite.early_stop import HeldGoal
from marl.suite.load import Rule
from marl.training.display import Progress, Quiet
from marl.training.loop import Outcome, run_until_stopped
from marl.training.stacked import run_stack
from marl.training.trainer import Trainer

DONE, STOPPED, FAILED, RUNNING = "done", "stopped", "failed", "running"
SECONDS_BETWEEN_WRITES = 1.0
Heard = Callable[[], None]
"""Called whenever the file of a job has changed."""


@dataclass(frozen=True)
class Job:
    """What a process needs to know to train; plain values, so that it can be sent anywhere as JSON."""

    cell: str
    folder: str
    raw: Mapping[str, Any]
    seeds: Sequence[int]
    metric: str
    budget: int
    rule: Mapping[str, Any] | None = None  # of an early stop
    niceness: int = 0

    @property
    def name(self) -> str:
        if self.raw["stacked"]:
            return "stack"
        return f"seed_{self.seeds[0]}"

    @property
    def title(self) -> str:
        if len(self.seeds) == 1:
            return f"{self.cell}, seed {self.seeds[0]}"
        return f"{self.cell}, {len(self.seeds)} seeds at once"

    @property
    def status_file(self) -> Path:
        return Path(self.folder, f"job_{self.name}.json")

    def directory(self, seed: int) -> Path:
        return Path(self.folder, f"seed_{seed}")

    def as_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass
class Status:
    """How a job stands. Seconds add up over all times that it was begun, also where work was lost and done again."""

    status: str = RUNNING
    error: str = ""
    cpu_s: float = 0.0
    wall_s: float = 0.0
    steps: dict[str, int] = field(default_factory=dict)  # env steps by seed

    @staticmethod
    def read(file: Path) -> Status:
        """What the file says; a job that was never begun where it says nothing."""
        try:
            return Status(**read_json(file))
        except (OSError, ValueError, TypeError):
            return Status(status=STOPPED)


class _Clock:
    """Keeps the file of a job up to date."""

    def __init__(self, job: Job, heard: Heard) -> None:
        self._file, self._heard = job.status_file, heard
        before = Status.read(self._file)
        self.status = Status(cpu_s=before.cpu_s, wall_s=before.wall_s, steps=before.steps)
        self._cpu, self._wall = _cpu_seconds() - before.cpu_s, time.monotonic() - before.wall_s
        self._written = 0.0

    def tell(self, seed: int, steps: int) -> None:
        self.status.steps[str(seed)] = steps
        if time.monotonic() - self._written >= SECONDS_BETWEEN_WRITES:
            self.write()

    def write(self, status: str = RUNNING, error: str = "") -> None:
        self.status.status, self.status.error = status, error
        self.status.cpu_s, self.status.wall_s = _cpu_seconds() - self._cpu, time.monotonic() - self._wall
        write_atomically(self._file, json.dumps(asdict(self.status)) + "\n")
        self._written = time.monotonic()
        self._heard()


def _cpu_seconds() -> float:
    """Of this process and of those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class _SeedDisplay(Quiet):
    """Hands on how far a seed is."""

    def __init__(self, clock: _Clock, seed: int) -> None:
        self._clock, self._seed = clock, seed

    def update(self, result: Mapping[str, Any], progress: Progress) -> None:
        del progress
        self._clock.tell(self._seed, int(look_up(result, "timesteps_total") or 0))


def run_job(job: Job, heard: Heard = lambda: None, asked_to_stop: Callable[[], bool] = lambda: False) -> Status:
    """Train the seeds of a job to their ends, or until Ctrl-C (status ``stopped``). An error is kept in files, not raised."""
    make_folder(Path(job.folder))
    be_nice(job.niceness)
    clock = _Clock(job, heard)
    clock.write()
    try:
        outcomes = _train(job, clock, asked_to_stop)
    except KeyboardInterrupt:
        clock.write(STOPPED)
    except Exception as error:
        clock.write(FAILED, _kept(error, job))
    else:
        clock.write(*_judged(outcomes, job))
    return clock.status


def _train(job: Job, clock: _Clock, asked_to_stop: Callable[[], bool]) -> Sequence[Outcome | Exception]:
    for seed in job.seeds:
        check_unlocked(job.directory(seed))
    displays = [_SeedDisplay(clock, seed) for seed in job.seeds]
    with ExitStack() as opened:
        trainers = [_open(job, seed, opened) for seed in job.seeds]
        if asked_to_stop():
            raise KeyboardInterrupt
        if job.raw["stacked"]:
            return run_stack(trainers, displays)
        return [run_until_stopped(trainers[0], displays[0])]


def _open(job: Job, seed: int, opened: ExitStack) -> Trainer:
    """A trainer in the seed's run directory, at its newest checkpoint."""
    scenario = compose({**job.raw, "seed": seed}, job.cell)
    directory = job.directory(seed)
    checkpoint = resumable_in(real_path(directory))
    trainer = opened.enter_context(Trainer(scenario=scenario, fresh=checkpoint is None))
    trainer.store.enter(directory, checkpoint)
    if job.rule is not None:
        # After entering: results behind the checkpoint are gone by now.
        earlier = read_results(directory / "result.json") if checkpoint is not None else []
        trainer.extensions.more.append(HeldGoal(job.metric, Rule(**job.rule), earlier))
    return trainer


def _judged(outcomes: Sequence[Outcome | Exception], job: Job) -> tuple[str, str]:
    """Status and error of the whole job."""
    errors = []
    for outcome, seed in zip(outcomes, job.seeds, strict=True):
        if isinstance(outcome, Exception):
            errors.append(f"seed {seed}: {_kept(outcome, job)}")
    if errors:
        return FAILED, "; ".join(errors)
    if any(not isinstance(outcome, Exception) and outcome.interrupted for outcome in outcomes):
        return STOPPED, ""
    return DONE, ""


def _kept(error: Exception, job: Job) -> str:
    """An error in a line; the traceback of one that is no user's mistake is in a file beside the runs."""
    first_line = next(iter(str(error).splitlines()), "")
    if isinstance(error, UserError):
        return str(error)
    file = Path(job.folder, f"error_{job.name}.txt")
    with suppress(OSError):
        write_atomically(file, "".join(traceback.format_exception(error)))
    return f"{type(error).__name__}: {first_line} (traceback: {file})"


def be_nice(niceness: int) -> None:
    """Leave the machine to others; it never becomes less nice."""
    if niceness and hasattr(os, "nice"):
        os.nice(max(0, niceness - os.nice(0)))
