"""A kill counts only if the test that noticed passes without the mutant."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mutation.lines import Lines
from mutation.places import Places
from mutation.results import Result
from mutation.sites import Mutant
from mutation.workshop import Workshop

AT_ONCE = 40


def untrusted(tests: Collection[str], places: Places, lines: Lines, workshop: Workshop) -> list[str]:
    """Those of the tests that fail in the untouched copy. Tests are tried together, and one by one where one fails."""
    file = places.build / "trusted.txt"
    trusted = set(file.read_text(encoding="utf-8").splitlines()) if file.exists() else set()
    waiting = sorted(test for test in tests if test and test not in trusted)
    failing: list[str] = []
    while waiting:
        group, waiting = waiting[:AT_ONCE], waiting[AT_ONCE:]
        seconds = {test: lines.seconds.get(test, 5.0) for test in group}
        answer = workshop.run(group, wall=60.0 + 20.0 * sum(seconds.values()), seconds=seconds)
        if answer["code"] == 0:
            with file.open("a", encoding="utf-8") as kept:
                kept.writelines(f"{test}\n" for test in group)
        elif len(group) == 1:
            failing += group
        else:
            culprit = answer.get("failed") or group[0]
            failing += [culprit]
            waiting = [test for test in group if test != culprit] + waiting
    return failing


def forget_kills_by(tests: Collection[str], mutants: Sequence[Mutant], results: dict[str, Result]) -> list[Mutant]:
    """The mutants that nobody but these tests has noticed."""
    return [one for one in mutants if one.key in results and results[one.key].by in tests]
