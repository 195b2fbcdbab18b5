"""Seconds per activity, for loops in which every microsecond should be booked somewhere."""

from __future__ import annotations

import time


class Clock:
    """Each ``lap`` books the time since the last one (or since ``start``) to an activity. A lap takes about 0.1 us."""

    __slots__ = ("_last", "seconds")

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
        """What was booked since the last call."""
        booked, self.seconds = self.seconds, {}
        return booked
