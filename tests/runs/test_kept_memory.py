"""Freed memory stays with the process, where the C library can be told so."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys

import pytest

from marl.memory import keep_freed_memory

PROGRAM = """
import resource, torch
from marl.memory import keep_freed_memory
assert keep_freed_memory()
torch.set_num_threads(1)  # as marl's processes have it; threads keep heaps of their own
x = torch.ones(2**20)
for _ in range(5):  # the process grows once
    torch.exp(x * 2)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    torch.exp(x * 2)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told what to do with freed memory")
def test_memory_that_is_freed_and_taken_again_is_not_cleared_by_the_system_each_time() -> None:
    # In a process of its own: what other tests have left in the heap decides where the next 4 MB are found.
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 10_240  # 40 times 4 MB are 40,960 pages; one or two times nothing may be at hand


def test_where_the_library_has_no_such_function_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert keep_freed_memory() is False
