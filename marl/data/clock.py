"""Where the time goes: seconds per activity, of a loop in which every microsecond should be booked, and of an iteration."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

SAMPLER = ("raw_obs_processing", "inference", "action_processing", "env_wait", "env_render")
"""Activities of a worker's step: preparing observations, policies, preparing actions, the env, drawing it."""


class Clock:
    """Each ``lap`` books the time since the last one (or since ``start``) to an activity. A lap takes about 0.1 us."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def start(self) -> None:
        """What was before this moment is nobody's."""
        self._last = time.perf_counter()

    def lap(self, activity: str) -> None:
        now = time.perf_counter()
        self.seconds[activity] = self.seconds.get(activity, 0.0) + now - self._last
        self._last = now

    def pop(self) -> dict[str, float]:
        """What was booked since the last call; the clock starts anew."""
        booked, self.seconds, self._last = self.seconds, {}, time.perf_counter()
        return booked


class Timers(Clock):
    """The clock of one iteration, on the driver and (``sampler``) within the workers' steps."""

    def __init__(self) -> None:
        super().__init__()
        self.sampler: dict[str, float] = {}

    def clear(self) -> None:
        self.seconds = {"sample": 0.0, "load": 0.0, "learn": 0.0, "sync": 0.0, "evaluation": 0.0}
        self.sampler = {}

    @contextmanager
    def __call__(self, activity: str) -> Iterator[None]:
        """Book what this block takes, also if it fails."""
        started = time.perf_counter()  # not ``start``: within a block others may be booked
        try:
            yield
        finally:
            self.seconds[activity] = self.seconds.get(activity, 0.0) + time.perf_counter() - started

    def move(self, source: str, activity: str, seconds: float) -> None:
        """Some of what was booked under ``source`` was another activity."""
        self.seconds[source] -= seconds
        self.seconds[activity] = self.seconds.get(activity, 0.0) + seconds

    def add_sampler(self, seconds: Mapping[str, float]) -> None:
        """What all workers spent in one round, and their ``steps``; on drawing, and how many ``pictures`` that were."""
        for name, value in seconds.items():
            self.sampler[name] = self.sampler.get(name, 0.0) + value

    def numbers(self, env_steps: int) -> dict[str, float]:
        """Milliseconds per activity, and env steps of the iteration per second of sampling, loading and learning."""
        numbers = {f"{name}_time_ms": 1_000 * seconds for name, seconds in self.seconds.items()}
        for name in ("sample", "load", "learn"):
            seconds = self.seconds.get(name, 0.0)
            numbers[f"{name}_throughput"] = env_steps / seconds if seconds > 0 else 0.0
        return numbers

    def sampler_numbers(self) -> dict[str, float | None]:
        """Mean milliseconds per step of a worker, in which all its copies step once; null where nothing was collected.

        Drawing is per picture: episodes are filmed beside the training.
        """
        steps, pictures = self.sampler.get("steps", 0.0), self.sampler.get("pictures", 0.0)
        means: dict[str, float | None] = {}
        for name in SAMPLER:
            means[f"mean_{name}_ms"] = 1_000 * self.sampler.get(name, 0.0) / steps if steps else None
        drawing = 1_000 * self.sampler.get("env_render", 0.0)
        means["mean_env_render_ms"] = drawing / pictures if pictures else 0.0
        return means
