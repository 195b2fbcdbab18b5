"""Death at an exact moment: just before the n-th thing that a run does to the files in a folder.

An audit hook sees every file that is opened to be written, renamed, made or removed; ``os.fsync``, of which Python
tells no hook, is wrapped. The exchange of two folders is not heard, but the syncs before and after it are.
This lives in the process that is struck, never in the package.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_CHANGES = frozenset({"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "os.link", "os.symlink"})


class Strike:
    """Counts what is done to ``folder``; at number ``moment`` the process dies. 0: only count."""

    def __init__(self, folder: Path, moment: int = 0, number: signal.Signals = signal.SIGKILL) -> None:
        self.folder, self.moment, self.signal = os.fsencode(folder), moment, number
        self.count = 0

    def arm(self, counter: Path | None = None) -> None:
        """From now on, in this process; ``counter`` gets the count when the process ends."""
        sys.addaudithook(self._hear)
        sync = os.fsync

        def struck_fsync(fd: Any) -> None:
            self._pass()
            sync(fd)
            self._pass()

        os.fsync = struck_fsync
        if counter is not None:
            import atexit

            atexit.register(lambda: counter.write_text(str(self.count)))

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & _WRITING and self._is_inside(path):
                self._pass()
        elif event in _CHANGES and self._is_inside(arguments[0]):
            self._pass()

    def _is_inside(self, path: Any) -> bool:
        return isinstance(path, str | bytes | os.PathLike) and os.fsencode(path).startswith(self.folder)

    def _pass(self) -> None:
        self.count += 1
        if self.count == self.moment:
            os.kill(os.getpid(), self.signal)
