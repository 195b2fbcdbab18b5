"""Jobs of a suite on Ray: a task per job, on one CPU each. The folder of the suite has to be one that all machines see."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from marl.rollout.config import RolloutConfig
from marl.rollout.ray_instance import start_ray, stop_ray
from marl.suite.train import FAILED, Job, Status, run_job

POLL_S = 0.5  # seconds between two looks at the file by which jobs are stopped
STOP = "stop_on_ray"


def _train_there(job: Job, stop_file: str) -> Status:
    """In the process of a task, until its end or until the file is there."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(POLL_S):
            if Path(stop_file).exists():
                _thread.interrupt_main()  # as Ctrl-C would: the run ends behind its iteration
                return

    threading.Thread(target=watch, daemon=True).start()
    try:
        return run_job(job)
    finally:
        over.set()


class OnRay:
    """At most so many jobs at once, on a Ray of our own or on a cluster."""

    def __init__(self, jobs: int, address: str, folder: Path) -> None:
        own = address == "local"
        self._ours = start_ray(RolloutConfig(address=None if own else address, ray_num_cpus=jobs if own else None))
        import ray

        self._ray = ray
        self._most = jobs
        self._stop_file = folder.resolve() / STOP
        self._stop_file.unlink(missing_ok=True)
        self._task = ray.remote(num_cpus=1, max_retries=0)(_train_there)
        self._running: dict[Any, Job] = {}

    @property
    def running(self) -> list[Job]:
        return list(self._running.values())

    @property
    def free(self) -> bool:
        return len(self._running) < self._most

    def start(self, job: Job) -> None:
        self._running[self._task.remote(job, str(self._stop_file))] = job

    def ended(self) -> Sequence[tuple[Job, Status]]:
        if not self._running:
            return []
        found = []
        references = list(self._running)
        ready, _ = self._ray.wait(references, num_returns=len(references), timeout=0)
        for reference in ready:
            job = self._running.pop(reference)
            try:
                status = self._ray.get(reference)
            except self._ray.exceptions.RayError as error:
                first_line = next(iter(str(error).splitlines()), "")
                status = Status(FAILED, f"its Ray task ended: {first_line}")
            found.append((job, status))
        return found

    def stop(self) -> None:
        self._stop_file.touch()

    def close(self) -> None:
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running.clear()
        self._stop_file.unlink(missing_ok=True)
        if self._ours:
            stop_ray()
