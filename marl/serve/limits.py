"""How much a server takes: beyond these figures clients are told when to come again, and nothing hangs."""

from __future__ import annotations

from marl.envs.external.limits import Limits
from marl.serve.refused import too_many

__all__ = ["Limits", "Rate"]


class Rate:
    """Messages per second of one session: a bucket of one second's worth that fills steadily."""

    def __init__(self, per_second: float, now: float) -> None:
        self.per_second = per_second
        self.room = max(1.0, per_second)
        self._left, self._seen = self.room, now

    def count(self, now: float) -> None:
        """One more message, or a refusal with the time after which there is room again."""
        if not self.per_second:
            return
        self._left = min(self.room, self._left + (now - self._seen) * self.per_second)
        self._seen = now
        if self._left < 1:
            raise too_many(
                f"this session sends more than {self.per_second:g} messages per second.",
                retry_after=(1 - self._left) / self.per_second,
            )
        self._left -= 1
