"""Workers of Ray that start warm: forked from a process which has imported torch and the package.

Ray runs ``python setup_worker.py default_worker.py OPTIONS`` for every worker, and each of them imports Ray twice, torch and
the package: three seconds of CPU. After ``use_warm_workers`` it runs this file instead. It hands options, environment and
files on to a server, which forks a process that goes on with ``default_worker.py``, and stays as its stand-in: whoever of the
two ends first takes the other along. Signals that are sent to the group of a run do not reach such workers: tests of Ctrl-C
have cold ones.
"""

import json
import os
import socket
import sys

PLACE = "MARL_TESTS_WARM_RAY"  # where the server listens
LARGEST_REQUEST = 2**20


def stand_in() -> None:
    """What Ray starts: ask for a warm worker, and live as long as it does."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LARGEST_REQUEST)
    try:
        server.connect(os.environ[PLACE])
    except OSError:  # the tests that started it have ended
        setup = os.path.join(os.path.dirname(sys.argv[1]), "setup_worker.py")
        os.execv(sys.executable, [sys.executable, setup, *sys.argv[1:]])
    ours = ("--serialized-runtime-env-context=", "--language=")  # options of setup_worker.py
    options = [option for option in sys.argv[1:] if not option.startswith(ours)]
    request = {"argv": options, "env": dict(os.environ), "cwd": os.getcwd()}
    socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
    status = server.recv(100)
    os._exit(os.waitstatus_to_exitcode(int(status)) & 255 if status else 1)


if __name__ == "__main__" and PLACE in os.environ:
    stand_in()


# -- the server ----------------------------------------------------------------------------------------------------------

import contextlib  # noqa: E402  # the stand-in needs none of these
import functools  # noqa: E402
import gc  # noqa: E402
import random  # noqa: E402
import runpy  # noqa: E402
import select  # noqa: E402
import signal  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402
from unittest import mock  # noqa: E402


@functools.cache
def start_server() -> str:
    """Where it listens. It ends with this process, of which it holds the end of a pipe."""
    place = Path(tempfile.mkdtemp(prefix="warm_")) / "socket"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(place))
    listener.listen(64)
    alive, _ = os.pipe()
    command = [sys.executable, __file__, str(listener.fileno()), str(alive)]
    cool = {key: value for key, value in os.environ.items() if key != PLACE} | {"OMP_NUM_THREADS": "1"}
    subprocess.Popen(command, pass_fds=(listener.fileno(), alive), env=cool, cwd=Path(__file__).parents[1])
    listener.close(), os.close(alive)
    return str(place)


def use_warm_workers(place: str) -> None:
    """Every Ray that this process starts for itself from now on has workers from this server."""
    from marl.rollout import ray_instance

    os.environ[PLACE] = place
    plain = ray_instance.start_own_ray

    def start_own_ray(*arguments: Any, **options: Any) -> None:
        from ray._private.parameter import RayParams

        with mock.patch.object(RayParams, "update_if_absent", _with_our_setup(RayParams.update_if_absent)):
            plain(*arguments, **options)

    ray_instance.start_own_ray = start_own_ray


def _with_our_setup(plain: Any) -> Any:
    def update_if_absent(self: Any, **keywords: Any) -> None:
        if "setup_worker_path" in keywords:
            keywords["setup_worker_path"] = __file__
        plain(self, **keywords)

    return update_if_absent


def serve(listener: socket.socket, alive: int) -> None:
    """Fork for everybody who knocks; returns in the new workers. Ray itself is left to them: it reads the environment as it
    is loaded."""
    import torch

    import marl.rollout.async_pool
    import marl.rollout.ray_pool
    import marl.training.trainer  # noqa: F401

    torch.set_num_threads(1)
    gc.freeze()  # a collection would touch, and so copy, all pages that the workers share
    while True:
        ready, _, _ = select.select([listener, alive], [], [])
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if alive in ready:
            os._exit(0)
        client, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            return keep(client)
        client.close()


def keep(client: socket.socket) -> None:
    """Watch over a worker and its stand-in; returns in the worker."""
    words, descriptors, _, _ = socket.recv_fds(client, LARGEST_REQUEST, 3)
    pid = os.fork()
    if pid == 0:
        client.close()
        return settle(json.loads(words), descriptors)
    ended = os.pidfd_open(pid)
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    ready, _, _ = select.select([client, ended], [], [])
    if ended not in ready:
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    with contextlib.suppress(OSError):
        client.send(b"%d" % status)
    os._exit(0)


def settle(request: dict[str, Any], descriptors: list[int]) -> None:
    """Make this process what a new interpreter would be."""
    import numpy as np

    os.setsid()  # Ray ends a worker together with its process group, which must not be that of the tests
    for place, descriptor in enumerate(descriptors):
        os.dup2(descriptor, place)
        os.close(descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv = request["argv"]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    random.seed()
    np.random.seed()  # noqa: NPY002


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])
    serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
    runpy.run_path(sys.argv[0], run_name="__main__")
