"""``pytest -p tools.quick_coverage``: which lines of the package the quick tests execute; a report, no limit.

Tests that are marked ``slow`` or ``ray`` run unmeasured, because tracing makes Python slower (docs/testing.md has figures),
and so do processes that tests start. Every test process writes what it saw to ``build/coverage``; the one that prints puts it
together. ``--coverage-html`` also writes pages of all files, with their lines, to ``build/coverage/html``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from coverage import Coverage

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "coverage"
PACKAGE = ROOT / "marl"
UNMEASURED = ("slow", "ray")


class QuickCoverage:
    """Measures while quick tests run, and while modules are imported."""

    def __init__(self, folder: Path, package: Path, measures: bool) -> None:
        self.folder = folder
        self.package = package
        self.measures = measures  # not the process that only hands tests out
        folder.mkdir(parents=True, exist_ok=True)
        self.coverage = _coverage(folder, package, own_file=True)
        if measures:
            self.coverage.start()
            import_module(package.name)  # coverage.py cannot save a measurement without a single line

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        if not self.measures or not any(item.get_closest_marker(name) for name in UNMEASURED):
            return (yield)
        self.coverage.stop()
        try:
            return (yield)
        finally:
            self.coverage.start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Writes the file before a process of xdist says that it is done."""
        if self.measures:
            self.coverage.stop()
            self.coverage.save()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        if hasattr(
            config, "workerinput"
        ):  # a process of xdist, whose output goes nowhere: the others are still at work
            return
        together = _coverage(self.folder, self.package, own_file=False)
        together.combine()
        rows = rooms(together, self.package)
        terminalreporter.section("coverage of the quick tests")
        for name, (executed, lines) in rows.items():
            terminalreporter.write_line(
                f"{name:<16} {executed:>6} of {lines:>6} lines  {executed / max(1, lines):6.1%}"
            )
        if config.getoption("coverage_html"):
            together.html_report(directory=str(self.folder / "html"))
            terminalreporter.write_line(f"pages: {self.folder / 'html' / 'index.html'}")


def _coverage(folder: Path, package: Path, own_file: bool) -> Coverage:
    """With a file of its own for each process, or with the one file of all."""
    return Coverage(str(folder / "data"), data_suffix=own_file or None, source=[str(package)], config_file=False)


def rooms(coverage: Coverage, package: Path) -> dict[str, tuple[int, int]]:
    """Executed lines and all lines of every folder of the package, of the files beside them, and of all."""
    found: dict[str, tuple[int, int]] = {}
    for file in sorted(package.rglob("*.py")):
        _, statements, _, missing, _ = coverage.analysis2(str(file))
        inside = file.relative_to(package).parts
        room = f"{package.name}/{inside[0]}" if len(inside) > 1 else f"{package.name}/*.py"
        for name in (room, "all"):
            executed, lines = found.get(name, (0, 0))
            found[name] = executed + len(statements) - len(missing), lines + len(statements)
    total = found.pop("all", (0, 0))
    return {**dict(sorted(found.items())), "all": total}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--coverage-html", action="store_true", help="Also write pages of all files to build/coverage/html."
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before conftest files, which import the package."""
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    hands_out = bool(getattr(early_config.known_args_namespace, "numprocesses", 0)) and not is_worker
    if not is_worker:
        forget(FOLDER)
    plugin = QuickCoverage(FOLDER, PACKAGE, measures=not hands_out)
    early_config.pluginmanager.register(plugin, "quick_coverage")


def forget(folder: Path) -> None:
    """Removes what an earlier run has left."""
    for file in folder.glob("data*"):
        file.unlink()
