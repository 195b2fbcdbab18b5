"""Where jobs are trained: in this process, in processes of their own, or on Ray."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import IO, Any, Protocol

from marl.storage import make_folder
from marl.suite.train import FAILED, RUNNING, STOPPED, Heard, Job, Status, run_job

PATIENCE_S = 10.0  # seconds that a process has to end at once before it is ended


class Host(Protocol):
    """Trains jobs, several at a time or one."""

    @property
    def running(self) -> list[Job]:
        """Jobs that are being trained."""

    @property
    def free(self) -> bool:
        """Whether another job can be begun."""

    def start(self, job: Job) -> None:
        """Begin a job, or train it to its end."""

    def ended(self) -> Sequence[tuple[Job, Status]]:
        """Jobs that have ended since the last call."""

    def stop(self) -> None:
        """Let all jobs end in order, with checkpoints."""

    def close(self) -> None:
        """End whatever still runs."""


class InProcess:
    """One job after the other, in this process. Ctrl-C reaches the run itself, which ends behind its iteration."""

    def __init__(self, heard: Heard) -> None:
        self.running: list[Job] = []
        self._heard, self._asked = heard, False
        self._ended: list[tuple[Job, Status]] = []

    @property
    def free(self) -> bool:
        return True

    def start(self, job: Job) -> None:
        self.running.append(job)
        try:
            self._ended.append((job, run_job(job, self._heard, lambda: self._asked)))
        finally:
            self.running.remove(job)

    def ended(self) -> Sequence[tuple[Job, Status]]:
        found, self._ended = self._ended, []
        return found

    def stop(self) -> None:
        """A run that has begun has heard of Ctrl-C itself; one whose env is being built looks here."""
        self._asked = True

    def close(self) -> None:
        """Nothing runs between two jobs."""


class Processes:
    """A process per job, at most so many at once; what it prints is in ``job_NAME.log`` beside the runs.

    They are no part of this process's group, so that Ctrl-C in a terminal reaches them once, by ``stop``. They end when this
    process is gone.
    """

    def __init__(self, jobs: int) -> None:
        self._most = jobs
        self._processes: dict[str, tuple[Job, subprocess.Popen[str], IO[str]]] = {}
        self._asked = False

    @property
    def running(self) -> list[Job]:
        return [job for job, _, _ in self._processes.values()]

    @property
    def free(self) -> bool:
        return len(self._processes) < self._most

    def start(self, job: Job) -> None:
        make_folder(job.status_file.parent)
        log = job.status_file.with_suffix(".log").open("a", encoding="utf-8")
        process = subprocess.Popen(
            [sys.executable, "-m", "marl.suite.worker"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            text=True,
            **_apart(),
        )
        assert process.stdin is not None
        process.stdin.write(job.as_json() + "\n")
        process.stdin.flush()
        self._processes[job.title] = (job, process, log)

    def ended(self) -> Sequence[tuple[Job, Status]]:
        found = []
        for title, (job, process, log) in list(self._processes.items()):
            code = process.poll()
            if code is not None:
                del self._processes[title]
                log.close()
                found.append((job, self._status_of(job, code)))
        return found

    def _status_of(self, job: Job, code: int) -> Status:
        """What the job said last, or what became of it where it ended without a word."""
        status = Status.read(job.status_file)
        if code == 0:
            return status
        if self._asked and status.status in (RUNNING, STOPPED):
            status.status = STOPPED
        elif status.status != FAILED:
            status.status = FAILED
            status.error = (
                f"its process ended with code {code} and without a word; see {job.status_file.with_suffix('.log')}"
            )
        return status

    def stop(self) -> None:
        self._asked = True
        for _, process, _ in self._processes.values():
            process.send_signal(_ending())

    def close(self) -> None:
        for _, process, log in self._processes.values():
            process.send_signal(_ending())  # the second time: at once
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            log.close()
        self._processes.clear()


def _apart() -> dict[str, Any]:
    """How a process gets a group of its own."""
    if os.name == "nt":
        return {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
    return {"start_new_session": True}


def _ending() -> int:
    """The signal by which another process ends a run in order."""
    return int(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM))
