"""docs/features.md tells the truth: every item of the checklist once, and what works has tests that exist and proofs that hold."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from proofs.declaration import Places, read_proofs
from proofs.results import read_results

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "features.md").read_text(encoding="utf-8")
STATUSES = ("works", "open", "planned elsewhere", "left out")
ROW = re.compile(r"^\| (\d+[a-z]?) \| (.+?) \| (.+?) \| (.*?) \|$", re.MULTILINE)


def numbers(text: str) -> list[str]:
    """``"1-3 5"`` is 1, 2, 3, 5."""
    ends = [part.partition("-") for part in text.split()]
    return [str(n) for first, _, last in ends for n in range(int(first), int(last or first) + 1)]


# As the checklist counts; it skips some numbers, and one has parts.
NUMBERS = [
    *numbers("1-3 5-7 9-13 17-28"),  # command line and files
    *numbers("33-55 57-62"),  # common keys
    *numbers("63-79"),  # results
    *numbers("80-90 92-100"),  # trainer and workers
    *numbers("101-108 110-117"),  # callbacks, metrics, curriculum, debugging
    *numbers("118-121 123-125"),  # tuning
    *numbers("127-140"),  # envs
    *numbers("141-158"),  # policies, mapping, groups, hierarchy, sharing, critics
    *numbers("159-181"),  # models, preprocessors, exploration
    *numbers("182-194"),  # algorithms
    *(f"195{part}" for part in "abcdefgh"),  # the two-step game and the server
    *numbers("196 199-200 202-204 206 208-210 213 215"),  # JoyRL
    *numbers("217-230"),  # examples
    *numbers("231-236 239-243"),  # spellings
]


class Item(NamedTuple):
    """One row of the page."""

    number: str
    feature: str
    status: str
    detail: str

    @property
    def tests(self) -> list[tuple[str, str]]:
        """Files and functions that the row names."""
        return re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", self.detail)

    @property
    def proofs(self) -> list[str]:
        return re.findall(r"`proof:(\w+)`", self.detail)


def items(page: str) -> list[Item]:
    return [Item(*found) for found in ROW.findall(page)]


@cache  # parsing all test files takes seconds
def functions_in(file: Path) -> set[str]:
    """Names of the tests in a file, which is not imported."""
    if not file.is_file():
        return set()
    tree = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    return {node.name for node in tree if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def miscounted(page: str) -> list[str]:
    """Numbers that are missing, there twice, or unknown to the checklist."""
    found = Counter(item.number for item in items(page))
    return sorted(n for n in {*found, *NUMBERS} if found[n] != 1 or n not in NUMBERS)


def unclear(page: str) -> list[str]:
    """Numbers of rows with an unknown status, without a word on it, or that claim to work without a test."""
    return [
        item.number
        for item in items(page)
        if item.status not in STATUSES or not item.detail.strip() or (item.status == "works" and not item.tests)
    ]


def missing_tests(page: str) -> list[str]:
    named = {test for item in items(page) for test in item.tests}
    there = {file: functions_in(ROOT / file) for file, _ in named}
    return sorted(f"{file}::{test}" for file, test in named if test not in there[file])


def test_every_item_of_the_checklist_stands_there_once() -> None:
    assert miscounted(PAGE) == []
    assert [item.number for item in items(PAGE)] == NUMBERS
    assert len(items(PAGE)) == sum(line.startswith("| ") and not line.startswith("| #") for line in PAGE.splitlines())


def test_every_status_is_known_and_what_works_names_a_test() -> None:
    assert unclear(PAGE) == []


def test_nothing_of_the_checklist_is_open_or_left_out() -> None:
    assert [item.number for item in items(PAGE) if item.status in ("open", "left out")] == []


def test_named_tests_exist() -> None:
    assert missing_tests(PAGE) == []


def test_proofs_named_for_what_works_hold_in_their_stored_results() -> None:
    """Whether they were measured with the present code, tells ``python -m proofs``."""
    places = Places(ROOT)
    declared = {proof.name: proof for proof in read_proofs(places)}
    verdicts = {}
    for name in sorted({name for item in items(PAGE) if item.status == "works" for name in item.proofs}):
        results = read_results(places.results / f"{name}.json")
        assert results is not None, name
        verdicts[name] = results.judge(declared[name])
    assert verdicts
    assert {name: verdict for name, verdict in verdicts.items() if verdict != "ok"} == {}


HERE = "`tests/test_features.py::test_named_tests_exist`"


@pytest.mark.parametrize(
    ("row", "problems"),
    [
        (f"| 1 | twice | works | {HERE} |", (["1"], [], [])),
        (f"| 4 | unheard of | works | {HERE} |", (["4"], [], [])),
        ("| 1 | a status | half done | nearly |", (["1"], ["1"], [])),
        ("| 1 | without a test | works | it does |", (["1"], ["1"], [])),
        ("| 1 | without a reason | left out |  |", (["1"], ["1"], [])),
        ("| 1 | x | works | `tests/test_features.py::test_x` |", (["1"], [], ["tests/test_features.py::test_x"])),
        ("| 1 | x | works | `tests/test_x.py::test_x` |", (["1"], [], ["tests/test_x.py::test_x"])),
    ],
)
def test_a_row_that_is_wrong_is_found(row: str, problems: tuple[list[str], list[str], list[str]]) -> None:
    page = f"{PAGE}\n{row}\n"
    assert (miscounted(page), unclear(page), missing_tests(page)) == problems


def test_a_row_that_is_missing_is_found() -> None:
    assert miscounted(re.sub(r"^\| 195c .*\n", "", PAGE, flags=re.MULTILINE)) == ["195c"]
