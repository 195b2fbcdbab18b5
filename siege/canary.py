"""An audit hook that cries when a file makes a process write elsewhere, start programs or open connections.

What the same commands do with honest files (ask git for the commit, for instance) is known before and allowed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PROGRAMS = frozenset({"os.system", "os.exec", "os.posix_spawn", "os.spawn", "pty.spawn", "subprocess.Popen"})
_CHANGES = frozenset(
    {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "os.link", "os.symlink", "os.chmod", "shutil.rmtree",
     "shutil.move", "shutil.copyfile", "shutil.copytree", "os.chdir"}
)  # fmt: skip
_CONNECTIONS = frozenset(
    {"socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "urllib.Request", "ftplib.connect",
     "smtplib.connect", "http.client.connect", "webbrowser.open"}
)  # fmt: skip
_CODE = frozenset({"pickle.find_class", "code.__new__"})
_EVERYWHERE = ("/dev/null", "/dev/tty", "/proc/", "/dev/shm/")


class Canary:
    """Hears what the process does; what is neither within ``inside`` nor a habit is written to the file ``alarms``."""

    def __init__(self, inside: Path, habits: frozenset[str] = frozenset()) -> None:
        self.inside, self.habits = inside.resolve(), habits
        self._file = -1
        self._told: set[str] = set()

    def arm(self) -> None:
        """From now on, in this process, to its end: a hook cannot be taken away."""
        self._file = os.open(self.inside / "alarms", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & _WRITING and not self._is_inside(path):
                self._cry(f"open for writing {path}")
        elif event in _CHANGES:
            for path in arguments[: 2 if event in ("os.rename", "shutil.move", "os.link") else 1]:
                if not self._is_inside(path):
                    self._cry(f"{event} {path}")
        elif event in _PROGRAMS or event in _CONNECTIONS:
            self._cry(f"{event} {_text(arguments[:2] if event == 'subprocess.Popen' else arguments)}")
        elif event in _CODE:
            self._cry(event)

    def _is_inside(self, path: Any) -> bool:
        if isinstance(path, int):
            return True  # an open file: it was heard when it was opened
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        place = os.path.abspath(os.fsdecode(path))
        return place.startswith((f"{self.inside}{os.sep}", *_EVERYWHERE)) or place == str(self.inside)

    def _cry(self, text: str) -> None:
        text = text.replace(str(self.inside), "INSIDE").replace("\n", " ")[:300]
        if text in self.habits or text in self._told:
            return
        self._told.add(text)
        os.write(self._file, f"{text}\n".encode(errors="replace"))


def _text(arguments: tuple[Any, ...]) -> str:
    return " ".join(repr(argument) for argument in arguments if not hasattr(argument, "fileno"))


def home_of(inside: Path) -> dict[str, str]:
    """An environment in which everything that a library keeps for itself lies inside."""
    home = inside / "home"
    home.mkdir(exist_ok=True)
    names = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MARL_RESULTS_DIR", "TORCHINDUCTOR_CACHE_DIR")
    return {name: str(home) for name in names}
