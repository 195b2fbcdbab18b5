"""What a hub has done so far, for metrics and for the proof that nothing is lost or doubled."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

KEPT = ("accepted", "answered", "begun", "ended", "abandoned", "dropped", "doubled")


@dataclass(slots=True)
class Counters:
    """Numbers since the server started; ``sessions``, ``open`` and ``pending`` are as of now."""

    accepted: int = 0  # steps that became a Step of their episode; messages of several parties make one
    answered: int = 0  # of these, how many the player has answered; an end is answered by itself
    repeated: int = 0  # messages that were sent again and got the answer of the first one
    replayed: int = 0  # steps of a journal that were played again after a restart, with the same actions
    gaps: int = 0  # messages that came before their turn
    refused: Counter[str] = field(default_factory=Counter)  # by code
    begun: int = 0
    ended: int = 0
    abandoned: int = 0  # episodes that ended because their client was silent
    sessions: int = 0
    open: int = 0
    pending: int = 0  # steps that wait for their answer
    dropped: int = 0  # steps that were refused after all, because their episode could not be played on
    doubled: int = 0  # steps that were answered twice: always 0

    @property
    def lost(self) -> int:
        """Steps that were taken, are not waiting any more and got no answer: always 0."""
        return self.accepted - self.answered - self.pending - self.dropped

    def kept(self) -> dict[str, int]:
        """What outlives a restart, where there is a journal."""
        return {key: getattr(self, key) for key in KEPT}

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "refused": dict(self.refused), "lost": self.lost}
