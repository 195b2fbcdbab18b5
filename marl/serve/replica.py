"""One of several processes that play behind one address: stage and hub, without a network of its own.

Ray Serve starts it, looks after it and replaces it. Messages come by a socket of this machine that only the process which
talks to clients can open: a call by Ray Serve costs several times as much as the answer to a message.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

import msgpack  # type: ignore[import-untyped]

from marl.serve.hub import Hub
from marl.serve.limits import Limits
from marl.serve.refused import Refused, internal
from marl.serve.served import load_served
from marl.serve.stage import PlayStage

Told: TypeAlias = list[Any]
"""["answer", its object], or ["refused", what ``Refused`` is made of]."""

_log = logging.getLogger(__name__)

CHUNK = 65536
SWEEP_S = 1.0
SECRET_BYTES = 32


def pack(value: Any) -> bytes:
    """Plain values on their way between our own processes."""
    packed: bytes = msgpack.packb(value, unicode_errors="surrogatepass")
    return packed


def unpacking() -> Any:
    """Gives the values of a stream, one after the other."""
    return msgpack.Unpacker(strict_map_key=False, unicode_errors="surrogatepass", max_buffer_size=2**31 - 1)


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
        self._secret = secrets.token_bytes(SECRET_BYTES)
        self._door: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself does not hold on to them

    def _note(self, trouble: str) -> None:
        self.trouble = trouble

    async def listen(self) -> tuple[int, bytes]:
        """The port at which it takes messages, and the bytes that open it."""
        if self._door is None:
            self._door = await asyncio.start_server(self._meet, "127.0.0.1", 0)
            self._spawn(self._sweep())
        return self._door.sockets[0].getsockname()[1], self._secret

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: messages as they come, answers as they are ready."""
        try:
            with suppress(OSError, asyncio.IncompleteReadError):  # the other end is gone; it comes again if it wants
                shown = await reader.readexactly(SECRET_BYTES)
                if hmac.compare_digest(shown, self._secret):
                    await self._read_all(reader, writer)
        finally:
            writer.close()

    async def _read_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        unpacker = unpacking()
        while data := await reader.read(CHUNK):
            unpacker.feed(data)
            for number, kind, message in unpacker:
                self._spawn(self._reply(writer, number, kind, message))

    async def _reply(self, writer: asyncio.StreamWriter, number: int, kind: str, message: Mapping[str, Any]) -> None:
        told = await self._answer(kind, message)
        try:
            packed = pack([number, *told])
        except (TypeError, ValueError, OverflowError) as error:  # without an answer its client would wait for ever
            packed = pack([number, *_told(internal(error))])
        writer.write(packed)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

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
            return ["answer", await self.hub.answer(kind, message)]
        except Refused as refused:
            return _told(refused)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            try:
                self.hub.sweep()
            except Refused as refused:  # the next round may work
                _log.warning("silent clients could not be let go: %s", refused)


def _told(refused: Refused) -> Told:
    about = {"retry_after": refused.retry_after, "where": refused.where, "expected": refused.expected}
    return ["refused", [refused.code, str(refused), refused.status, about]]


def _keep_to_loopback() -> None:
    """A replica of Ray Serve opens a port for calls between deployments, on all addresses. Nobody calls this one there."""
    from ray.serve._private import replica

    original = replica.add_port_to_grpc_server

    def on_loopback(server: Any, address: str) -> Any:
        _, _, port = address.rpartition(":")
        return original(server, f"127.0.0.1:{port}")

    replica.add_port_to_grpc_server = on_loopback
