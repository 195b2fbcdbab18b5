"""The Ray of a run: one that is there already, a cluster that the user names, or one of its own.

A Ray of our own is nobody else's. It is started on this machine whatever else runs there (``RAY_ADDRESS`` and other clusters
are not looked at), all of its ports are on loopback, every call needs a token that is drawn for it, and its files are in a
folder that only this user can enter and that is removed at the end. Ray is imported inside functions only.
"""

from __future__ import annotations

import logging
import math
import os
import secrets
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marl.errors import RayLostError, ResourceError
from marl.rollout.config import RolloutConfig
from marl.rollout.ray_watch import LAST_WORDS, RayWatch

LOOPBACK = "127.0.0.1"
WAIT_S = 1.0  # between two looks whether Ray still lives
LONGEST_PARENT = 40  # letters; the paths of sockets, which may have 107, begin with it
log = logging.getLogger(__name__)


@dataclass
class OwnRay:
    """The Ray that this process has started."""

    folder: Path
    watch: RayWatch
    keep: bool = False  # its logs are of interest after the end


_own: OwnRay | None = None


def start_ray(config: RolloutConfig, more_cpus: int = 0) -> bool:
    """Use the Ray that this process knows, join the cluster at ``config.address``, or start a Ray of our own with room for the
    workers and ``more_cpus``. True: it is ours to stop, by ``stop_ray``."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    talks = config.log_level in ("DEBUG", "INFO")  # the workers' lines come to this process
    import ray

    ours = not ray.is_initialized()
    if ours and config.address not in (None, "local"):
        _join(str(config.address), talks)
    elif ours:
        start_own_ray(cpus_to_start_with(config, more_cpus), log_to_driver=talks)
    try:
        _check_resources(config, ray.cluster_resources())
    except ResourceError:
        if ours:
            stop_ray()
        raise
    return ours


def cpus_to_start_with(config: RolloutConfig, more_cpus: int) -> int:
    """As many as the user says; otherwise those of the machine, or more if the workers and ``more_cpus`` need more."""
    if config.ray_num_cpus:
        return config.ray_num_cpus
    needed = math.ceil(config.num_workers * config.num_cpus_per_worker) + more_cpus
    return max(needed, os.cpu_count() or 1)


def start_own_ray(num_cpus: int, **options: Any) -> None:
    """A Ray on this machine for this process alone; ``options`` are those of ``ray.init``."""
    global _own
    import ray

    if _own is not None:  # somebody shut Ray down without us
        stop_ray()
    folder = Path(tempfile.mkdtemp(prefix="marl_ray_", dir=_temporary()))  # mode 700
    try:
        with _token(folder), _on_loopback(), _own_handlers():
            ray.init(
                address="local",
                num_cpus=num_cpus,
                include_dashboard=False,
                logging_level="ERROR",
                _node_ip_address=LOOPBACK,
                _temp_dir=str(folder / "r"),  # Ray opens this folder to everybody, but not the one around it
                _system_config={"worker_niceness": _worker_niceness()},
                **options,
            )
    except Exception as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise ResourceError(
            f"Ray could not be started on this machine: {first_line(error)}. Use num_workers: 0 to run without it."
        ) from error
    _own = OwnRay(folder, RayWatch(folder, _hush))
    log.info("started Ray with %g CPUs", ray.cluster_resources().get("CPU", 0))
    if (address := ray.util.get_node_ip_address()) not in (LOOPBACK, "::1"):
        log.warning("Ray listens on %s instead of loopback; calls to it need its token.", address)


def stop_ray() -> None:
    """Leave the cluster, or end our own Ray with all its processes and files."""
    global _own
    import ray

    if _own is None:
        ray.shutdown()
        return
    try:
        _own.watch.close(ray.shutdown)
        (_own.folder / "token").unlink(missing_ok=True)
        if not _own.keep:
            shutil.rmtree(_own.folder, ignore_errors=True)
        _forget_token()
    finally:
        _own = None


# -- calls that end when Ray has died ------------------------------------------------------------------------------------


def check_ray() -> None:
    """Refuse to go on with a Ray that has died: its next call would end this process without a word."""
    if _own is not None and _own.watch.lost:
        raise RayLostError(
            f"Ray's {_own.watch.lost} process died (killed, or out of memory), so no worker can be reached any more. "
            f"Checkpoints are complete: a run goes on from its last one. Ray's logs: {keep_logs()}"
        )


def ray_is_lost() -> bool:
    return _own is not None and bool(_own.watch.lost)


def get(reference: Any, timeout: float | None = None) -> Any:
    """``ray.get`` that does not wait for a Ray that has died."""
    import ray

    end = math.inf if timeout is None else time.monotonic() + timeout
    while True:
        check_ray()
        left = end - time.monotonic()
        try:
            return ray.get(reference, timeout=max(0.0, min(left, WAIT_S)))
        except ray.exceptions.GetTimeoutError:
            if left <= WAIT_S:
                raise
        except ray.exceptions.RayError:
            check_ray()
            raise


def put(value: Any) -> Any:
    """``ray.put`` into the store of a Ray that lives."""
    import ray

    check_ray()
    return ray.put(value)


def wait_for_one(references: list[Any]) -> list[Any]:
    """The calls that have ended when the first one has."""
    import ray

    ended: list[Any] = []
    while not ended:
        check_ray()
        ended, _ = ray.wait(references, num_returns=1, timeout=WAIT_S)
    return ended


def keep_logs() -> str:
    """Where Ray's logs are, which from now on survive the end of our own Ray."""
    if _own is None:
        return "in the folder of Ray's session"
    _own.keep = True
    return str((_own.folder / "r" / "session_latest").resolve() / "logs")


