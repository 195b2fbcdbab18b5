"""uvicorn's HTTP protocol with limits that it does not have: for slow senders, endless headers and too many connections."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

MOST_HEADER_BYTES = 32 * 1024
RESERVED_FILES = 256  # that a learning run has open besides


class LimitedProtocol(HttpToolsProtocol):
    """A request has to arrive whole within a time, whatever it consists of; refusals are JSON as everywhere else."""

    request_timeout_s = 20.0
    max_sockets = 2048

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadline: asyncio.TimerHandle | None = None
        self._in_headers = True
        self._header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.max_sockets:
            self.refuse(503, "too_many", f"{self.max_sockets} connections are open already; try again later")
            return
        self._start_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # Counted after parsing: a chunk may hold the end of the headers and much of the body.
        if self._in_headers:
            self._header_bytes += len(data)
            if self._header_bytes > MOST_HEADER_BYTES:
                self.refuse(431, "too_large", f"headers have more than {MOST_HEADER_BYTES} bytes")

    # -- calls of the parser -------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._in_headers = True
        self._header_bytes = 0
        self._start_clock()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_headers = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        # Not before: a body that dribbles in, also one that nobody reads, holds the connection as headers would.
        self._stop_clock()
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        self._stop_clock()
        why = _no_websocket(self.scope["method"], self.url, dict(self.scope["headers"]))
        if why:
            self.refuse(400, "bad_request", f"this is no WebSocket: {why}")
        else:
            super().handle_websocket_upgrade()

    # -- refusals ------------------------------------------------------------------------------------------------

    def _start_clock(self) -> None:
        self._stop_clock()
        self._deadline = self.loop.call_later(self.request_timeout_s, self._too_slow)

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self.refuse(408, "too_slow", f"the request did not arrive within {self.request_timeout_s:g} s")

    def send_400_response(self, msg: str) -> None:
        self.refuse(400, "bad_request", msg)

    def refuse(self, status: int, code: str, message: str) -> None:
        """Say why, unless an answer has begun that this would be a part of, and hang up."""
        self._stop_clock()
        if self.transport.is_closing():
            return
        is_answering = self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete
        if not is_answering:
            body = json.dumps({"error": {"code": code, "message": message}}).encode()
            head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[status] + head.encode() + body)
        self.transport.close()


def _no_websocket(method: str, url: bytes, headers: dict[bytes, bytes]) -> str:
    """What is wrong with the request for a socket; the library behind would say it in another form, or fail."""
    if method != "GET":
        return f"its method is {method}, expected GET"
    if not url.isascii():
        return "its address has characters that are not ASCII"
    if headers.get(b"sec-websocket-version") != b"13":
        return "its Sec-WebSocket-Version is not 13"
    try:
        key = base64.b64decode(headers.get(b"sec-websocket-key", b""), validate=True)
    except ValueError:
        key = b""
    if len(key) != 16:
        return "its Sec-WebSocket-Key is not 16 bytes in base64"
    return ""


def room_for_sockets(wanted: int) -> int:
    """At most so many as the system lets this process open, and some files besides: one too many could not be refused."""
    if sys.platform == "win32":
        return wanted
    import resource

    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, most - RESERVED_FILES))


def limited_protocol(request_timeout_s: float, max_sockets: int) -> type[LimitedProtocol]:
    """uvicorn makes one object per connection from a class alone, so the limits are of the class."""
    return type(
        "ConfiguredProtocol",
        (LimitedProtocol,),
        {"request_timeout_s": request_timeout_s, "max_sockets": room_for_sockets(max_sockets)},
    )
