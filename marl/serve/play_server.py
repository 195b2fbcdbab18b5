"""A server that plays with trained policies, in one piece: stage, hub and network."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from marl.serve.config import ServerConfig
from marl.serve.hub import Hub
from marl.serve.journal import Journal
from marl.serve.limits import Limits
from marl.serve.served import Served
from marl.serve.server import Server
from marl.serve.stage import PlayStage


class PlayServer:
    """What ``marl serve`` runs, and each of its replicas."""

    def __init__(
        self,
        served: Served,
        config: ServerConfig | None = None,
        limits: Limits | None = None,
        *,
        explore: bool = False,
        seed: int | None = None,
        journal: Path | None = None,
    ) -> None:
        limits = limits or Limits()
        self.stage = PlayStage(served, explore=explore, seed=seed, max_wait_ms=limits.max_wait_ms)
        self.journal = None if journal is None else Journal(journal)
        self.hub = Hub(self.stage, limits, self.journal)
        self.server = Server(self.hub, config)

    def start(self) -> str:
        """Play and listen; the address."""
        self.stage.open(self.hub, self.server.health.fail)
        try:
            return self.server.start()
        except BaseException:
            self.stage.close()
            raise

    def stop(self, reason: str = "the server was stopped") -> None:
        """Answer what was asked, then end: first the network, then those who play."""
        self.server.stop(reason=reason)
        self.stage.close()
        if self.journal is not None:
            self.journal.close()

    def __enter__(self) -> PlayServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
