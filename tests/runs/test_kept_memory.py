"""Freed memory stays with the process, where the C library can be told so."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys

import pytest

from marl.memory import keep_freed_memory

PROGRAM = """
import ctypes, resource
from marl.memory import keep_freed_memory

assert keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.memset.argtypes, libc.free.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t], [ctypes.c_void_p]
size = 24 * 2**20  # three are more than glibc keeps by itself, which is twice the largest block that was freed


def take_and_free():
    blocks = [libc.malloc(size) for _ in range(3)]
    for block in blocks:
        libc.memset(block, 1, size)
    for block in blocks:
        libc.free(block)


for _ in range(3):  # the process grows once
    take_and_free()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    take_and_free()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told what to do with freed memory")
def test_memory_that_is_freed_and_taken_again_is_not_cleared_by_the_system_each_time() -> None:
    # In a process of its own: what other tests have left in the heap decides where the next megabytes are found.
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 18_432  # pages of a single round


def test_where_the_library_has_no_such_function_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert keep_freed_memory() is False
