"""The command line within this process: what is printed and the exit code, as a process would give them."""

from __future__ import annotations

import io
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import NamedTuple
from unittest import mock

from marl.cli import main


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.startswith("error: ")]


def marl(*arguments: object) -> Done:
    """``marl ARGUMENTS``; an exception that leaves the command is one that the user would see as a traceback."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), mock.patch.object(sys, "argv", ["marl", *map(str, arguments)]):
        try:
            main()
        except SystemExit as end:
            return Done(
                end.code if isinstance(end.code, int) else int(end.code is not None), out.getvalue(), err.getvalue()
            )
    return Done(0, out.getvalue(), err.getvalue())


@contextmanager
def disk_for(size: int) -> Iterator[None]:
    """No file of this process may grow beyond ``size`` bytes: writes fail as they do on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
