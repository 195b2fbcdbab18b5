"""One of several processes that play behind one address: stage and hub, without a network of its own.

Ray Serve keeps it alive and carries batches of messages to it and answers back.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from marl.serve.hub import Hub
from marl.serve.limits import Limits
from marl.serve.refused import Refused
from marl.serve.served import load_served
from marl.serve.stage import PlayStage

Message: TypeAlias = tuple[str, Mapping[str, Any]]
Told: TypeAlias = tuple[str, Any]
"""("answer", its object), ("refused", what ``Refused`` is made of) or ("later", a number to claim it by)."""

PATIENCE_S = 0.02  # for so long the answers of a batch are waited for; later ones are claimed one by one
SWEEP_S = 1.0


class Replica:
    """Plays its share of the sessions."""

    def __init__(
        self, path: str, allow: frozenset[str], sources: Mapping[str, str], limits: Mapping[str, Any],
        explore: bool, seed: int | None,
    ) -> None:  # fmt: skip
        _keep_to_loopback()
        served = load_served(path, allow, sources)
        bounds = Limits(**limits)
        self.stage = PlayStage(served, explore=explore, seed=seed, max_wait_ms=bounds.max_wait_ms)
        self.hub = Hub(self.stage, bounds)
        self.trouble = ""
        self.stage.open(self.hub, self._note)
        self._late: dict[int, asyncio.Task[Told]] = {}
        self._numbers = itertools.count()
        self._sweeping: asyncio.Task[None] | None = None

    def _note(self, trouble: str) -> None:
        self.trouble = trouble

    async def deliver(self, messages: Sequence[Message]) -> list[Told]:
        """The answers to a batch, in its order."""
        if self._sweeping is None:
            self._sweeping = asyncio.create_task(self._sweep())
        tasks = [asyncio.create_task(self._answer(kind, message)) for kind, message in messages]
        await asyncio.wait(tasks, timeout=PATIENCE_S)
        return [self._told(task) for task in tasks]

    async def claim(self, number: int) -> Told:
        """An answer that took longer."""
        return await self._late.pop(number)

    async def figures(self) -> dict[str, Any]:
        """What its hub has counted."""
        return self.hub.counters.to_json()

    async def close(self, reason: str) -> None:
        self.hub.close(reason)

    def check_health(self) -> None:
        """Asked by Ray Serve, which replaces a replica that raises."""
        if self.trouble:
            raise RuntimeError(self.trouble)

    async def _answer(self, kind: str, message: Mapping[str, Any]) -> Told:
        try:
            return "answer", await self.hub.answer(kind, message)
        except Refused as refused:
            about = {"retry_after": refused.retry_after, "where": refused.where, "expected": refused.expected}
            return "refused", (refused.code, str(refused), refused.status, about)

    def _told(self, task: asyncio.Task[Told]) -> Told:
        if task.done():
            return task.result()
        number = next(self._numbers)
        self._late[number] = task
        return "later", number

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            self.hub.sweep()


def _keep_to_loopback() -> None:
    """A replica of Ray Serve opens a port for calls between deployments, on all addresses. Nobody calls this one there."""
    from ray.serve._private import replica

    original = replica.add_port_to_grpc_server

    def on_loopback(server: Any, address: str) -> Any:
        _, _, port = address.rpartition(":")
        return original(server, f"127.0.0.1:{port}")

    replica.add_port_to_grpc_server = on_loopback
