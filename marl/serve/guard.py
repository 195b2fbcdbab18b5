"""The outermost layer of the app: who may talk to it at all, and that no mistake of ours reaches a client or ends the server.

Programs send no ``Origin``; browsers do, so a page of a stranger is known by it. On the own machine the ``Host`` has to be the
own machine too: a stranger's name that leads to 127.0.0.1 would make his page look like ours (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
import json
from typing import Any, Protocol
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from marl.serve.config import ServerConfig
from marl.serve.refused import Refused, shortly

MOST_HEADERS = 100


class Guarded(Protocol):
    """What the guard has to know of a server."""

    config: ServerConfig

    def failure(self, error: BaseException) -> Refused:
        """A mistake of our own, as it is told."""
        ...

    def told(self, refused: Refused) -> dict[str, Any]:
        """The refusal as its client gets it."""
        ...


class Guard:
    """Wraps the app. ``socket_path`` is where WebSockets are answered; None: nowhere."""

    def __init__(self, app: ASGIApp, front: Guarded, socket_path: str | None = None) -> None:
        self.app, self.front, self.socket_path = app, front, socket_path
        config = front.config
        self._origins = frozenset(config.origins)
        # None: anybody's name will do, because only those with a token get further.
        self._hosts: frozenset[str] | None = None
        if config.is_loopback():
            named = [urlsplit(origin).hostname or "" for origin in config.origins]
            self._hosts = frozenset(("localhost", config.host.lower(), *named))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        answer = _Answer(send)
        try:
            origin = self._check(scope)
            if origin:
                answer.headers = _cross_origin(origin)
            if _is_preflight(scope):
                await _reply(scope, answer, 204, b"")
            else:
                await self.app(scope, receive, answer)
        except Refused as refused:
            await self._refuse(scope, answer, refused)
        except Exception as error:
            # Where an answer has begun, the app has told of the error already, or cannot any more.
            if not answer.begun:
                await self._refuse(scope, answer, self.front.failure(error))

    async def _refuse(self, scope: Scope, answer: _Answer, refused: Refused) -> None:
        told = json.dumps(self.front.told(refused)).encode()
        await _reply(scope, answer, refused.status, told)

    def _check(self, scope: Scope) -> str:
        """The origin, where it is another one that is allowed; refused otherwise."""
        if len(scope["headers"]) > MOST_HEADERS:
            raise Refused("too_large", f"the request has more than {MOST_HEADERS} headers", 431)
        if scope["type"] == "websocket" and scope["path"] != self.socket_path:
            raise Refused("not_found", f"sockets are at {self.socket_path or 'no address'} alone", 404)
        host = _only(scope, b"host")
        if self._hosts is not None and not self._is_own(host):
            raise Refused(
                "forbidden_host",
                f"this server is for the own machine, and {shortly(host)} is not its name; use 127.0.0.1 or localhost",
                403,
            )
        origin = _only(scope, b"origin").lower()
        if not origin or origin in (f"http://{host.lower()}", f"https://{host.lower()}"):
            return ""
        if origin not in self._origins:
            raise Refused(
                "forbidden_origin",
                f"a page of {shortly(origin)} may not use this server; its owner can allow it by --origin",
                403,
            )
        return origin

    def _is_own(self, host: str) -> bool:
        assert self._hosts is not None
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        return name is not None and (name in self._hosts or _is_loopback(name))


class _Answer:
    """``send`` that knows whether an answer has begun and adds headers to it."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False
        self.headers: list[tuple[bytes, bytes]] = []

    async def __call__(self, message: Message) -> None:
        self.begun = True
        if message["type"] == "http.response.start" and self.headers:
            message = {**message, "headers": [*message["headers"], *self.headers]}
        await self._send(message)


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:  # no number
        return False


def _only(scope: Scope, wanted: bytes) -> str:
    """A header that may be there once: of two, each reader could take another one."""
    found = [value for name, value in scope["headers"] if name == wanted]
    if len(found) > 1:
        raise Refused("bad_request", f"the header {wanted.decode()} is there {len(found)} times", 400)
    return b"".join(found).decode("latin-1")


def _is_preflight(scope: Scope) -> bool:
    """A browser asks whether it may send what it is about to."""
    asked_for = _only(scope, b"access-control-request-method")
    return scope.get("method") == "OPTIONS" and asked_for != ""


def _cross_origin(origin: str) -> list[tuple[bytes, bytes]]:
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-allow-headers", b"authorization, content-type"),
        (b"access-control-allow-methods", b"GET, POST"),
        (b"access-control-expose-headers", b"etag, retry-after"),
        (b"vary", b"origin"),
    ]


async def _reply(scope: Scope, answer: _Answer, status: int, body: bytes) -> None:
    kind = "http.response"
    if scope["type"] == "websocket":
        if "websocket.http.response" not in scope.get("extensions", {}):
            await answer({"type": "websocket.close", "code": 1008})
            return
        kind = "websocket.http.response"
    # The rest of a request that is refused is not read, so the connection cannot be used for another one.
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    if status != 204:
        headers.append((b"content-length", str(len(body)).encode()))
    await answer({"type": f"{kind}.start", "status": status, "headers": headers})
    await answer({"type": f"{kind}.body", "body": body})
