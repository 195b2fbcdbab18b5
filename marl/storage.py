"""Writing files so that a full disk costs nothing but the write: everything that marl writes goes through here.

A file is written beside its place and renamed, so a failure leaves the old one; an appended line is there whole or not at all.
Whatever the system says against a write (no space, a quota, a folder that may not be written to) becomes a ``StorageError``.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from marl.errors import StorageError


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """Within this block ``path`` is written: an ``OSError`` becomes a ``StorageError`` with the place."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise storage_error(path, error) from error


def storage_error(path: Path, error: OSError) -> StorageError:
    """What the system said against writing ``path``, and the remedy."""
    said = error.strerror or str(error).partition("\n")[0]
    return StorageError(
        f"cannot write {path}: {said}{_free_there(path)}. Free some space, check quota and permissions there, or choose "
        "another place."
    )


def _free_there(path: Path) -> str:
    """`` (12 MB are free there)``, of the nearest folder that exists."""
    place = next((folder for folder in path.absolute().parents if folder.is_dir()), Path("/"))
    with suppress(OSError):
        free = shutil.disk_usage(place).free
        return f" ({free / 1e6:,.0f} MB are free there)"
    return ""


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replace the file's content (text as UTF-8); readers see all of the old or all of the new, also after a failure."""
    temporary = path.with_name(f".{path.name}.tmp")  # in the same folder, hence on the same file system
    with storing(path):
        try:
            with open(temporary, "wb", opener=_open_file) as file:
                file.write(_as_bytes(content))
                file.flush()
                # Before the rename: else a loss of power may leave the new name without content.
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError:
            with suppress(OSError):  # give back what little space it took
                temporary.unlink(missing_ok=True)
            raise
        sync(path.parent)


def append_to(path: Path, content: str | bytes) -> None:
    """Add to the end of a file, all of it or nothing."""
    # Without a buffer, so that a failure is heard here and not when the file is closed.
    with storing(path), open(path, "ab", buffering=0, opener=_open_file) as file:
        size = os.fstat(file.fileno()).st_size
        data = memoryview(_as_bytes(content))
        try:
            while data:
                data = data[file.write(data) or 0 :]  # the system may take a part of it
        except OSError:
            with suppress(OSError):
                os.ftruncate(file.fileno(), size)
            raise


def _as_bytes(content: str | bytes) -> bytes:
    if isinstance(content, str):
        return content.encode()
    return content


def _open_file(path: str, flags: int) -> int:
    """Without waiting for anybody, as opening a FIFO would, and without following a link that somebody put there."""
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0), 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError("it is no regular file")
    return descriptor


def sync(path: Path) -> None:
    """Wait until the file, or the folder's list of names, is on the disk.

    Windows cannot open a folder, and waits only for files that are open for writing; its lists of names are journalled.
    """
    is_unix = hasattr(os, "O_DIRECTORY")
    if path.is_dir() and not is_unix:
        return
    descriptor = os.open(path, os.O_RDONLY if is_unix else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: Path) -> None:
    """The folder and those above it, unless they are there."""
    with storing(path):
        path.mkdir(parents=True, exist_ok=True)