def say_if_ray_dies(words: str = LAST_WORDS, by_force: bool = False) -> None:
    """What is said where Ray's death ends this process before it can say anything. ``by_force``: a process that has not
    reacted half a minute after the death is ended."""
    if _own is not None:
        _own.watch.say(words)
        _own.watch.by_force = by_force


def _worker_niceness() -> int:
    """By how much the priority of workers is lower than ours. Ray's own 15 is for clusters that many share: on a machine of
    our own, agents that Ray starts beside the workers would take the processors from them for the first ten seconds."""
    wanted = os.environ.get("RAY_worker_niceness", "")  # noqa: SIM112  # so Ray spells it
    return int(wanted) if wanted.isdigit() else 0


# -- how our own Ray is shut off -----------------------------------------------------------------------------------------


def _temporary() -> str:
    """Where Ray's folder goes: sockets have short paths only, which the temporary folders of some systems do not leave."""
    wanted = os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()
    return wanted if len(wanted) <= LONGEST_PARENT else "/tmp"


@contextmanager
def _token(folder: Path) -> Iterator[None]:
    """While Ray starts, its processes are told where their token is; then this environment is as it was before."""
    file = folder / "token"
    file.touch(mode=0o600)
    file.write_text(secrets.token_hex(32), encoding="ascii")
    changes = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(file),
        "RAY_AUTH_TOKEN": None,
        "RAY_ADDRESS": None,  # of another cluster
    }
    before = {key: os.environ.get(key) for key in changes}
    _set_environment(changes)
    _forget_token()
    try:
        yield
    finally:
        _set_environment(before)


def _set_environment(values: Mapping[str, str | None]) -> None:
    for key, value in values.items():
        if value is None:
            os.environ.pop(key, None)
        else:
            os.environ[key] = value


def _forget_token() -> None:
    """Ray remembers mode and token of its last start; the mode first, or a thread that still ends would miss the token."""
    import ray

    core: Any = ray._raylet
    core.Config.initialize("")
    core.AuthenticationTokenLoader.instance().reset_cache()


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Ray replaces a loopback address by that of the machine, except where it takes itself for a Ray without clusters
    (RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0, read when Ray is imported)."""
    from ray._private import ray_constants

    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


@contextmanager
def _own_handlers() -> Iterator[None]:
    """Ray ends a driver on SIGTERM by ``sys.exit(15)``, without a word; here SIGTERM ends a run as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():  # Ray sets no handlers either
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is not before:
            signal.signal(signal.SIGTERM, _interrupt if before in (signal.SIG_DFL, None) else before)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _hush() -> None:
    """Of a raylet that died, Ray's agents send pages of logs to the driver, where a thread of Ray's prints them."""
    from ray._private import worker

    loud = worker.print_to_stdstream

    def quiet(data: Mapping[str, Any], **options: Any) -> None:
        if not ray_is_lost():  # another Ray was started meanwhile
            loud(data, **options)

    worker.print_to_stdstream = quiet


# -- clusters of others --------------------------------------------------------------------------------------------------


def _join(address: str, talks: bool) -> None:
    import ray

    _knock(address)
    try:
        with _own_handlers():
            ray.init(address=address, log_to_driver=talks, logging_level="ERROR")
    except Exception as error:
        raise ResourceError(
            f"cannot join the Ray cluster at {address!r}: {first_line(error)}. Start one with `ray start --head`, or drop "
            "`address` for a Ray of the run's own."
        ) from error


def _knock(address: str) -> None:
    """Ray itself would try for minutes to reach a cluster that is not there."""
    where = _found() if address == "auto" else address
    host, _, port = where.rpartition(":")
    if not port.isdigit() or "/" in where:
        return
    shown = repr(address) if where == address else f"{where!r} (found by address: {address})"
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise ResourceError(
            f"no Ray cluster answers at {shown} ({error}). Start one with `ray start --head`, or drop `address` for a Ray of "
            "the run's own."
        ) from error


def _found() -> str:
    """Where ``auto`` leads: RAY_ADDRESS, or what the last `ray start` on this machine noted."""
    from ray._private.utils import read_ray_address

    return os.environ.get("RAY_ADDRESS") or read_ray_address() or ""


def _check_resources(config: RolloutConfig, there: Mapping[str, float]) -> None:
    """Refuse a request that can never fit instead of waiting for ever."""
    per_worker = {
        "CPU": config.num_cpus_per_worker, "GPU": config.num_gpus_per_worker, **config.custom_resources_per_worker,
    }  # fmt: skip
    short = [
        f"{config.num_workers} workers x {amount:g} {name} = {config.num_workers * amount:g}, but there is "
        f"{there.get(name, 0):g}"
        for name, amount in per_worker.items()
        if config.num_workers * amount > there.get(name, 0)
    ]
    if short:
        raise ResourceError(
            f"the run can never start: {'; '.join(short)}. Ask for less, or join a larger cluster by `address`."
        )


def first_line(error: object) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
