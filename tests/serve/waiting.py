"""Things that happen in other threads, and how a test waits for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import marl
from marl.serve.remote_env import Driven

PATIENCE_S = 60.0


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


class InThread:
    """A driver in a thread of its own."""

    def __init__(self, *given: Any, **options: Any) -> None:
        self.driven: Driven | None = None
        self.given, self.options = given, options
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        self.driven = marl.drive(*self.given, **self.options)

    def result(self) -> Driven:
        self.thread.join(PATIENCE_S)
        assert self.driven is not None, "the driver failed, or never ended"
        return self.driven
