"""The server of ``marl watch``: the page and what it asks for, with the safety rules of ``marl serve``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from marl.serve.http_server import HttpServer
from marl.watch.desk import Desk

if TYPE_CHECKING:
    from starlette.types import ASGIApp


class WatchServer(HttpServer):
    """Listens for browsers, usually of this machine alone."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk.config)
        self.desk = desk

    def app(self) -> ASGIApp:
        from marl.watch.app import build_app

        return build_app(self.desk)

    @property
    def page(self) -> str:
        """The address to open. The token stands behind the #, which browsers keep to themselves."""
        view = "/explain" if self.desk.demo else ""
        return f"{self.url}/#token={self.desk.secret}{view}"

    async def drain(self, reason: str, grace_s: float) -> None:
        self.closing = reason
        del grace_s
        await asyncio.to_thread(self.desk.close)
