"""``marl watch``: from its options to a page in the browser, and its end."""

from __future__ import annotations

import html
import os
import tempfile
import webbrowser
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from marl.errors import printable
from marl.serve.command import checked_keys, stop_wanted
from marl.serve.config import ServerConfig
from marl.serve.http_server import ServerError
from marl.serve.tokens import token_of_file
from marl.watch.desk import Desk, new_secret, results_folder
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
    server = WatchServer(_desk(options))
    with stop_wanted() as stop:
        server.start()
        try:
            console.print(Text(printable(f"watching {server.desk.root}")))
            console.print(Text(f"open {server.page}"))
            demo = " The demo ends with it." if options.demo else ""
            console.print(f"Ctrl-C ends the page; runs that were started from it go on.{demo}")
            if options.browser:
                _open(server.page)
            while not stop.wait(0.5) and not server.failed.is_set():
                pass
        finally:
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


def _open(address: str) -> None:
    """Open a browser by way of a file for the user alone: other users can read the words of a command."""
    descriptor, name = tempfile.mkstemp(suffix=".html", prefix="marl_watch_")
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={html.escape(address)}">')
    if os.name == "posix":
        os.chmod(name, 0o600)
    with suppress(webbrowser.Error):
        webbrowser.open(Path(name).as_uri())
