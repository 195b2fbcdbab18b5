"""How much a server takes: beyond these figures clients are told when to come again, and nothing hangs."""

from __future__ import annotations

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from marl.config import Config


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
