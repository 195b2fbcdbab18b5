"""How a side of a benchmark is timed: a process that stays up and plays one timed round for each line that it is sent.

Two such processes take turns, so both meet the same machine, and neither start-up nor compilation is counted. The answers are
lines of JSON. This file runs inside the rivals' environments and needs nothing but Python.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any

# Libraries print on standard output when they like to: the answers go to a copy of it, the rest to standard error.
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

Told = Mapping[str, Any]
"""Of one round: ``count`` (what was done) and, where it is known, ``reward`` (mean of an episode, over all agents)."""


class Clock:
    """Runs from a line of standard input to the answer; for programs that keep their loop to themselves."""

    def __init__(self, *packages: str) -> None:
        self.packages = packages

    def ready(self, first: Told) -> None:
        """After the warm-up; ``first`` is what it told."""
        self._say({"ready": True, "first": first, "versions": {name: metadata.version(name) for name in self.packages}})

    def started(self) -> bool:
        """Waits for a line; False when there will be none."""
        line = sys.stdin.readline()
        self.cpu, self.wall = time.process_time(), time.perf_counter()
        return bool(line)

    def stopped(self, told: Told) -> None:
        self._say({"cpu": time.process_time() - self.cpu, "wall": time.perf_counter() - self.wall, **told})

    def _say(self, told: Told) -> None:
        ANSWERS.write(json.dumps(told) + "\n")
        ANSWERS.flush()


def answer(play: Callable[[], Told], *packages: str) -> None:
    """Plays one round as a warm-up, says that it is ready, then one timed round per line of standard input."""
    clock = Clock(*packages)
    clock.ready(play())
    while clock.started():
        clock.stopped(play())
