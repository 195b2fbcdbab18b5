"""How much a server takes: beyond these figures clients are told when to come again, and nothing hangs."""

from __future__ import annotations

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from marl.config import Config
from marl.serve.refused import too_many


class Limits(Config):
    """Limits of a server; options of ``marl serve`` and keys of ``external:``."""

    max_body: PositiveInt = Field(1024 * 1024, description="Bytes of one message.")
    max_sessions: PositiveInt = Field(1000, description="Sessions at once.")
    max_episodes: PositiveInt = Field(256, description="Open episodes at once, of all sessions.")
    max_pending: PositiveInt = Field(1024, description="Messages at once that wait for their answer.")
    max_rate: NonNegativeFloat = Field(0.0, description="Messages per second and session; 0: as many as come.")
    max_depth: PositiveInt = Field(16, description="How deep lists and objects of a message may be nested.")
    episode_timeout_s: PositiveFloat = Field(300.0, description="An episode whose client is silent for so long ends.")
    session_timeout_s: PositiveFloat = Field(
        3600.0, description="A session without open episodes that is silent for so long is forgotten."
    )
    max_wait_ms: NonNegativeFloat = Field(
        2.0,
        description="For so long the first of several requests waits for others, so that one forward pass serves them.",
    )


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
