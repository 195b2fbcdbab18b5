"""One mutant: choose its tests, put it into the copy, run them, take it out again."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from mutation.lines import DESCRIBING, Lines
from mutation.places import Places
from mutation.results import Result, result_of
from mutation.sites import Mutant
from mutation.workshop import Workshop

MOST_TESTS = 150
QUICK = 0.7  # CPU seconds; quick tests come first
WAITING = 20.0  # a child may take this many times the CPU seconds of its tests, on a busy machine
NO_TESTS_RAN = 5


def judge(
    mutant: Mutant, places: Places, lines: Lines, workshop: Workshop, budget: float, distrusted: Collection[str] = ()
) -> Result:
    """Run the tests that execute the mutant's lines until one fails; ``budget`` in CPU seconds, as recorded."""
    tests = choose_tests(mutant, lines, budget, distrusted)
    if not tests:
        return result_of(mutant, "no tests", "", 0, 0.0)
    seconds = {test: lines.seconds[test] for test in tests}
    with applied(mutant, places):
        answer = workshop.run(tests, wall=60.0 + WAITING * sum(seconds.values()), seconds=seconds)
    outcome, by = _outcome(answer["code"]), answer.get("failed", "")
    if outcome == "killed" and not by and workshop.run(["--collect-only", *tests], wall=300.0)["code"] != 0:
        outcome = "no tests"  # they cannot be read, with or without the mutant
    return result_of(mutant, outcome, by, len(tests), answer["wall"])


def _outcome(code: int) -> str:
    if code == 0:
        return "survived"
    if code == NO_TESTS_RAN:
        return "no tests"
    return "timeout" if code in (-signal.SIGPROF, -signal.SIGALRM) else "killed"


def choose_tests(mutant: Mutant, lines: Lines, budget: float, distrusted: Collection[str] = ()) -> list[str]:
    """Tests of the mutant's lines within the budget: near and quick ones first, file by file."""
    found = lines.tests(mutant.unit, mutant.unit_key, mutant.offsets) - set(distrusted)
    siblings: Counter[str] = Counter()
    costs: dict[str, float] = {}
    for test in sorted(found, key=lambda test: (lines.seconds[test], test)):
        function = test.split("[")[0]
        # The tenth example of one test function tells less than the first one of another.
        costs[test] = (lines.seconds[test] + 0.05) * _distance(test, mutant.path) * (1 + siblings[function] / 3)
        siblings[function] += 1
        if test.startswith(DESCRIBING):  # quick, and the only ones that look at defaults, one by one
            costs[test] = 0.0
    chosen: list[str] = []
    spent = 0.0
    for test in sorted(costs, key=lambda test: (costs[test], test))[:MOST_TESTS]:
        if chosen and spent + lines.seconds[test] > budget:
            continue
        chosen.append(test)
        spent += lines.seconds[test]
    quick = [test for test in chosen if lines.seconds[test] <= QUICK]
    return [*_by_file(quick), *_by_file([test for test in chosen if lines.seconds[test] > QUICK])]


def _distance(test: str, path: str) -> float:
    """Small for a test file that bears the module's name, compares with recorded numbers, or lies in the room's folder."""
    _, room, *inner = Path(path).with_suffix("").parts
    file = test.split("::")[0]
    name = file.rsplit("/", 1)[-1]
    if any(part in name for part in inner if len(part) > 3):
        return 1.0
    if "/golden/" in file:
        return 1.5
    return 2.0 if f"/{room}/" in file else 4.0


def _by_file(tests: list[str]) -> list[str]:
    """Keep the tests of a file together: a file's shared fixtures are built once."""
    files = list(dict.fromkeys(test.split("::")[0] for test in tests))
    return sorted(tests, key=lambda test: files.index(test.split("::")[0]))


@contextmanager
def applied(mutant: Mutant, places: Places) -> Iterator[None]:
    """The mutant is in the copy. Its time stamp differs from the original's, so no old compiled form is taken for it."""
    file = places.copy / mutant.path
    original, stamp = file.read_bytes(), file.stat().st_mtime_ns
    try:
        file.write_bytes(mutant.apply(original))
        os.utime(file, ns=(stamp - 10**12, stamp - 10**12))
        yield
    finally:
        file.write_bytes(original)
        os.utime(file, ns=(stamp, stamp))
