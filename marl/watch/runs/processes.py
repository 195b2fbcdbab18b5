"""Runs that the page starts, stops and resumes: each is a process of its own, which goes on when ``marl watch`` ends.

What a process prints goes to a file in ``.marl_watch`` in the results folder, so that the page, and a later one, can show it.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import psutil

from marl.errors import RunLockedError
from marl.inputs import open_input
from marl.runs.lock import SAME_START, Holder, holder_of
from marl.serve.refused import Refused
from marl.watch.runs.table import signature_of

FOLDER = ".marl_watch"
RESULTS = "results: "  # begins the line by which a run says where its directory is
HEAD, TAIL = 8 * 1024, 16 * 1024  # bytes of a log that are read
MOST_STARTED = 20  # at once: each takes a core and its memory
MOST_LOGS = 200
# Windows knows Ctrl-C for a whole terminal alone; its Ctrl-Break reaches a process that leads a group of its own.
CTRL_C = getattr(signal, "CTRL_BREAK_EVENT", signal.SIGINT)
OWN_GROUP = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)


@dataclass
class Started:
    """A process that this page has started."""

    number: int
    command: str
    log: Path
    process: subprocess.Popen[bytes]
    began: float = field(default_factory=time.time)

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None


class Processes:
    """Starts, stops and remembers runs of one results folder."""

    def __init__(self, root: Path, allow: frozenset[str]) -> None:
        self.root, self.allow = root, allow
        self._lock = threading.Lock()
        self._started: dict[int, Started] = {}
        self._logs: dict[Path, tuple[bytes, list[str]]] = {}  # their heads, and the runs that these name

    # -- begin -----------------------------------------------------------------------------------------------------

    def start(self, scenario: str, options: Sequence[str]) -> Started:
        """``marl run SCENARIO`` with its results in the folder that is watched."""
        # The last word after "--": a file may be called as an option is.
        return self._begin([*options, f"--local-dir={self.root.resolve()}", "--", scenario])

    def resume(self, directory: Path, options: Sequence[str]) -> Started:
        """``marl run --resume DIRECTORY``."""
        words = list(options)
        for module in sorted(self.allow):
            words.append(f"--allow={module}")
        words.append(f"--resume={directory}")
        return self._begin(words)

    def _begin(self, words: list[str]) -> Started:
        # Two browsers may start something at once.
        with self._lock:
            return self._begin_one(words)

    def _begin_one(self, words: list[str]) -> Started:
        running = [one for one in self._started.values() if not one.ended]
        if len(running) >= MOST_STARTED:
            raise Refused("too_many", f"{len(running)} runs were started here and still run; wait for one to end.", 429)
        number = len(self._started) + 1
        command = f"marl run {shlex.join(words)}"
        with self._new_log(number, command) as output:
            log = Path(output.name)
            process = _started(words, output)
        # Waits for its end: a process that has ended and is not asked how stays in the list of processes.
        threading.Thread(target=process.wait, name=f"marl run {number}", daemon=True).start()
        started = Started(number, command, log, process)
        self._started[number] = started
        return started

    def _new_log(self, number: int, command: str) -> BinaryIO:
        """The file that takes what the run prints; its first line is the command."""
        folder = self.root / FOLDER
        now = time.strftime("%Y-%m-%d_%H-%M-%S")
        try:
            folder.mkdir(exist_ok=True)
            output = (folder / f"{now}_{os.getpid()}_{number}.log").open("wb")
            output.write(f"$ {command}\n".encode())
            output.flush()
        except OSError as error:
            raise Refused("read_only", f"nothing can be written to {self.root}: {error.strerror}.", 400) from error
        return output

    # -- end -------------------------------------------------------------------------------------------------------

    def stop(self, directory: Path) -> None:
        """Ctrl-C for the process that writes to the run: it saves a checkpoint and ends. A second one ends it at once."""
        try:
            holder = holder_of(directory)
        except RunLockedError as error:
            raise Refused("locked", str(error), 409) from error
        ended = Refused("not_running", f"no process is training {directory.name}: it has ended already.", 409)
        if holder is None:
            raise ended
        if not holder.here:
            raise Refused("elsewhere", f"it runs on the host {holder.hostname!r}: stop it there.", 409)
        if not holder.running:
            raise ended
        _interrupt(holder)

    def stop_started(self, number: int) -> None:
        """The same for a process that has no run directory yet."""
        started = self._started.get(number)
        if started is None or started.ended:
            raise Refused("not_running", "that process has ended already.", 409)
        started.process.send_signal(CTRL_C)

    # -- tell ------------------------------------------------------------------------------------------------------

    def to_json(self) -> list[dict[str, Any]]:
        """The processes that this page has started, newest first."""
        told = []
        for one in reversed(list(self._started.values())):  # somebody may start another one meanwhile
            runs = self._runs_in(one.log)
            entry = {
                "number": one.number,
                "command": one.command,
                "began": one.began,
                "code": one.process.poll(),
                "run": None,
                "tail": tail_of(one.log),
            }
            if runs:
                entry["run"] = runs[-1]
            told.append(entry)
        return told

    def log_of(self, run: str) -> str:
        """The end of what the run printed, if a page has started it; else empty."""
        logs = sorted((self.root / FOLDER).glob("*.log"), reverse=True)
        for log in logs[:MOST_LOGS]:
            if run in self._runs_in(log):
                return tail_of(log)
        return ""

    def _runs_in(self, log: Path) -> list[str]:
        """Names of the runs that a log tells of."""
        head = _part_of(log, 0, HEAD)
        kept = self._logs.get(log)
        if kept is not None and kept[0] == head:
            return kept[1]
        root = self.root.resolve()
        found: dict[str, None] = {}
        for line in head.decode("utf-8", "replace").splitlines():
            if not line.startswith(RESULTS):
                continue
            try:
                place = Path(line.removeprefix(RESULTS).strip()).resolve()
            except (OSError, ValueError, RuntimeError):  # an env prints what it likes
                continue
            if place.is_relative_to(root):
                name = place.relative_to(root).as_posix()
                found[name] = None
        self._logs[log] = (head, list(found))
        return list(found)


def _started(words: Sequence[str], output: BinaryIO) -> subprocess.Popen[bytes]:
    # No shell: words of the page are words, whatever is in them. A session of its own: neither Ctrl-C in the terminal of
    # marl watch nor its end reaches the run.
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "marl.run", *words],
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            creationflags=OWN_GROUP,
        )  # fmt: skip
    except OSError as error:
        raise Refused("not_started", f"the system starts no process for it: {error.strerror}.", 503) from error


def _interrupt(holder: Holder) -> None:
    if holder.pid == os.getpid():
        raise Refused("own", "marl watch itself trains this run; it ends with marl watch.", 409)
    try:
        process = psutil.Process(holder.pid)
        # Numbers of processes are used again: only the very process that took the lock is meant.
        if abs(process.create_time() - holder.process_began) < SAME_START:
            process.send_signal(CTRL_C)
    except psutil.NoSuchProcess:
        return
    except psutil.AccessDenied as error:
        raise Refused("denied", f"process {holder.pid} belongs to somebody else; you may not stop it.", 403) from error


def tail_of(log: Path) -> str:
    """The last lines of a log, without what only a terminal obeys."""
    seen = signature_of(log)
    if seen is None:
        return ""
    begin = max(0, seen.size - TAIL)
    content = _part_of(log, begin, TAIL)
    text = content.decode("utf-8", "replace")
    if begin > 0:
        text = text.partition("\n")[2]  # the middle of a line
    lines = []
    for line in text.split("\n"):
        letters = filter(str.isprintable, line)
        lines.append("".join(letters))
    return "\n".join(lines)


def _part_of(log: Path, begin: int, length: int) -> bytes:
    try:
        with open_input(log) as stream:
            stream.seek(begin)
            return stream.read(length)
    except OSError:
        return b""
