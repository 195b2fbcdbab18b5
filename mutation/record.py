"""Which test executes which lines: a pytest plugin that asks coverage.py, one file per test file."""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import coverage
import pytest

from mutation.units import unit_at

SHARED = "*"  # the context of fixtures that serve a whole file


class Recorder:
    """Notes executed lines and CPU time of every test that passes."""

    def __init__(self, rooms: Sequence[str], report: str) -> None:
        self.report = report
        self.coverage = coverage.Coverage(data_file=None, config_file=False, source=[*map(os.path.abspath, rooms)])
        self.coverage.start()
        self.seconds: dict[str, float] = {}
        self.passed: set[str] = set()
        self.caches: list[Any] = []

    def pytest_collection_finish(self) -> None:
        """A cached answer hides who needs the code behind it, so caches are emptied before every test."""
        for name, module in list(sys.modules.items()):
            if name.split(".")[0] in ("marl", "tests"):
                things = list(vars(module).values())
                self.caches += [
                    thing for thing in things if hasattr(thing, "cache_clear") and not isinstance(thing, type)
                ]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        for cached in self.caches:
            cached.cache_clear()
        self.coverage.switch_context(item.nodeid)
        before = _cpu_seconds()
        result = yield
        self.seconds[item.nodeid] = _cpu_seconds() - before
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: pytest.FixtureRequest) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        self.coverage.switch_context(SHARED)
        try:
            result = yield
        finally:
            self.coverage.switch_context(request._pyfuncitem.nodeid)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.passed.add(report.nodeid)
        elif report.failed:
            self.passed.discard(report.nodeid)

    def write(self) -> None:
        self.coverage.stop()
        keys: dict[str, str] = {}
        lines: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        data = self.coverage.get_data()
        for file in data.measured_files():
            path = os.path.relpath(file)
            text = Path(file).read_text(encoding="utf-8")
            for line, contexts in data.contexts_by_lineno(file).items():
                unit = unit_at(text, path, line)
                keys[unit.name] = unit.key
                for context in contexts:
                    lines[context][unit.name].append(line - unit.first)
        found = {"keys": keys, "shared": lines.get(SHARED, {}), "tests": self._tests(lines)}
        Path(self.report).write_text(json.dumps(found, separators=(",", ":")), encoding="utf-8")

    def _tests(self, lines: dict[str, dict[str, list[int]]]) -> dict[str, Any]:
        found = {}
        for test in sorted(self.passed):
            units = {unit: sorted(offsets) for unit, offsets in lines.get(test, {}).items()}
            found[test] = {"seconds": max(0.01, round(self.seconds.get(test, 0.0), 3)), "units": units}
        return found


def _cpu_seconds() -> float:
    """Of this process and of those that it has waited for."""
    return sum(os.times()[:4])
