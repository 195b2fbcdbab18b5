"""What the routes and the sockets of a server share: its hub, its token, its health and what it measures."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from marl.serve.config import ServerConfig
from marl.serve.health import Health
from marl.serve.hub import Hub
from marl.serve.metrics import Measures
from marl.serve.refused import Refused, internal
from marl.serve.tokens import Token

if TYPE_CHECKING:
    from marl.serve.sockets import ClientSocket

_log = logging.getLogger(__name__)

SWEEP_S = 1.0
GOING_AWAY = 1001  # a code of the WebSocket standard


class Front:
    """The way of every message, from whichever transport it came, to the hub and back."""

    def __init__(self, hub: Hub, config: ServerConfig, token: Token, health: Health) -> None:
        self.hub, self.config, self.token, self.health = hub, config, token, health
        self.measures = Measures()
        self.sockets: set[ClientSocket] = set()
        self.closing = ""  # why no new messages are taken

    async def answer(self, kind: str, message: dict[str, Any]) -> dict[str, Any]:
        """The hub's answer. Whatever happens is a ``Refused``: one client's message is nobody else's trouble."""
        if self.closing:
            raise Refused("closing", f"the server is closing: {self.closing}", 503, retry_after=1.0)
        began = time.perf_counter()
        self.measures.waiting += 1
        try:
            return await self.hub.answer(kind, message)
        except Refused as refused:
            if refused.code == "failed":
                self._note_end(refused)
            elif refused.code == "internal":  # of the hub, which has logged it
                self.measures.failures += 1
            raise
        except Exception as error:
            raise self.failure(error) from None
        finally:
            self.measures.waiting -= 1
            self.measures.answered(kind, time.perf_counter() - began)

    def _note_end(self, refused: Refused) -> None:
        """The hub cannot go on, and tells everybody; the first to hear of it is told why in full."""
        if not self.health.failed.is_set():
            self.measures.failures += 1
            _log.error("the server cannot play any more: %s", refused, exc_info=refused.__cause__)
            self.health.fail(str(refused))

    def failure(self, error: BaseException) -> Refused:
        """A mistake of our own: the log has all of it. The client learns that it is not its fault, and nothing else."""
        self.measures.failures += 1
        return internal(error)

    def told(self, refused: Refused) -> dict[str, Any]:
        """The refusal as its client gets it."""
        self.measures.count_refusal(refused.code)
        return refused.to_json()

    def check_token(self, shown: object) -> None:
        if not self.token.fits(shown):
            raise Refused(
                "unauthorized",
                "a token is needed, and this is not it: send the header `Authorization: Bearer TOKEN`, or `token` in "
                "hello. The server's token_file has it.",
                401,
            )

    async def sweep_for_ever(self) -> None:
        """Let the hub end what has been silent for too long."""
        while True:
            await asyncio.sleep(SWEEP_S)
            try:
                self.hub.sweep()
            except Exception as error:  # the next round may work, and without any silent clients would never leave
                self.failure(error)

    async def drain(self, reason: str, grace_s: float) -> None:
        """Take nothing new, give what is under way its time, and answer the rest with the reason."""
        self.closing = reason
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace_s
        while self.measures.waiting and loop.time() < deadline:
            await asyncio.sleep(0.01)
        self.hub.close(reason)
        # What the hub has refused now has to pass through its tasks before sockets are closed behind it.
        while self.measures.waiting and loop.time() < deadline + 1.0:
            await asyncio.sleep(0.01)
        closing = [asyncio.create_task(client.close(GOING_AWAY, reason)) for client in self.sockets]
        if closing:
            # All at once, and not for ever: a client that does not read cannot be told.
            await asyncio.wait(closing, timeout=1.0)
