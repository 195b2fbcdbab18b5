"""The mutation run itself: what it changes, what it leaves alone, and that it tells killed from survived."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from mutation.judge import applied, choose_tests, judge
from mutation.lines import Lines, due, record
from mutation.places import Places, refresh_copy
from mutation.results import Verdict, append_result, read_results, result_of, score
from mutation.sites import Mutant, all_sites, sample, sites_of
from mutation.trust import untrusted
from mutation.workshop import Workshop

RULES = '''
"""Some rules, of 7 and 8."""


def double(x: int) -> int:
    """Twice 2."""
    return x * 2


def countdown(n: int) -> int:
    steps = 0
    while n > 0:
        n -= 1
        steps += 1
    return steps


def forgotten(x: int) -> int:
    return x + 3
'''
TESTS = """
import pytest
from toy.rules import countdown, double, forgotten


@pytest.mark.parametrize("x", [1, 3])
def test_double(x):
    assert double(x) == x + x


def test_countdown():
    assert countdown(2) == 2


def test_nothing_is_said_about_the_result():
    assert forgotten(1)
"""


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Places, Workshop, Lines]]:
    """A project of one module with a record of its lines, and a process that runs its tests."""
    places = Places(tmp_path_factory.mktemp("project"), rooms=("toy",))
    for name, text in {"toy/__init__.py": "", "toy/rules.py": RULES, "tests/test_rules.py": TESTS}.items():
        (places.root / name).parent.mkdir(exist_ok=True)
        (places.root / name).write_text(text, encoding="utf-8")
    refresh_copy(places)
    with Workshop(places, imported=(), patience=0.3) as workshop:
        for name, part in due(places):
            assert record(places, workshop, name, part) == 4
        yield places, workshop, Lines(places)


def mutant_of(old: str, new: str) -> Mutant:
    mutants = [mutant for site in sites_of(RULES, "toy/rules.py") for mutant in site.mutants]
    return next(mutant for mutant in mutants if (mutant.old, mutant.new) == (old, new))


def test_a_change_that_a_test_notices_is_killed_by_that_test(toy: tuple[Places, Workshop, Lines]) -> None:
    places, workshop, lines = toy
    result = judge(mutant_of("x * 2", "(x / 2)"), places, lines, workshop, budget=10.0)
    assert (result.outcome, result.died) == ("killed", True)
    assert result.by.startswith("tests/test_rules.py::test_double")
    assert result.tests == 2  # nobody else executes the line


def test_a_change_that_no_test_looks_at_survives(toy: tuple[Places, Workshop, Lines]) -> None:
    places, workshop, lines = toy
    result = judge(mutant_of("x + 3", "(x - 3)"), places, lines, workshop, budget=10.0)
    assert (result.outcome, result.died, result.tests) == ("survived", False, 1)
    assert (places.copy / "toy/rules.py").read_text() == RULES


def test_an_endless_loop_is_ended_and_counts_as_killed(toy: tuple[Places, Workshop, Lines]) -> None:
    places, workshop, lines = toy
    result = judge(mutant_of("n -= 1", "pass"), places, lines, workshop, budget=10.0)
    assert (result.outcome, result.died) == ("timeout", True)
    assert result.by == "tests/test_rules.py::test_countdown"


def test_a_test_that_fails_without_a_mutant_is_not_believed(toy: tuple[Places, Workshop, Lines]) -> None:
    places, workshop, lines = toy
    tests = ["tests/test_rules.py::test_countdown", "tests/test_rules.py::test_nothing_is_said_about_the_result"]
    with applied(mutant_of("n > 0", "(n <= 0)"), places):  # stands for a test that is broken by itself
        assert untrusted(tests, places, lines, workshop) == tests[:1]
    assert untrusted(tests, places, lines, workshop) == []


def test_tests_that_cannot_be_read_kill_nobody(toy: tuple[Places, Workshop, Lines]) -> None:
    places, workshop, _ = toy
    lines, mutant, gone = Lines(places), mutant_of("x * 2", "(x / 2)"), "tests/test_rules.py::test_that_is_gone"
    lines.seconds[gone] = 0.1
    for offset in mutant.offsets:
        lines._at[mutant.unit, mutant.unit_key, offset] = {gone}
    assert judge(mutant, places, lines, workshop, budget=10.0).outcome == "no tests"


def test_tests_that_are_left_out_or_too_dear_are_not_chosen(toy: tuple[Places, Workshop, Lines]) -> None:
    lines = toy[2]
    mutant = mutant_of("x * 2", "(x / 2)")
    both = choose_tests(mutant, lines, budget=10.0)
    assert len(both) == 2
    assert choose_tests(mutant, lines, 10.0, distrusted=both[:1]) == both[1:]
    assert choose_tests(mutant, lines, 0.0) == both[:1]


def test_a_changed_test_file_is_recorded_anew(toy: tuple[Places, Workshop, Lines]) -> None:
    places = toy[0]
    assert due(places) == []
    file = places.root / "tests/test_rules.py"
    file.write_text(TESTS + "\n", encoding="utf-8")
    assert due(places) == [("tests/test_rules.py", "fast")]
    file.write_text(TESTS, encoding="utf-8")


def test_texts_errors_logs_and_types_are_left_alone() -> None:
    source = '''
"""Module 1."""
import logging
Numbers = list[int] | None
def f(x: int | None, log: logging.Logger) -> int | None:
    """Text 2."""
    if x is None:
        raise ValueError("no" * 3, 4)
    log.warning("at %d", x + 5)
    print(6)
    return f"{x + 7}"
class A:
    def __repr__(self) -> str:
        return "8" * 9
'''
    found = {(mutant.old, mutant.new) for site in sites_of(source, "f.py") for mutant in site.mutants}
    assert found == {("x is None", "(x is not None)"), ('return f"{x + 7}"', "return None")}


def test_every_operator_changes_the_meaning_and_gives_valid_code() -> None:
    source = (
        "def f(a, b, c=-0.5, d=True):\n"
        "    a += b\n"
        "    b.add(a)\n"
        "    g = np.sum(min(a[b + 1 : -2], not a < b and b or c), axis=0) if d else h(abs(a), b.detach())\n"
        "    while d:\n"
        "        return -g\n"
    )
    mutants = [mutant for site in sites_of(source, "f.py") for mutant in site.mutants]
    assert {mutant.operator for mutant in mutants} == {
        "arithmetic", "comparison", "and/or", "sign or not", "boolean", "number", "arguments", "function", "slice", "return",
        "deleted statement", "branch", "condition", "dropped call",
    }  # fmt: skip
    original = ast.dump(ast.parse(source))
    changed = [ast.dump(ast.parse(mutant.apply(source.encode()))) for mutant in mutants]
    assert original not in changed
    assert len(set(changed)) >= len(changed) - 1


def test_a_larger_sample_holds_the_smaller_and_other_functions_do_not_matter(tmp_path: Path) -> None:
    places = Places(tmp_path, rooms=("rules.py",))
    (tmp_path / "rules.py").write_text(RULES, encoding="utf-8")
    few, many = (sample(all_sites(places), n, seed=0) for n in (4, 8))
    assert many[:4] == few
    assert sample(all_sites(places), 8, seed=1) != many
    (tmp_path / "rules.py").write_text("def other():\n    pass\n" + RULES, encoding="utf-8")
    assert [mutant.key for mutant in sample(all_sites(places), 8, seed=0)] == [mutant.key for mutant in many]


def test_only_what_is_shown_to_change_nothing_is_left_out_of_the_score(tmp_path: Path) -> None:
    places = Places(tmp_path)
    mutants = [site.mutants[0] for site in sites_of(RULES, "toy/rules.py")][:4]
    for mutant, outcome in zip(mutants, ("survived", "survived", "killed", "timeout"), strict=True):
        append_result(places, result_of(mutant, outcome, "", 1, 0.1))
    with places.results.open("a") as file:
        file.write('{"key": "cut off by a ki')
    verdicts = {mutants[0].key: Verdict("equivalent", "why"), mutants[1].key: Verdict("gap", "why")}
    found = score(mutants, read_results(places), verdicts)
    assert (found.died, found.counted, found.equivalent, len(found.survivors)) == (2, 3, 1, 2)
    append_result(places, result_of(mutants[1], "killed", "", 1, 0.1))  # a new test notices it; the last line counts
    assert score(mutants, read_results(places), verdicts).share == 1.0
