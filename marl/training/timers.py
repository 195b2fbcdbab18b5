"""Where the time of an iteration went."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

SAMPLER = ("raw_obs_processing", "inference", "action_processing", "env_wait", "env_render")
"""Activities of a worker's step: preparing observations, policies, preparing actions, the env, drawing it."""


class Timers:
    """Seconds per activity of one iteration, on the driver and (``sampler``) within the workers' steps."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.sampler: dict[str, float] = {}

    def clear(self) -> None:
        self.seconds = {"sample": 0.0, "load": 0.0, "learn": 0.0, "sync": 0.0, "evaluation": 0.0}
        self.sampler = {}

    @contextmanager
    def __call__(self, activity: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(activity, time.perf_counter() - start)

    def add(self, activity: str, seconds: float) -> None:
        self.seconds[activity] = self.seconds.get(activity, 0.0) + seconds

    def move(self, source: str, activity: str, seconds: float) -> None:
        """Some of what was booked under ``source`` was another activity."""
        self.add(source, -seconds)
        self.add(activity, seconds)

    def add_sampler(self, seconds: Mapping[str, float]) -> None:
        """What all workers spent in one round, and their ``steps``; on drawing, and how many ``pictures`` that were."""
        for name, value in seconds.items():
            self.sampler[name] = self.sampler.get(name, 0.0) + value

    def numbers(self, env_steps: int) -> dict[str, float]:
        """Milliseconds per activity, and env steps of the iteration per second of sampling, loading and learning."""
        numbers = {f"{name}_time_ms": 1_000 * seconds for name, seconds in self.seconds.items()}
        for name in ("sample", "load", "learn"):
            numbers[f"{name}_throughput"] = env_steps / self.seconds[name] if self.seconds.get(name, 0.0) > 0 else 0.0
        return numbers

    def sampler_numbers(self) -> dict[str, float | None]:
        """Mean milliseconds per step of a worker, in which all its copies step once; null where nothing was collected.

        Drawing is per picture: episodes are filmed beside the training.
        """
        steps, pictures = self.sampler.get("steps", 0.0), self.sampler.get("pictures", 0.0)
        means = {f"mean_{name}_ms": 1_000 * self.sampler.get(name, 0.0) / steps if steps else None for name in SAMPLER}
        drawing = 1_000 * self.sampler.get("env_render", 0.0) / pictures if pictures else 0.0
        return {**means, "mean_env_render_ms": drawing}
