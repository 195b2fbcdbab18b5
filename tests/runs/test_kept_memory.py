"""Freed memory stays with the process, where the C library can be told so."""

from __future__ import annotations

import ctypes
import platform
import resource

import pytest
import torch

from marl.memory import keep_freed_memory


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told what to do with freed memory")
def test_memory_that_is_freed_and_taken_again_is_not_cleared_by_the_system_each_time() -> None:
    assert keep_freed_memory()
    x = torch.ones(2**20)
    for _ in range(5):  # the process grows once
        torch.exp(x * 2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.exp(x * 2)
    pages = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    # 40 times 4 MB are 40,960 pages. Not none: systems take pages back that were idle for a while.
    assert pages < 10_240


def test_where_the_library_has_no_such_function_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert keep_freed_memory() is False
