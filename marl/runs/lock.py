"""One process at a time writes to a run directory: ``run.lock`` says which one. Within a process, one trainer does.

The file holds the process's number, its host and when it began. It is made in one step, so of two processes one wins. A
lock whose process is gone (killed, or its number was given to another process) counts for nothing and is taken over. Whether
a process of another host still runs cannot be seen from here, so its lock is respected until somebody deletes the file.
Who only reads a run needs no lock.
"""

from __future__ import annotations

import atexit
import errno
import gc
import json
import math
import os
import platform
import secrets
import stat
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

import psutil

from marl.errors import ConfigError, RunLockedError
from marl.runs.atomic import sync

LOCK = "run.lock"
LARGEST = 10_000  # bytes; a lock has about 200
SAME_START = 1.0  # seconds by which two readings of a process's start may differ
READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)


@dataclass(frozen=True)
class Holder:
    """Which process holds a lock; ``token`` tells two locks of one process apart."""

    pid: int
    hostname: str
    process_began: float
    since: float
    token: str

    @property
    def here(self) -> bool:
        """Whether it is a process of this host."""
        return self.hostname == platform.node()

    @property
    def running(self) -> bool:
        """Whether the very process runs on this host."""
        return self.here and is_running(self.pid, self.process_began)

    @property
    def is_this_process(self) -> bool:
        return self.running and self.pid == os.getpid()


class RunLock:
    """A lock that is held until ``release`` or the end of the process.

    Who forgets the object without releasing it writes no more, so this process may take the lock again; others may not,
    until the process ends.
    """

    def __init__(self, directory: Path, holder: Holder) -> None:
        self.directory, self.holder = directory, holder
        _in_use[holder.token], _to_release[holder.token] = self, (directory, holder)

    def release(self) -> None:
        """Let others write; what another process (or a later trainer of this one) holds by now stays."""
        _in_use.pop(self.holder.token, None)
        _release(self.holder.token)


_in_use: weakref.WeakValueDictionary[str, RunLock] = weakref.WeakValueDictionary()  # of this process, by their tokens
_to_release: dict[str, tuple[Path, Holder]] = {}  # the same ones, and those that were forgotten


@atexit.register
def _release_all() -> None:
    for token in list(_to_release):
        _release(token)


def _release(token: str) -> None:
    if token not in _to_release:
        return
    directory, holder = _to_release.pop(token)
    if holder.pid != os.getpid():  # a fork inherited the object, not the lock
        return
    # Whatever goes wrong here, the process is about to end or to go on elsewhere; a lock of a dead process counts for nothing.
    with suppress(OSError, RunLockedError), _one_at_a_time(directory):
        if holder_of(directory) == holder:
            (directory / LOCK).unlink(missing_ok=True)


