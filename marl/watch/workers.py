"""Processes that play and think for the page, so that a hanging or crashing env never takes the server along.

A task is a function named ``package.module:function`` by our own code, never by a request. It gets its arguments and a
function to tell progress, and returns what JSON can hold. What it keeps in its module stays there from one call to the next,
until the process ends.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import math
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any, TypeAlias

from marl.errors import UserError
from marl.serve.refused import Refused
from marl.watch.lost_files import refusal_of

_log = logging.getLogger(__name__)

LOOK_S = 0.2  # how often a process that says nothing is looked at

Tell: TypeAlias = Callable[[float, float | None, str], None]
"""Is told how much is done, of how much (None: nobody knows), and what it is in words."""


class Worker:
    """One process that does one task at a time. It starts with the first task, and again after it has died."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._process: Any = None
        self._pipe: Connection | None = None
        self._turn = threading.Lock()
        # Held while a process begins or is ended, so that whoever wants its end never meets half a process.
        self._guard = threading.Lock()
        self._doing: object = None  # ``begun`` of the call that is under way
        self._is_closed = False
        # A queue of its own: those who wait for a long task must not take the threads that others need.
        self._queue = ThreadPoolExecutor(1, f"marl watch {name}")

    async def call(
        self,
        task: str,
        arguments: Mapping[str, Any],
        tell: Tell | None = None,
        begun: Callable[[], None] | None = None,
        limit_s: float = math.inf,
    ) -> Any:
        """Do the task, after those that came before; mistakes of users come back as ``Refused``. ``begun`` is called when
        its turn has come; until then it can be cancelled. What takes longer than ``limit_s`` from then on is ended."""
        self._check_open()
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._queue, self.call_now, task, arguments, tell, begun, limit_s)

    def call_now(
        self,
        task: str,
        arguments: Mapping[str, Any],
        tell: Tell | None = None,
        begun: Callable[[], None] | None = None,
        limit_s: float = math.inf,
    ) -> Any:
        """The same, for callers that may wait."""
        with self._turn:
            try:
                with self._guard:
                    self._doing = begun
                    if begun is not None:
                        begun()
                    process, pipe = self._connected()
                pipe.send((task, dict(arguments)))
                return _answer(process, pipe, tell or _tell_nobody, limit_s)
            except TimeoutError:
                self.stop()
                self._forget()
                raise Refused("too_slow", f"it did not end within {limit_s:g} seconds, so it was ended.", 503) from None
            except (EOFError, OSError):
                raise self._died() from None
            finally:
                with self._guard:
                    self._doing = None

    def _connected(self) -> tuple[Any, Connection]:
        self._check_open()
        if self._pipe is not None and not self._process.is_alive():
            _kill(self._process)
            self._pipe = None
        if self._pipe is None:
            # A fresh interpreter: a copy of this one would hold the server's sockets and threads.
            context = multiprocessing.get_context("spawn")
            pipe, other = context.Pipe()
            process = context.Process(target=work, args=(other,), name=f"marl watch {self.name}", daemon=True)
            with _without_interrupts():
                process.start()
            other.close()
            self._process, self._pipe = process, pipe
        return self._process, self._pipe

    def _check_open(self) -> None:
        if self._is_closed:
            raise Refused("closing", "marl watch is ending.", 503)

    def _died(self) -> Refused:
        code = self._forget()
        return Refused(
            "worker_died", f"the process that did this has ended (exit code {code}): it was stopped, or the env ended it.",
            500,
        )  # fmt: skip

    def _forget(self) -> int | None:
        """The process has ended; how."""
        with self._guard:
            process, self._pipe = self._process, None
            if process is None:  # the system would not start one
                return None
            process.join(5.0)
            _kill(process)  # what the env has started goes with it
        code: int | None = process.exitcode
        return code

    def stop(self, begun: Callable[[], None] | None = None) -> None:
        """End what is being done at once; the next task begins a new process. With ``begun`` only the very call that
        came with it: when somebody wants its end, it may have ended, and another one have begun."""
        with self._guard:
            is_another = begun is not None and self._doing != begun
            if self._pipe is None or is_another:
                return
            _kill(self._process)
            self._process.join(2.0)  # the next task must not find it half alive

    def close(self) -> None:
        """End the process, and do nothing more."""
        self._is_closed = True
        self._queue.shutdown(wait=False, cancel_futures=True)
        with self._guard:
            if self._pipe is None:  # numbers of processes that have ended may be used again
                return
            self._process.terminate()
            self._process.join(2.0)
            _kill(self._process)
            self._process.join(2.0)


def _kill(process: Any) -> None:
    """End a process, with all that its envs have started: they would hold its pipes open, and play on for nobody."""
    if hasattr(os, "killpg"):
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()  # one that has just begun leads no group yet


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """A process that starts in here is deaf to Ctrl-C from its first moment, until it has said itself what it does then."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _tell_nobody(done: float, total: float | None, text: str) -> None:
    pass


def _answer(process: Any, pipe: Connection, tell: Tell, limit_s: float) -> Any:
    deadline = time.monotonic() + limit_s
    while True:
        _wait_for_words(process, pipe, deadline)
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


def _wait_for_words(process: Any, pipe: Connection, deadline: float) -> None:
    """Until something can be read. The pipe alone does not tell that the process has died: copies of it, which an env may
    have made, hold it open."""
    while not pipe.poll(LOOK_S):
        if not process.is_alive() and not pipe.poll():
            raise EOFError
        if time.monotonic() > deadline:
            raise TimeoutError


# -- in the process ----------------------------------------------------------------------------------------------------


def work(pipe: Connection) -> None:
    """Do tasks until the server hangs up."""
    # Ctrl-C reaches all processes of a terminal; the server alone decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if hasattr(os, "setsid"):
        os.setsid()  # what envs start belongs to this process, and ends with it
    threading.Thread(target=_end_with_the_server, daemon=True).start()
    import torch

    torch.set_num_threads(1)
    while True:
        try:
            task, arguments = pipe.recv()
        except (EOFError, OSError):
            return
        answer = _done(pipe, task, arguments)
        try:
            pipe.send(answer)
        except OSError:  # the server has hung up
            return
        except Exception:  # something that does not fit through a pipe
            pipe.send(("failed", traceback.format_exc()))


def _end_with_the_server() -> None:
    """A server that was killed closes nothing, and an env may play on for hours without looking at the pipe."""
    server = multiprocessing.parent_process()
    if server is not None:
        wait([server.sentinel])
        if hasattr(os, "killpg"):
            os.killpg(os.getpid(), signal.SIGKILL)
        os._exit(0)


def _done(pipe: Connection, task: str, arguments: dict[str, Any]) -> tuple[str, Any]:
    def tell(done: float, total: float | None = None, text: str = "") -> None:
        pipe.send(("progress", (done, total, text)))

    try:
        return "done", _function(task)(arguments, tell)
    except Refused as refused:
        return "refused", (refused.code, str(refused), refused.status)
    except UserError as error:
        return "refused", (type(error).__name__, str(error), 400)
    except OSError as error:
        lost = refusal_of(error)
        return "refused", (lost.code, str(lost), lost.status)
    except Exception:
        return "failed", traceback.format_exc()


def _function(task: str) -> Callable[[dict[str, Any], Tell], Any]:
    module, _, name = task.partition(":")
    found: Callable[[dict[str, Any], Tell], Any] = getattr(importlib.import_module(module), name)
    return found
