"""How much memory there is: of the machine, of the container (cgroup), and of the process's own limit."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from pathlib import Path

import psutil

CGROUPS = Path("/sys/fs/cgroup")
RECLAIMABLE = ("inactive_file", "active_file", "slab_reclaimable")
LIMIT_AND_USE = (
    ("memory.max", "memory.current"),  # version 2
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),  # version 1
)
_V1_UNLIMITED = 1 << 60  # version 1 says "no limit" by a number near 2 ** 63


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as in glibc's malloc.h
KEPT_FREE = 256 * 2**20  # bytes of freed memory that the process may keep
LARGEST_KEPT = 32 * 2**20  # bytes; the most that glibc takes


def keep_freed_memory() -> bool:
    """Let this process keep what it has freed instead of giving it back to the system; False where that cannot be said.

    A minibatch of thousands of rows frees and takes megabytes again a thousand times a second, and each time the kernel would
    have to clear the pages anew. The most that a process uses stays the same.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt  # of glibc; other C libraries and systems have none
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(_TRIM_THRESHOLD, KEPT_FREE) and mallopt(_MMAP_THRESHOLD, LARGEST_KEPT))


def free_memory() -> int:
    """Bytes that could still be taken: the least of what the machine, every cgroup above this process and ulimit -v leave."""
    left = [psutil.virtual_memory().available]
    left += _left_in_cgroups()
    left += _left_by_ulimit()
    # More than the limit may be in use: limits can be lowered while a process runs.
    return max(0, min(left))


def in_words(size: float) -> str:
    """``3.2 GB``; units of 1000."""
    if size < 1000:
        return f"{size:,.0f} bytes"
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 1000:
            return f"{size:,.1f} {unit}"
    return f"{size / 1000:,.1f} TB"


def _left_in_cgroups() -> list[int]:
    """What the limits of this process's cgroup and of those above it leave; caches of files do not count as used."""
    left = []
    for folder in _own_cgroups():
        for limit_name, used_name in LIMIT_AND_USE:
            limit, used = _number(folder / limit_name), _number(folder / used_name)
            if limit is None or used is None or limit >= _V1_UNLIMITED:
                continue
            needed = max(0, used - _cached(folder))
            left.append(limit - needed)
    return left


def _own_cgroups() -> list[Path]:
    """The folders of this process's cgroup and all above it; versions 1 and 2."""
    folders = [CGROUPS, CGROUPS / "memory"]
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            # Version 2 names no controller; of version 1 only the hierarchy of memory counts.
            if controllers not in ("", "memory"):
                continue
            root = CGROUPS / controllers
            folder = root / path.lstrip("/")
            while root in folder.parents:
                folders.append(folder)
                folder = folder.parent
    return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]


def _number(file: Path) -> int | None:
    """The number in a file; None where it says ``max`` or is not there."""
    with suppress(OSError, ValueError):
        return int(file.read_text())
    return None


def _cached(folder: Path) -> int:
    """Bytes that the kernel takes back when memory is short: pages of files, and what it remembers of folders and the like."""
    found: dict[str, int] = {}
    with suppress(OSError, ValueError):
        for line in (folder / "memory.stat").read_text().splitlines():
            name, _, value = line.partition(" ")
            found[name] = int(value)
    cached = 0
    for name in RECLAIMABLE:
        # Version 1 counts a cgroup alone, and with those below it (total_), as its usage does.
        cached += found.get(f"total_{name}", found.get(name, 0))
    return cached


def _left_by_ulimit() -> list[int]:
    """What a limit of the address space (``ulimit -v``) leaves."""
    try:
        import resource
    except ImportError:  # not a Unix
        return []
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return []
    return [limit - psutil.Process().memory_info().vms]
