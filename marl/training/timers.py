"""Where the time of an iteration went."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Timers:
    """Seconds per activity of one iteration."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def clear(self) -> None:
        self.seconds = {"sample": 0.0, "learn": 0.0, "sync": 0.0, "evaluation": 0.0}

    @contextmanager
    def __call__(self, activity: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[activity] = self.seconds.get(activity, 0.0) + time.perf_counter() - start

    def numbers(self, env_steps: int) -> dict[str, float]:
        """Milliseconds per activity, and env steps per second of sampling and learning."""
        numbers = {f"{name}_time_ms": 1_000 * seconds for name, seconds in self.seconds.items()}
        for name in ("sample", "learn"):
            numbers[f"{name}_throughput"] = env_steps / self.seconds[name] if self.seconds.get(name) else 0.0
        return numbers
