"""Notices the death of Ray's own processes: without raylet or GCS no worker can be reached, and Ray would end this process.

A thread waits for the end of either; whoever is about to call Ray asks for ``lost`` first. Where that comes too late, because
Ray ends a driver that talks to a raylet at the moment of its death, ``farewell.py`` speaks in its place.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from marl.rollout.farewell import Note

NAMES = {"gcs_server": "GCS", "raylet": "raylet"}  # the processes without which nothing goes on
LAST_WORDS = "error: Ray died and ended this process with it. A run can go on from its last checkpoint."
LOOK_EVERY_S = 0.2
PATIENCE_S = 30.0  # between a death and the end by force; Ray itself ends drivers 60 s after the death of the GCS


class RayWatch:
    """Watches over the Ray that this process has started with its files in ``folder``; ``on_loss`` is called in a thread."""

    def __init__(self, folder: Path, on_loss: Callable[[], None] = lambda: None) -> None:
        self.folder, self.on_loss = folder, on_loss
        self.lost = ""  # who died
        self.by_force = False  # end this process where nobody reacts to a death
        self._closing, self._closed = threading.Event(), threading.Event()
        self._others = _processes(folder)
        self._heart = {NAMES[process.name()]: process for process in self._others if process.name() in NAMES}
        self._farewell = subprocess.Popen(
            [sys.executable, "-I", str(Path(__file__).with_name("farewell.py"))],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True,
        )  # fmt: skip
        self.say(LAST_WORDS)
        threading.Thread(target=self._watch, name="marl_ray_watch", daemon=True).start()

    def say(self, words: str) -> None:
        """What is said if Ray should end this process."""
        self._others = _processes(self.folder)
        heart = [(process.pid, process.create_time()) for process in self._heart.values()]
        others = [(process.pid, process.create_time()) for process in self._others]
        self._tell(json.dumps(Note(words=words, heart=heart, others=others, folder=str(self.folder))))

    def close(self, shut_down: Callable[[], None]) -> None:
        """Shut Ray down, and end what is left of it after a death."""
        self._closing.set()
        more = _processes(self.folder) if self.lost else []
        shut_down()
        if self.lost:
            _end([*self._others, *more])
        self._closed.set()
        self._tell("")
        with suppress(OSError, ValueError, subprocess.TimeoutExpired):
            self._farewell.communicate(timeout=10)

    def _tell(self, line: str) -> None:
        assert self._farewell.stdin is not None
        with suppress(OSError, ValueError):  # somebody has ended it
            self._farewell.stdin.write(line + "\n")
            self._farewell.stdin.flush()

    def _watch(self) -> None:
        died = _by_handles(self._heart)
        name = ""
        while not name:
            name = died()
            if self._closing.is_set():
                return
        self.lost = name
        self.on_loss()
        if not self._closed.wait(PATIENCE_S) and self.by_force:
            os._exit(1)


def _by_handles(heart: Mapping[str, psutil.Process]) -> Callable[[], str]:
    """Wait a little for the end of one of the processes, and hear of it at once."""
    if not hasattr(os, "pidfd_open"):
        return _by_looking(heart)
    poll, names = select.poll(), {}
    for name, process in heart.items():
        with suppress(OSError):
            handle = os.pidfd_open(process.pid)
            names[handle] = name
            poll.register(handle, select.POLLIN)

    def died() -> str:
        ended = poll.poll(LOOK_EVERY_S * 1000)
        return names[ended[0][0]] if ended else ""

    return died


def _by_looking(heart: Mapping[str, psutil.Process]) -> Callable[[], str]:
    """The same where the system has no handles of processes."""

    def died() -> str:
        time.sleep(LOOK_EVERY_S)
        for name, process in heart.items():
            if not _runs(process):
                return name
        return ""

    return died


def _processes(folder: Path) -> list[psutil.Process]:
    """All processes of the Ray that has its files in ``folder``: children of this one that were told of it, and theirs."""
    found: list[psutil.Process] = []
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            if any(str(folder) in word for word in child.cmdline()):
                found += [child, *child.children(recursive=True)]
    return found


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _end(processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.Error):
            process.kill()  # psutil leaves a process alone that was given the same number since