def take_lock(directory: Path, patience: float = 0.0) -> RunLock:
    """Be the only process that writes to the directory (made if need be); waits ``patience`` seconds for another to end."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return _take(directory)
        except RunLockedError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.1)


def check_unlocked(directory: Path) -> None:
    """Refuse early what ``take_lock`` would refuse."""
    holder = holder_of(directory)
    if holder is None:
        return
    in_the_way = not holder.here or holder.running
    if holder.is_this_process:
        in_the_way = _is_in_use(holder.token)
    if in_the_way:
        raise _locked(directory, holder)


def clear_lock(directory: Path) -> None:
    """Take away a lock whose process is gone: on this host it counts for nothing, but other hosts cannot see that."""
    with suppress(OSError, RunLockedError), _one_at_a_time(directory):
        holder = holder_of(directory)
        if holder is None or not holder.here:
            return
        if not holder.running:
            (directory / LOCK).unlink(missing_ok=True)


def holder_of(directory: Path) -> Holder | None:
    """Who holds the lock, running or not; None without a lock."""
    file = directory / LOCK
    try:
        if not stat.S_ISREG(file.lstat().st_mode):  # reading a pipe would wait for ever
            raise _unreadable(file, "it is no ordinary file")
        with file.open("rb") as stream:
            content = json.loads(stream.read(LARGEST))
        began, since = float(content["process_began"]), float(content["since"])
        if not math.isfinite(began) or not math.isfinite(since):
            raise ValueError("a time is not finite")
        return Holder(int(content["pid"]), str(content["hostname"]), began, since, str(content["token"]))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise _unreadable(file, f"it does not say who holds it ({type(error).__name__})") from error


def is_running(pid: int, began: float) -> bool:
    """Whether this very process runs: numbers of processes are used again, and a killed one may still be listed."""
    try:
        process = psutil.Process(pid)
        # A zombie has ended; only its parent has not asked yet.
        return process.status() != psutil.STATUS_ZOMBIE and abs(process.create_time() - began) < SAME_START
    except psutil.AccessDenied:
        return True
    except (psutil.Error, ValueError, OverflowError):
        return False


def _take(directory: Path) -> RunLock:
    process = psutil.Process()
    mine = Holder(process.pid, platform.node(), process.create_time(), time.time(), secrets.token_hex(8))
    file = directory / LOCK
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with _one_at_a_time(directory):
            check_unlocked(directory)
            file.unlink(missing_ok=True)
            if not _create(file, json.dumps(asdict(mine)) + "\n"):
                check_unlocked(directory)  # another host was faster
                raise _unreadable(file, "it was written at this very moment")
    except OSError as error:
        raise _not_writable(directory, error) from error
    return RunLock(directory, mine)


def _is_in_use(token: str) -> bool:
    """Whether an object of this process still holds the lock."""
    if token in _in_use:
        gc.collect()  # a trainer and its parts refer to each other, so a forgotten one may not be gone yet
    return token in _in_use


@contextmanager
def _one_at_a_time(directory: Path) -> Iterator[None]:
    """Looking at a lock and replacing it is one step among the processes of this host."""
    try:
        import fcntl
    except ImportError:  # not on this system: only the creation of the file is one step
        yield
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without such locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _create(file: Path, content: str) -> bool:
    """Make the file with its content in one step; False where it is there already."""
    # Written aside and linked: whoever sees the lock sees all of it, also on a network's file system.
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(content, encoding="utf-8")
        sync(temporary)
        try:
            os.link(temporary, file)
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links
            with file.open("x", encoding="utf-8") as stream:
                stream.write(content)
    except FileExistsError:
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _not_writable(directory: Path, error: OSError) -> ConfigError:
    if error.errno in READ_ONLY and directory.is_dir():
        return ConfigError(
            f"the run directory {directory} is read-only for you ({error.strerror}). Go on elsewhere with --local-dir DIR, "
            "or get the right to write there."
        )
    return ConfigError(
        f"cannot write into the run directory {directory}: {error.strerror or error}. Check free space and permissions "
        "there, or choose another place with --local-dir DIR."
    )


def _locked(directory: Path, holder: Holder) -> RunLockedError:
    if holder.is_this_process:
        return RunLockedError(
            f"{directory} is in use: another Trainer of this program writes there, and two would mix their results. Call "
            "stop() on it first, or use another directory."
        )
    # A file may say anything; what is no time of a calendar would be an error here.
    moment = min(max(holder.since, 0.0), 4e9)
    since = datetime.fromtimestamp(moment).isoformat(" ", "seconds")
    who = (
        f"{directory} is in use: process {holder.pid} on host {holder.hostname!r} has been writing to it since {since}"
    )
    if holder.here:
        return RunLockedError(
            f"{who}. Two processes would destroy each other's results. Wait for it, stop it by Ctrl-C or `kill {holder.pid}` "
            "(it saves a checkpoint), or use another place: --local-dir DIR."
        )
    return RunLockedError(
        f"{who}, and from this host ({platform.node()!r}) it cannot be seen whether it still runs. Stop it there. If it is "
        f"gone for sure, delete {directory / LOCK} and try again."
    )


def _unreadable(file: Path, why: str) -> RunLockedError:
    return RunLockedError(
        f"{file} should say which process writes to this run, but {why}. If no process does, delete it and try again."
    )
