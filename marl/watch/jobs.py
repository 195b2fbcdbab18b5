"""Work that takes longer than a request: it is begun, asked about, and can be broken off.

The page does so with ``job(...)`` of ``api.js``: POST gives the number, GET ``/api/jobs/NUMBER`` says how far it is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from marl.serve.refused import Refused, internal
from marl.watch.workers import Worker

KEPT_S = 600.0  # results that nobody has fetched
MOST = 32


@dataclass
class Job:
    """One piece of work."""

    worker: Worker
    task: asyncio.Task[None] | None = None
    state: str = "waiting"
    done: float = 0.0
    total: float | None = None
    text: str = ""
    result: Any = None
    error: Refused | None = None
    began: float = field(default_factory=time.monotonic)

    def begin(self) -> None:
        self.state = "running"

    def tell(self, done: float, total: float | None, text: str) -> None:
        self.done, self.total, self.text = done, total, text

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {"state": self.state, "done": self.done, "total": self.total, "text": self.text}
        if self.state == "done":
            told["result"] = self.result
        if self.error is not None:
            told |= self.error.to_json()
        return told


class Jobs:
    """All work that is under way, by number."""

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}
        self._next = 1

    def start(
        self, worker: Worker, task: str, arguments: dict[str, Any], finish: Callable[[Any], Any] | None = None
    ) -> int:
        """Begin; ``finish`` makes what the page gets of what the task returned."""
        self._sweep()
        if len(self._jobs) >= MOST:
            raise Refused(
                "too_many", f"{MOST} pieces of work are under way; wait for one to end.", 429, retry_after=1.0
            )
        number, self._next = self._next, self._next + 1
        job = Job(worker)
        self._jobs[number] = job
        job.task = asyncio.create_task(self._run(job, task, arguments, finish))
        return number

    async def _run(self, job: Job, task: str, arguments: dict[str, Any], finish: Callable[[Any], Any] | None) -> None:
        try:
            found = await job.worker.call(task, arguments, job.tell, job.begin)
            job.result = found if finish is None else finish(found)
            job.state = "done"
        except Refused as refused:
            job.state, job.error = "failed", refused
        except Exception as error:
            job.state, job.error = "failed", internal(error)

    def get(self, number: int) -> dict[str, Any]:
        job = self._jobs.get(number)
        if job is None:
            raise Refused("not_found", f"there is no piece of work {number} (any more).", 404)
        told = job.to_json()
        if job.state in ("done", "failed"):
            del self._jobs[number]  # it has been told
        return told

    def stop(self, number: int) -> None:
        """Break it off: its process ends, and a new one begins with the next task. One that waits leaves the queue."""
        job = self._jobs.pop(number, None)
        if job is None or job.task is None:
            return
        if job.state == "running":
            job.worker.stop()
        elif job.state == "waiting":
            job.task.cancel()

    def _sweep(self) -> None:
        """Forget what has ended and nobody asks about."""
        now = time.monotonic()
        for number, job in list(self._jobs.items()):
            if job.state in ("done", "failed") and now - job.began > KEPT_S:
                del self._jobs[number]
