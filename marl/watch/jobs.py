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
from marl.watch.lost_files import refusal_of
from marl.watch.workers import Worker

KEPT_S = 600.0  # results that nobody has fetched
UNASKED_S = 300.0  # work that nobody asks about any more is ended; a tab behind others asks once a minute
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
    unwanted: bool = False
    asked: float = field(default_factory=time.monotonic)  # when somebody last wanted to know

    @property
    def ended(self) -> bool:
        return self.state in ("done", "failed")

    def begin(self) -> None:
        """In the worker's thread: its turn has come."""
        self.state = "running"
        # Looked at afterwards, while ``stop`` looks at the state after setting it: one of the two sees the other.
        if self.unwanted:
            raise Refused("stopped", "somebody has stopped this.", 409)

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
        under_way = [job for job in self._jobs.values() if not job.ended]
        if len(under_way) >= MOST:
            raise Refused(
                "too_many", f"{MOST} pieces of work are under way; wait for one to end.", 429, retry_after=1.0
            )
        number, self._next = self._next, self._next + 1
        job = Job(worker)
        self._jobs[number] = job
        job.task = asyncio.create_task(self._run(job, task, arguments, finish))
        self._look_after(number)
        return number

    def _look_after(self, number: int) -> None:
        """End it when its page is gone: an env that hangs would keep everybody else waiting for ever."""
        job = self._jobs.get(number)
        if job is None or job.ended:
            return
        left = UNASKED_S - (time.monotonic() - job.asked)
        if left <= 0:
            self.stop(number)
            return
        asyncio.get_running_loop().call_later(left, self._look_after, number)

    async def _run(self, job: Job, task: str, arguments: dict[str, Any], finish: Callable[[Any], Any] | None) -> None:
        try:
            found = await job.worker.call(task, arguments, job.tell, job.begin)
            job.result = found if finish is None else finish(found)
            job.state = "done"
        except Refused as refused:
            job.state, job.error = "failed", refused
        except OSError as error:
            job.state, job.error = "failed", refusal_of(error)
        except Exception as error:
            job.state, job.error = "failed", internal(error)

    def get(self, number: int) -> dict[str, Any]:
        job = self._jobs.get(number)
        if job is None:
            raise Refused("not_found", f"there is no piece of work {number} (any more).", 404)
        job.asked = time.monotonic()
        told = job.to_json()
        if job.ended:
            del self._jobs[number]  # it has been told
        return told

    def stop(self, number: int) -> None:
        """Break it off: its process ends, and a new one begins with the next task. One that waits leaves the queue."""
        job = self._jobs.pop(number, None)
        if job is None or job.task is None:
            return
        job.unwanted = True
        if job.state == "running":
            job.worker.stop(job.begin)
        elif job.state == "waiting":  # the process does somebody else's work, which goes on
            job.task.cancel()

    def _sweep(self) -> None:
        """Forget what has ended and nobody asks about; of much that nobody has fetched the newest stays."""
        now = time.monotonic()
        ended = [(number, job) for number, job in self._jobs.items() if job.ended]
        for place, (number, job) in enumerate(reversed(ended)):
            if place >= MOST or now - job.asked > KEPT_S:
                del self._jobs[number]
