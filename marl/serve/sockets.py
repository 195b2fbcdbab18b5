"""``WS /v1/session``: one socket, many episodes; answers as they are ready."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from marl.serve.frames import JSON, MSGPACK, Format
from marl.serve.front import Front
from marl.serve.messages import KINDS
from marl.serve.refused import Refused, bad_message, shortly
from marl.serve.tokens import bearer

POLICY_VIOLATION = 1008  # a code of the WebSocket standard
LONGEST_ID = 128
LONGEST_REASON = 120  # bytes; the standard has room for 123


class ClientSocket:
    """One client's socket. If it breaks, what it asked for is answered all the same, and the hub keeps it for the next try."""

    def __init__(self, front: Front, socket: WebSocket) -> None:
        self.front, self.socket = front, socket
        self.max_depth = front.hub.limits.max_depth
        self.trusted = not front.token.needed
        self._room = asyncio.Semaphore(front.config.max_unanswered)
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself does not hold on to them

    async def run(self) -> None:
        shown = self.socket.headers.get("authorization")
        if shown is not None and self.front.token.needed:
            self.front.check_token(bearer(shown))
            self.trusted = True
        try:
            with suppress(WebSocketDisconnect):
                await self.socket.accept()
                await self._read_all()
        finally:
            await self._let_go()

    async def _let_go(self) -> None:
        """Nobody waits here any more: what the hub has taken it keeps, and its answers are there for the next try."""
        # Tasks that have not begun yet do so now: a client may send its last message and hang up at once.
        await asyncio.sleep(0)
        for task in self._tasks:
            task.cancel()

    async def close(self, code: int, reason: str) -> None:
        cut = reason.encode()[:LONGEST_REASON].decode("utf-8", "ignore")
        with suppress(RuntimeError, WebSocketDisconnect):  # it may be closed from the other side just now
            await self.socket.close(code, cut)

    async def _read_all(self) -> None:
        try:
            async with asyncio.timeout(self.front.config.request_timeout_s):
                event = await self.socket.receive()
        except TimeoutError:
            await self.close(POLICY_VIOLATION, "no message came for too long")
            return
        while event["type"] == "websocket.receive":
            # Before the next one is read: a client that only sends is held up by its own unanswered messages.
            await self._room.acquire()
            if not await self._begin(event):
                return
            event = await self.socket.receive()

    async def _begin(self, event: Any) -> bool:
        """Start to work on a frame; False where the socket was closed for it."""
        form, frame = JSON, event.get("text")
        if frame is None:
            form, frame = MSGPACK, event["bytes"]
        name: Any = None
        try:
            message = form.decode(frame, self.max_depth)
            name = _id_of(message)
            kind = _kind_of(message)
            self._let_in(kind, message)
        except Refused as refused:
            await self._send(form, self._error(refused, name))
            self._room.release()
            if refused.status == 401:
                await self.close(POLICY_VIOLATION, "unauthorized")
                return False
            return True
        # Tasks begin in the order in which they are made, so pipelined steps of one episode reach the hub in theirs.
        task = asyncio.create_task(self._reply(form, kind, message, name))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    def _let_in(self, kind: str, message: dict[str, Any]) -> None:
        shown = message.pop("token", None)
        if self.trusted:
            return
        if kind != "hello":
            shown = None
        self.front.check_token(shown)
        self.trusted = True

    async def _reply(self, form: Format, kind: str, message: dict[str, Any], name: Any) -> None:
        try:
            answer = {"type": kind, **await self.front.answer(kind, message)}
            if name is not None:
                answer["id"] = name
        except Refused as refused:
            answer = self._error(refused, name)
        await self._send(form, answer)
        # Not before it is out: a client that does not read its answers would pile them up here.
        self._room.release()

    def _error(self, refused: Refused, name: Any) -> dict[str, Any]:
        told = {"type": "error", **self.front.told(refused)}
        if name is not None:
            told["id"] = name
        return told

    async def _send(self, form: Format, answer: dict[str, Any]) -> None:
        try:
            encoded = form.encode(answer)
        except (TypeError, ValueError) as error:
            encoded = form.encode(self._error(self.front.failure(error), answer.get("id")))
        # A client that is gone asks again when it is back.
        with suppress(RuntimeError, WebSocketDisconnect):
            if form is JSON:
                await self.socket.send_text(encoded.decode("ascii"))
            else:
                await self.socket.send_bytes(encoded)


def _id_of(message: dict[str, Any]) -> Any:
    name = message.pop("id", None)
    fits = name is None
    if type(name) is int:
        fits = name.bit_length() <= 64
    elif isinstance(name, str):
        fits = len(name) <= LONGEST_ID
    if fits:
        return name
    raise bad_message(f"id is {shortly(name)}; expected a text of at most {LONGEST_ID} characters, or a whole number")


def _kind_of(message: dict[str, Any]) -> str:
    kind = message.pop("type", None)
    if isinstance(kind, str) and kind in KINDS:
        return kind
    raise bad_message(f"type is {shortly(kind)}; expected one of {', '.join(KINDS)}.")
