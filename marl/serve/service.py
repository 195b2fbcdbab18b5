"""The server of a run that learns from clients: its hub, its journal and where it listens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from marl.config import Config
from marl.envs.batched import State
from marl.envs.external.training import ExternalTraining
from marl.serve.config import ServerConfig
from marl.serve.hub import Hub, Stage
from marl.serve.limits import Limits
from marl.serve.server import Server

C = TypeVar("C", bound=Config)


class Service:
    """Listens from ``start`` on. Without a ``directory`` there is no journal, and open episodes end with the process."""

    def __init__(self, keys: ExternalTraining, stage: Stage) -> None:
        self.keys, self.stage = keys, stage
        self.directory: Path | None = None
        self.note: Callable[[str], None] = _tell_nobody
        self.hub = Hub(stage, _part(keys, Limits))
        self.server = Server(self.hub, _part(keys, ServerConfig))  # refuses what would let strangers in
        self.open = False
        self.segment = 0

    @property
    def url(self) -> str:
        return self.server.url

    def hand_over(self, stage: Stage) -> None:
        """Another stage plays from now on, also what clients have begun meanwhile."""
        waiting = self.hub.replace_stage(stage)
        for episode in waiting:
            stage.begin(episode)

    def start(self, saved: State = None) -> None:
        """Listen, unless that is done already."""
        del saved
        if self.open:
            return
        self.server.start()
        self.open = True
        told = f"clients: {self.url}"
        if self.keys.token_file is not None:
            told += f", with the token in {self.keys.token_file}"
        self.note(told)

    def mark(self) -> int:
        return self.segment

    def stop(self, reason: str) -> None:
        """Whoever waits for an answer gets the reason at once: what has been reported is kept."""
        if self.open:
            self.server.stop(grace_s=0.0, reason=reason)


def _part(keys: ExternalTraining, kind: type[C]) -> C:
    return kind(**{key: getattr(keys, key) for key in kind.model_fields})


def _tell_nobody(text: str) -> None:
    del text
