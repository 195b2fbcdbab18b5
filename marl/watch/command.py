"""``marl watch``: from its options to a page in the browser, and its end."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from marl.errors import printable
from marl.serve.command_parts import checked_keys, stop_wanted
from marl.serve.config import ServerConfig
from marl.serve.http_server import ServerError, is_in_use
from marl.serve.tokens import token_of_file
from marl.watch.desk import Desk, new_secret, results_folder
from marl.watch.opening import Opening
from marl.watch.server import WatchServer

DEFAULT_PORT = 9901


@dataclass(frozen=True)
class WatchOptions:
    """What the user asked for; ``network`` holds the keys of ``ServerConfig`` that were given."""

    results: Path
    network: Mapping[str, Any] = field(default_factory=dict)
    browser: bool = True
    demo: bool = False
    allow: frozenset[str] = frozenset()


def watch(options: WatchOptions, console: Console | None = None) -> None:
    """Show the page until Ctrl-C."""
    console = console or Console(soft_wrap=True, emoji=False, highlight=False)
    desk = _desk(options)
    with stop_wanted() as stop:
        server = _started(desk, options, console)
        opening = Opening(server.page, desk.root) if options.browser else None
        try:
            console.print(Text(printable(f"watching {desk.root}")))
            console.print(Text(f"open {server.page}"))
            demo = " The demo ends with it." if options.demo else ""
            console.print(f"Ctrl-C ends the page; runs that were started from it go on.{demo}")
            if opening is not None:
                opening.begin()
            _wait(server, stop, opening)
        finally:
            if opening is not None:
                opening.end()
            server.stop(reason="marl watch was stopped")
    if server.failed.is_set() and not stop.is_set():
        failure = ServerError(f"marl watch failed: {server.health.reason}")
        failure.exit_code = 1  # it had begun
        raise failure
    console.print("stopped.")


def _desk(options: WatchOptions) -> Desk:
    """All that can be wrong is found before anything listens."""
    config = checked_keys(ServerConfig, {"port": DEFAULT_PORT, **options.network}, "marl watch")
    config.check()
    secret = new_secret()
    if config.token_file is not None:
        secret = token_of_file(config.token_file)
    return Desk(results_folder(options.results, options.demo), config, secret, options.allow, options.demo)


def _started(desk: Desk, options: WatchOptions, console: Console) -> WatchServer:
    """The server, at a port that nobody asked for where the usual one is taken: several may be open at once."""
    server = WatchServer(desk)
    try:
        server.start()
    except ServerError as error:
        if "port" in options.network or not is_in_use(error):
            raise
        desk.config = desk.config.model_copy(update={"port": 0})
        server = WatchServer(desk)
        server.start()
        console.print(f"port {DEFAULT_PORT} is in use, so this page is at another one.")
    return server


def _wait(server: WatchServer, stop: threading.Event, opening: Opening | None) -> None:
    while not stop.wait(0.5) and not server.failed.is_set():
        if opening is not None and server.desk.seen.is_set():
            opening.end()  # the browser has read the file
