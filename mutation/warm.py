"""A process that has imported everything but the project, and forks a child for each order to run tests.

``python -m mutation.warm numpy torch`` reads orders as JSON lines and answers each with one line. A child imports the project
as it lies on the disk at that moment, which costs a fraction of a second instead of several.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

MEMORY = 8 * 2**30  # bytes; a mutant that grows a list for ever ends here
TIMES_SLOWER = 10.0  # a test that needs more than this many times its usual CPU time hangs in a loop


@dataclass
class Order:
    """Run these tests; ``seconds`` is the CPU time that each took before, ``wall`` ends a child that only waits."""

    tests: list[str]
    report: str
    wall: float
    seconds: dict[str, float] = field(default_factory=dict)
    record: list[str] = field(default_factory=list)  # folders whose executed lines are written down
    patience: float = 6.0  # CPU seconds that every test may take, however quick it was


def main() -> None:
    for name in sys.argv[1:]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(_run_apart(Order(**json.loads(line)))), flush=True)


def _run_apart(order: Order) -> dict[str, Any]:
    """Fork, wait, and say how the child ended: an exit code of pytest, or minus the signal that ended it."""
    began = time.monotonic()
    Path(order.report).unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        _be_the_child(order)
    code = _wait_for(child, began + order.wall)
    return {"code": code, "wall": time.monotonic() - began}


def _wait_for(child: int, deadline: float) -> int:
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # what the child has started and left behind
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return -signal.SIGALRM
        time.sleep(0.02)


def _be_the_child(order: Order) -> None:
    os.setsid()
    code = 3
    try:
        _be_quiet(Path(order.report).with_suffix(".txt"))
        sys.dont_write_bytecode = not order.record  # a mutant's compiled form must not outlive it
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        plugin: Any = _Watch(order)
        if order.record:
            from mutation.record import Recorder

            plugin = Recorder(order.record, order.report)
        options = ["-q", "-p", "no:cacheprovider", "--no-header", "--tb=short"]
        code = int(pytest.main([*options, *([] if order.record else ["-x"]), *order.tests], plugins=[plugin]))
        plugin.write()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _be_quiet(file: Path) -> None:
    said = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(said, 1)
    os.dup2(said, 2)


class _Watch:
    """A pytest plugin: ends the process when a test uses far more CPU time than before, and remembers which test failed."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.failed = ""
        self.passed = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.failed = item.nodeid  # should the process die, this is where
        self.write()
        usual = self.order.seconds.get(item.nodeid, 1.0)
        signal.setitimer(signal.ITIMER_PROF, max(self.order.patience, TIMES_SLOWER * usual))
        try:
            result = yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = report.nodeid
            self.write()
            self.write = lambda: None  # type: ignore[method-assign]
        elif report.when == "call":
            self.passed += 1
            self.failed = ""

    def write(self) -> None:
        Path(self.order.report).write_text(json.dumps({"failed": self.failed, "passed": self.passed}), encoding="utf-8")


def ordered(order: Order) -> str:
    """The line that asks for it."""
    return json.dumps(asdict(order)) + "\n"


if __name__ == "__main__":
    main()
