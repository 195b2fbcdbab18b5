"""A browser that opens the page, without telling other users of the machine its token."""

from __future__ import annotations

import html
import os
import tempfile
import threading
import webbrowser
from contextlib import suppress
from pathlib import Path


class Opening:
    """Leads a browser to the address by way of a file for the user alone: everybody can read the words of a command.

    The file lies in the results folder where that can be written to: browsers that are kept in a box by the system
    (snaps) see the user's folders, but a ``/tmp`` of their own.
    """

    def __init__(self, address: str, folder: Path) -> None:
        self._address, self._folder = address, folder
        self._file: Path | None = None

    def begin(self) -> None:
        if not _has_window():
            return
        self._file = self._written()
        # Some browsers come back when their window is closed.
        threading.Thread(target=_open, args=(self._file.resolve().as_uri(),), daemon=True).start()

    def _written(self) -> Path:
        try:
            descriptor, name = tempfile.mkstemp(suffix=".html", prefix="marl_watch_", dir=self._folder)  # 0600
        except OSError:
            descriptor, name = tempfile.mkstemp(suffix=".html", prefix="marl_watch_")
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write('<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">')
            file.write(f'<meta http-equiv="refresh" content="0;url={html.escape(self._address)}">')
        return Path(name)

    def end(self) -> None:
        """Remove the file; the page is open, or nobody will open it any more."""
        if self._file is not None:
            with suppress(OSError):
                self._file.unlink(missing_ok=True)
            self._file = None


def _open(address: str) -> None:
    with suppress(webbrowser.Error, OSError):
        webbrowser.open(address)


def _has_window() -> bool:
    """Whether there is a browser with a window of its own; one in the terminal would run no scripts and hide the address."""
    if os.environ.get("BROWSER"):
        return True
    try:
        found = webbrowser.get()
    except webbrowser.Error:
        return False
    # ``GenericBrowser`` itself, none of its kinds, stands for w3m, links and lynx.
    return type(found) is not webbrowser.GenericBrowser
