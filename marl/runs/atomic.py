"""Folders (and files, see ``marl.storage``) that are either old or new, never half: written beside their place, then renamed.

Temporary folders are called ``.NAME.PID.marl-tmp``: hidden, and the next write knows whether the process
that made one still lives. An older folder that had to step aside is ``.NAME.PID.marl-old`` for a moment.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
from pathlib import Path

import psutil

from marl.storage import sync as sync
from marl.storage import write_atomically as write_atomically

_LEFTOVER = re.compile(r"\.(?P<name>.+)\.(?P<pid>\d+)\.marl-(?P<kind>tmp|old)", re.ASCII)
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # Linux: <fcntl.h>, <linux/fs.h>


def temporary_beside(folder: Path, kind: str = "tmp") -> Path:
    """A hidden name in the same parent, hence on the same file system; nothing is created."""
    return folder.with_name(f".{folder.name}.{os.getpid()}.marl-{kind}")


def put_in_place(temporary: Path, folder: Path) -> None:
    """Give a finished folder its name; an older one of that name may end up under the temporary name."""
    sync(temporary)
    if not os.path.lexists(folder):
        os.rename(temporary, folder)
    elif not _exchange(temporary, folder):
        aside = temporary_beside(folder, "old")
        os.rename(folder, aside)
        os.rename(temporary, folder)
        remove(aside)
    sync(folder.parent)


def remove(path: Path) -> None:
    """Delete a folder or a link, if it is there; what cannot be deleted stays for ``clear_leftovers``."""
    if path.is_symlink():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path, ignore_errors=True)


def clear_leftovers(parent: Path) -> None:
    """Delete what killed writes left in ``parent``; a folder set aside without a successor comes back."""
    for entry in list(parent.iterdir()):
        match = _LEFTOVER.fullmatch(entry.name)
        if match is None:
            continue
        if _is_being_written(entry, int(match["pid"])):
            continue
        original = parent / match["name"]
        # Killed between the two renames of `put_in_place`: the old folder is the only one there is.
        if match["kind"] == "old" and not original.exists():
            os.rename(entry, original)
        else:
            remove(entry)


def _is_being_written(entry: Path, pid: int) -> bool:
    """Whether its process lives; a process younger than the entry only inherited the number."""
    try:
        return psutil.Process(pid).create_time() <= entry.lstat().st_mtime
    except (psutil.Error, FileNotFoundError):
        return False


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step; False where the system or the file system cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    result: int = renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    return result == 0
