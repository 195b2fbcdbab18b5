"""A command in a process of its own, forked from one that has imported the package: a case costs milliseconds, not seconds.

The child is a real process: it has its own session, files for its output, a limit of memory and time, and it can be killed.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
import resource
import runpy
import select
import shlex
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

Overtime: TypeAlias = Literal["", "stopped", "hung"]
_PR_SET_PDEATHSIG = 1  # Linux: <sys/prctl.h>
GIB = 2**30


@dataclass(frozen=True)
class Limits:
    """What a case may use. After ``seconds`` it is asked twice to stop (SIGINT) and has ``grace`` seconds to do so."""

    seconds: float = 20.0
    grace: float = 10.0
    memory: int = 6 * GIB  # of addresses; torch alone takes about two
    file_size: int = 2 * GIB


@dataclass(frozen=True)
class Command:
    """``python -m MODULE ARGUMENTS``, run in a folder."""

    arguments: Sequence[str]
    module: str = "marl.cli"

    def __str__(self) -> str:
        return shlex.join(["python", "-m", self.module, *self.arguments])


@dataclass(frozen=True)
class Ended:
    """How a child ended. ``code`` is the exit code, or the number of the signal with a minus."""

    code: int
    stdout: str
    stderr: str
    seconds: float
    overtime: Overtime = ""
    alarms: Sequence[str] = field(default_factory=tuple)

    @property
    def said(self) -> str:
        return self.stdout + self.stderr


class Child:
    """A forked process that runs a command; ``folder`` gets its output."""

    def __init__(
        self,
        command: Command,
        folder: Path,
        limits: Limits = Limits(),  # noqa: B008
        environment: Mapping[str, str] | None = None,
        at_start: Callable[[], object] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.limits, self.began = folder, limits, time.monotonic()
        (folder / "command.txt").write_text(f"cd {folder}\n{command}\n", encoding="utf-8", errors="replace")
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _live(command, folder, limits, environment or {}, at_start)
        self._descriptor = os.pidfd_open(self.pid)

    def wait(self, seconds: float) -> bool:
        """Whether it has ended after so many seconds at most; its exit status stays to be read."""
        ready, _, _ = select.select([self._descriptor], [], [], max(0.0, seconds))
        return bool(ready)

    def send(self, number: signal.Signals) -> None:
        signal.pidfd_send_signal(self._descriptor, number)

    def end(self) -> Ended:
        """Wait until it has ended, by itself or because its time is up."""
        overtime: Overtime = ""
        if not self.wait(self.began + self.limits.seconds - time.monotonic()):
            overtime = self._stop()
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self._descriptor)
        seconds = time.monotonic() - self.began
        texts = [(self.folder / name).read_text(errors="replace") for name in ("stdout", "stderr")]
        alarms = self.folder / "alarms"
        heard = alarms.read_text(errors="replace").splitlines() if alarms.exists() else []
        return Ended(status, texts[0], texts[1], seconds, overtime, tuple(heard))

    def _stop(self) -> Overtime:
        """Ctrl-C, and Ctrl-C again: whatever takes long has to end then."""
        self.send(signal.SIGINT)
        if not self.wait(0.5):
            self.send(signal.SIGINT)
        if self.wait(self.limits.grace):
            return "stopped"
        self.send(signal.SIGKILL)
        return "hung"


def run(command: Command, folder: Path, **keywords: object) -> Ended:
    """Run a command to its end."""
    return Child(command, folder, **keywords).end()  # type: ignore[arg-type]


def _live(
    command: Command,
    folder: Path,
    limits: Limits,
    environment: Mapping[str, str],
    at_start: Callable[[], object] | None,
) -> None:
    """The whole life of the child; never returns."""
    logging.getLogger().handlers.clear()  # of the process that besieges, a test run for instance: nobody would see warnings
    code = 70
    try:
        _settle(folder, limits, environment)
        if at_start is not None:
            at_start()
        code = _execute(command)
        threading._shutdown()  # type: ignore[attr-defined]  # as the interpreter does at its end
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _settle(folder: Path, limits: Limits, environment: Mapping[str, str]) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # nobody is left behind when the siege is stopped
    os.setsid()
    atexit._clear()
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    os.environ.update(environment)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for number_of_stream, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), number_of_stream)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False, encoding="utf-8")  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory, limits.memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits.file_size, limits.file_size))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _execute(command: Command) -> int:
    """The exit code that the interpreter would give."""
    sys.argv = [command.module, *command.arguments]
    try:
        if command.module == "marl.cli":
            from marl.cli import main

            main()  # as below, without a second copy of the module
        else:
            runpy.run_module(command.module, run_name="__main__")
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    except KeyboardInterrupt:
        traceback.print_exc()
        return 130
    except BaseException:
        traceback.print_exc()
        return 1
    return 0
