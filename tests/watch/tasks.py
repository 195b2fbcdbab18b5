"""Tasks of workers for tests: one that never ends, one that waits for a file."""

from __future__ import annotations

import os
import sys
import time
import types
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from marl.watch import workers
from marl.watch.workers import Tell, Worker

real_work = workers.work


def work(pipe: Connection) -> None:
    """The process of a worker that also takes tasks of this module."""
    workers.HOME = "tests."
    # These tasks need no networks, and to import them takes seconds.
    sys.modules["torch"] = types.ModuleType("torch")
    sys.modules["torch"].set_num_threads = lambda _: None  # type: ignore[attr-defined]
    real_work(pipe)


def forever(arguments: dict[str, Any], tell: Tell) -> None:
    tell(1.0, None, str(os.getpid()))
    while True:
        pass


def until_there(arguments: dict[str, Any], tell: Tell) -> str:
    while not Path(arguments["file"]).exists():
        time.sleep(0.01)
    return "done"


def _print(done: float, total: float | None, text: str) -> None:
    if text:
        print(text, flush=True)


if __name__ == "__main__":
    from tests.watch import tasks  # by the name under which the process finds it

    workers.work = tasks.work
    Worker("test").call_now("tests.watch.tasks:forever", {}, _print)
