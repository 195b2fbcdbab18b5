"""A server that plays with trained policies, in one piece: stage, hub and network."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from marl.errors import RunLockedError
from marl.runs.lock import LOCK, RunLock, take_lock
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
        self._lock: RunLock | None = None  # on the journal's folder

    def start(self) -> str:
        """Play and listen; the address."""
        if self.journal is not None:
            self._lock = _lock(self.journal.folder)
        try:
            self.stage.open(self.hub, self.server.health.fail)
            return self.server.start()
        except BaseException:
            self._end()
            raise

    def stop(self, reason: str = "the server was stopped") -> None:
        """Answer what was asked, then end: first the network, then those who play."""
        self.server.stop(reason=reason)
        self._end()

    def _end(self) -> None:
        self.stage.close()
        if self.journal is not None:
            self.journal.close()
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> PlayServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _lock(folder: Path) -> RunLock:
    """Of two servers that write into one folder neither could be gone on from."""
    try:
        return take_lock(folder)
    except RunLockedError as error:
        raise RunLockedError(
            f"{folder} is the journal of a server that runs already, and two would mix their episodes. Stop that one, or give "
            f"another folder. If there is none for sure, delete {folder / LOCK}."
        ) from error
