"""The server of a run that learns from clients: its hub, its journal and where it listens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from marl.envs.batched import State
from marl.envs.external.training import ExternalTraining
from marl.serve.hub import Hub
from marl.serve.limits import Limits
from marl.serve.thread_line import WaitingStage


class Service:
    """Opened once. Without a ``directory`` there is no journal, and open episodes end with the process."""

    def __init__(self, keys: ExternalTraining, stage: WaitingStage) -> None:
        self.keys, self.stage = keys, stage
        self.directory: Path | None = None
        self.note: Callable[[str], None] = _tell_nobody
        self.open = False
        self.url = ""
        self.segment = 0

    def check(self) -> None:
        """Refuse what would let strangers in, before anything listens."""
        self.keys.check()

    def start(self, saved: State) -> None:
        del saved
        limits = Limits(**{key: getattr(self.keys, key) for key in Limits.model_fields})
        self.hub = self.stage.hub = Hub(self.stage, limits)
        self.open = True

    def mark(self) -> int:
        return self.segment

    def stop(self, reason: str) -> None:
        if self.open:
            self.hub.close(reason)


def _tell_nobody(text: str) -> None:
    del text
