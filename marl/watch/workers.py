"""Processes that play and think for the page, so that a hanging or crashing env never takes the server along.

A task is a function named ``package.module:function`` by our own code, never by a request. It gets its arguments and a
function to tell progress, and returns what JSON can hold. What it keeps in its module stays there from one call to the next,
until the process ends.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import multiprocessing
import signal
import threading
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

from marl.errors import UserError
from marl.serve.refused import Refused

_log = logging.getLogger(__name__)

Tell: TypeAlias = Callable[[float, float | None, str], None]
"""Is told how much is done, of how much (None: nobody knows), and what it is in words."""


class Worker:
    """One process that does one task at a time. It starts with the first task, and again after it has died."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._process: Any = None
        self._pipe: Connection | None = None
        self._turn = threading.Lock()
        # A queue of its own: those who wait for a long task must not take the threads that others need.
        self._queue = ThreadPoolExecutor(1, f"marl watch {name}")

    async def call(
        self, task: str, arguments: Mapping[str, Any], tell: Tell | None = None, begun: Callable[[], None] | None = None
    ) -> Any:
        """Do the task, after those that came before; mistakes of users come back as ``Refused``. ``begun`` is called when
        its turn has come; until then it can be cancelled."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._queue, self.call_now, task, arguments, tell, begun)

    def call_now(
        self, task: str, arguments: Mapping[str, Any], tell: Tell | None = None, begun: Callable[[], None] | None = None
    ) -> Any:
        """The same, for callers that may wait."""
        with self._turn:
            if begun is not None:
                begun()
            pipe = self._connected()
            try:
                pipe.send((task, dict(arguments)))
                return _answer(pipe, tell or _tell_nobody)
            except (EOFError, OSError):
                raise self._died() from None

    def _connected(self) -> Connection:
        if self._pipe is None or not self._process.is_alive():
            # A fresh interpreter: a copy of this one would hold the server's sockets and threads.
            context = multiprocessing.get_context("spawn")
            self._pipe, other = context.Pipe()
            self._process = context.Process(target=work, args=(other,), name=f"marl watch {self.name}", daemon=True)
            self._process.start()
            other.close()
        return self._pipe

    def _died(self) -> Refused:
        process, self._pipe = self._process, None
        if process is not None:
            process.join(5.0)
        code = None if process is None else process.exitcode
        return Refused(
            "worker_died", f"the process that did this has ended (exit code {code}): it was stopped, or the env ended it.",
            500,
        )  # fmt: skip

    def stop(self) -> None:
        """End what is being done at once; the next task begins a new process."""
        if self._process is not None:
            self._process.kill()
            self._process.join(2.0)  # the next task must not find it half alive

    def close(self) -> None:
        """End the process, and forget who waits for it."""
        self._queue.shutdown(wait=False, cancel_futures=True)
        if self._process is not None:
            self._process.terminate()
            self._process.join(2.0)
            if self._process.is_alive():
                self._process.kill()


def _tell_nobody(done: float, total: float | None, text: str) -> None:
    pass


def _answer(pipe: Connection, tell: Tell) -> Any:
    while True:
        kind, content = pipe.recv()
        if kind == "progress":
            tell(*content)
        elif kind == "done":
            return content
        elif kind == "refused":
            raise Refused(*content)
        else:
            _log.error("a task failed\n%s", content)
            raise Refused("internal", "this did not work, and it is not your mistake; the log has the reason.", 500)


# -- in the process ----------------------------------------------------------------------------------------------------


def work(pipe: Connection) -> None:
    """Do tasks until the server hangs up."""
    # Ctrl-C reaches all processes of a terminal; the server alone decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    import torch

    torch.set_num_threads(1)
    while True:
        try:
            task, arguments = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(_done(pipe, task, arguments))


def _done(pipe: Connection, task: str, arguments: dict[str, Any]) -> tuple[str, Any]:
    def tell(done: float, total: float | None = None, text: str = "") -> None:
        pipe.send(("progress", (done, total, text)))

    try:
        return "done", _function(task)(arguments, tell)
    except Refused as refused:
        return "refused", (refused.code, str(refused), refused.status)
    except UserError as error:
        return "refused", (type(error).__name__, str(error), 400)
    except Exception:
        return "failed", traceback.format_exc()


def _function(task: str) -> Callable[[dict[str, Any], Tell], Any]:
    module, _, name = task.partition(":")
    found: Callable[[dict[str, Any], Tell], Any] = getattr(importlib.import_module(module), name)
    return found
