"""Real processes that start warm: forked from one which has imported the package, so that a test does not wait for imports.

A process that is started here has a pid, a session, an environment, a folder and pipes of its own; it is signalled, killed and
waited for like any other. Only what it would import first is there already. So tests of what a new interpreter does (which
modules are loaded, how the package is found) start an interpreter instead.

Below one process of tests: a server, which imports and forks; a keeper of each process, which waits for its exit code;
the process. Whoever dies takes those below along.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import importlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from tests.warm_ray import start_server, use_warm_workers

ROOT = Path(__file__).parents[1]
_PR_SET_PDEATHSIG = 1  # Linux: <sys/prctl.h>
_LARGEST_REQUEST = 2**20


class Process:
    """``python -m MODULE ARGUMENTS``, or ``python -c CODE ARGUMENTS``; used like ``subprocess.Popen`` with pipes of text."""

    def __init__(
        self,
        what: list[str],
        arguments: tuple[object, ...],
        cwd: Path = ROOT,
        env: Mapping[str, str] | None = None,
        warm_ray: bool = False,  # a Ray that it starts has warm workers, too
    ) -> None:
        ends = [os.pipe() for _ in range(3)]
        request = {
            "what": what,
            "arguments": [str(argument) for argument in arguments],
            "cwd": str(cwd),
            "env": {**(os.environ if env is None else env), "OMP_NUM_THREADS": "1"},
            "warm_ray": start_server() if warm_ray else None,
        }
        words = json.dumps(request).encode()
        assert len(words) < _LARGEST_REQUEST
        socket.send_fds(_server(), [words], [written for _, written in ends])
        for _, written in ends:
            os.close(written)
        self.stdout, self.stderr, self._told = (os.fdopen(read, encoding="utf-8") for read, _ in ends)
        self.args = [sys.executable, *what, *request["arguments"]]
        self.pid = int(self._told.readline())
        self.returncode: int | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._hear, daemon=True).start()

    def _hear(self) -> None:
        self.returncode = os.waitstatus_to_exitcode(int(self._told.readline()))
        self._told.close()
        self._ended.set()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it still says, until it has ended; it is killed when the time is up."""
        said: dict[str, str] = {}
        pipes = {"out": self.stdout, "err": self.stderr}
        listeners = [threading.Thread(target=_drain, args=(said, *pipe), daemon=True) for pipe in pipes.items()]
        for listener in listeners:
            listener.start()
        end = None if timeout is None else time.monotonic() + timeout
        try:
            self.wait(timeout)
            for listener in listeners:  # a process that it has left behind may hold its pipes
                listener.join(None if end is None else max(0.0, end - time.monotonic()))
                if listener.is_alive():
                    raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        return said["out"], said["err"]


def start(*arguments: object, module: str = "marl.cli", **where: Any) -> Process:
    """``python -m MODULE ARGUMENTS``, ``where``: cwd, env, warm_ray; the module has a function ``main``."""
    return Process(["-m", module], arguments, **where)


def run(
    *arguments: object, module: str = "marl.cli", timeout: float = 120, **where: Any
) -> subprocess.CompletedProcess[str]:
    """The same, to its end."""
    return _to_its_end(start(*arguments, module=module, **where), timeout)


def start_code(code: str, *arguments: object, **where: Any) -> Process:
    """``python -c CODE ARGUMENTS``."""
    return Process(["-c", code], arguments, **where)


def run_code(code: str, *arguments: object, timeout: float = 120, **where: Any) -> subprocess.CompletedProcess[str]:
    """The same, to its end."""
    return _to_its_end(start_code(code, *arguments, **where), timeout)


def _to_its_end(process: Process, timeout: float) -> subprocess.CompletedProcess[str]:
    out, err = process.communicate(timeout)
    return subprocess.CompletedProcess(process.args, process.wait(), out, err)


def _drain(said: dict[str, str], name: str, pipe: IO[str]) -> None:
    with pipe:
        said[name] = pipe.read()


# -- the server ----------------------------------------------------------------------------------------------------------


@functools.cache
def _server() -> socket.socket:
    """Start the server; it ends when this process does, because its socket closes then."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST_REQUEST)
    command = [sys.executable, "-m", "tests.processes"]
    subprocess.Popen(
        command, cwd=ROOT, stdin=theirs, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    theirs.close()
    return ours


def serve() -> Callable[[], object] | None:
    """Fork for every request. Returns in the new processes, with what they have to do; and in the server, at its end."""
    from siege.warm import warm_up

    warm_up()
    gc.freeze()  # a collection would touch, and so copy, all pages that the processes share
    requests = socket.socket(fileno=os.dup(0))
    while True:
        words, descriptors, _, _ = socket.recv_fds(requests, _LARGEST_REQUEST, 3)
        _bury_keepers()
        if not words:
            return None
        if os.fork() == 0:
            requests.close()
            return _keep(json.loads(words), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _bury_keepers() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _keep(request: dict[str, Any], out: int, err: int, status: int) -> Callable[[], object]:
    """The keeper tells pid and exit status of the process, in which alone this function returns."""
    _die_with_the_parent()
    pid = os.fork()
    if pid == 0:
        os.close(status)
        return _settle(request, out, err)
    os.close(out), os.close(err)
    os.write(status, b"%d\n" % pid)
    os.write(status, b"%d\n" % os.waitpid(pid, 0)[1])
    os._exit(0)


def _settle(request: dict[str, Any], out: int, err: int) -> Callable[[], object]:
    """Make this process what a new interpreter would be, and return what it has to do."""
    import numpy as np

    _die_with_the_parent()
    os.setsid()
    for descriptor, place in ((os.open(os.devnull, os.O_RDONLY), 0), (out, 1), (err, 2)):
        os.dup2(descriptor, place)
        os.close(descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.path[0] = request["cwd"]
    random.seed()  # whoever draws without a seed of its own gets other numbers in every process
    np.random.seed()  # noqa: NPY002
    if request["warm_ray"]:
        use_warm_workers(request["warm_ray"])
    flag, what = request["what"]
    sys.argv = [what if flag == "-m" else "-c", *request["arguments"]]
    if flag == "-m":
        return importlib.import_module(what).main  # type: ignore[no-any-return]
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    return functools.partial(exec, compile(what, "<string>", "exec"), main.__dict__)


def _die_with_the_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    if (job := serve()) is not None:
        job()
