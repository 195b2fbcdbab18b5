"""docs/glossary.md leads to things that exist."""

from __future__ import annotations

import re
from importlib import import_module
from pkgutil import resolve_name

import pytest

from tests.docs.pages import DOCS

PAGE = (DOCS / "glossary.md").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"`(marl(?:\.\w+)+)`", PAGE)))
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| our word")]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_of_the_glossary_exists(name: str) -> None:
    resolve_name(name)


def test_every_word_stands_once_with_its_place() -> None:
    cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in ROWS]
    assert [row for row in cells if len(row) != 4 or not all(row)] == []
    words = [row[0] for row in cells]
    assert len(words) == len(set(words)) > 40
    for *_, place in cells:
        assert set(re.findall(r"`([^`]+)`", place)) & set(NAMES), place


def test_every_room_of_the_package_has_a_word_or_is_no_word_of_users() -> None:
    rooms = {name.split(".")[1] for name in NAMES}
    for room in rooms:
        import_module(f"marl.{room}")
    assert {"envs", "policies", "mappers", "algos", "rollout", "populations", "gametheory", "training"} <= rooms
