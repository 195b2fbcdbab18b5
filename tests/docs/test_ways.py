"""The section "Four ways through the code" of docs/architecture.md leads through files and functions as they are."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

import pytest

from tests.docs.pages import DOCS, ROOT

HEADING = "## Four ways through the code\n"
CODE = re.compile(r"`([^`]+)`")


class Step(NamedTuple):
    """One row of a table: a file to open, what is defined there, and text with pieces of its code."""

    file: str
    name: str
    text: str


def section() -> str:
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    return page.partition(HEADING)[2].partition("\n## ")[0]


def steps() -> list[Step]:
    found = []
    for line in section().splitlines():
        if line.startswith("| `"):
            file, name, text = (cell.strip() for cell in line.strip("|").split(" | "))
            found.append(Step(file.strip("`"), name.strip("`"), text))
    return found


def source_of(file: str, name: str) -> str:
    """The source of a function, class or method that the file itself defines; empty if it does not."""
    source = (ROOT / "marl" / file).read_text(encoding="utf-8")
    node: ast.AST = ast.parse(source)
    for part in name.split("."):
        inside = [one for one in ast.iter_child_nodes(node) if getattr(one, "name", None) == part]
        if not inside:
            return ""
        node = inside[0]
    return ast.get_source_segment(source, node) or ""


def missing_code(step: Step) -> list[str]:
    """Code in the text of a step that is neither in the function nor the name of a key or of something else in the file."""
    source = source_of(step.file, step.name)
    whole = (ROOT / "marl" / step.file).read_text(encoding="utf-8")
    beside = {code for code in CODE.findall(step.text) if code.isidentifier() and re.search(rf"\bdef {code}\b", whole)}
    keys = {"vf_clip_param", "share_reward", "population: {kind: NAME}"}
    return [code for code in CODE.findall(step.text) if code not in source and code not in beside | keys]


@pytest.mark.parametrize("step", steps(), ids=lambda step: f"{step.file}:{step.name}")
def test_a_step_names_a_function_of_its_file_and_code_that_stands_there(step: Step) -> None:
    assert source_of(step.file, step.name), f"{step.file} defines no {step.name}"
    assert missing_code(step) == []


def test_each_of_the_four_questions_has_a_way() -> None:
    ways = re.split(r"^\*\*", section(), flags=re.MULTILINE)[1:]
    assert [way.partition("?**")[0] for way in ways] == [
        "Where is PPO's clipping",
        "Where is a dead agent's last reward credited",
        "Where is a checkpoint verified before it is loaded",
        "How does one add a kind of population",
    ]
    assert all(way.count("\n| `") >= 2 for way in ways)


def test_a_renamed_function_or_changed_code_is_noticed() -> None:
    loss = "algos/central_critic/losses.py"
    assert source_of(loss, "clip_the_loss") == ""
    assert source_of("runs/checkpoint.py", "check_hash") == ""  # imported there, but defined elsewhere
    assert missing_code(Step(loss, "clipped_loss", "`ratio.clamp(1 - clip, 1 + clip)` and `ratio.clip`")) == [
        "ratio.clip"
    ]
