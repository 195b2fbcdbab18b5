"""The server of a hub: clients of ``marl serve`` and of ``env: external`` talk to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from marl.errors import ConfigError
from marl.serve.config import ServerConfig
from marl.serve.http_server import HttpServer, ServerError
from marl.serve.hub import Hub
from marl.serve.tokens import Token, token_of_file

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["Server", "ServerError", "installed"]

NEEDED = 'serving needs packages that are not installed ({missing}). Install them: pip install "marl[serve]"'


class Server(HttpServer):
    """Answers clients of a hub over the network."""

    def __init__(self, hub: Hub, config: ServerConfig | None = None) -> None:
        front = installed()
        super().__init__(config or ServerConfig())
        self.hub = hub
        self.max_message = hub.limits.max_body
        self.token: str | None = None
        if self.config.token_file is not None:
            self.token = token_of_file(self.config.token_file)
        self.front = front.Front(hub, self.config, Token(self.token), self.health)

    def app(self) -> ASGIApp:
        from marl.serve.app import build_app

        return build_app(self.front)

    async def drain(self, reason: str, grace_s: float) -> None:
        self.closing = reason
        await self.front.drain(reason, grace_s)

    def fail(self, error: BaseException) -> None:
        """Whoever plays cannot go on: those who wait are told, and health says why. From any thread."""
        self.health.fail(f"{type(error).__name__}: {error}")
        self.hub.fail(error)


def installed() -> Any:
    """The network side, or one sentence where its packages are missing."""
    try:
        import fastapi  # noqa: F401
        import msgpack  # type: ignore[import-untyped]  # noqa: F401
        import uvicorn  # noqa: F401

        from marl.serve import front
    except ModuleNotFoundError as error:
        raise ConfigError(NEEDED.format(missing=error.name)) from error
    return front
