"""What stands around the code: one version everywhere, files that pages name, a workflow that runs what we run."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import marl
from marl.algos.presets import ALGOS
from tests.docs.test_links import broken_links

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PAGES = ("CONTRIBUTING.md", "SECURITY.md")
OURS = r"(?:marl|tests|docs|proofs|scenarios|tools|siege|mutation|\.github|\.ci)/[\w./-]*|[\w-]+\.(?:md|toml|txt|cff)"


def text_of(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def paths_in(text: str) -> set[str]:
    """Files and folders in `code`; those of something that is yet to be written (NAME) are left out."""
    found = {code for code in re.findall(r"`([^`\n]+)`", text) if re.fullmatch(OURS, code)}
    return {path for path in found if "NAME" not in path}


def workflow() -> dict[Any, Any]:
    loaded: dict[Any, Any] = yaml.safe_load(text_of(".github/workflows/ci.yml"))
    return loaded


LONG = "pytest.mark.long"


def test_the_version_is_written_once_and_repeated_truly() -> None:
    assert "version" in PROJECT["project"]["dynamic"]
    assert PROJECT["tool"]["hatch"]["version"] == {"path": "marl/__init__.py"}
    newest = re.search(r"^## (\S+)", text_of("CHANGELOG.md"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == marl.__version__
    assert yaml.safe_load(text_of("CITATION.cff"))["version"] == marl.__version__


def test_the_citation_has_what_the_format_asks_for_and_the_licence_of_the_project() -> None:
    citation = yaml.safe_load(text_of("CITATION.cff"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["license"] == PROJECT["project"]["license"]


@pytest.mark.parametrize("page", PAGES)
def test_links_and_paths_of_a_page_at_the_root_lead_somewhere(page: str) -> None:
    text = text_of(page)
    assert broken_links(text, ROOT / page) == []
    assert [path for path in sorted(paths_in(text)) if not (ROOT / path).exists()] == []


def test_the_targets_that_contributors_are_told_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", text_of("Makefile"), re.MULTILINE))
    told = {name for page in PAGES for name in re.findall(r"`make ([\w-]+)`", text_of(page))}
    assert {"test", "test-fast", "lint"} <= told <= targets


def test_what_is_repeated_at_length_is_listed_with_its_siblings() -> None:
    marked = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py") if LONG in path.read_text()}
    rows = re.findall(r"^\| `(tests/[\w/]+\.py)` \|", text_of("docs/testing.md"), re.MULTILINE)
    assert set(rows) == marked - {"tests/test_habits.py"}
    assert 'pytest $(SIDE_BY_SIDE) -m "not long"' in text_of("Makefile")


def test_a_family_consists_of_the_files_that_contributors_are_told() -> None:
    families = {ALGOS[name].family.name for name in ALGOS}
    told = re.findall(r"`marl/algos/NAME/(\w+\.py)`", text_of("CONTRIBUTING.md"))
    assert {"config.py", "learner.py", "presets.py"} <= set(told)
    for family in families:
        there = {file.name for file in (ROOT / "marl" / "algos" / family).glob("*.py")}
        assert {"config.py", "learner.py", "presets.py"} <= there, family


def test_the_workflow_runs_our_own_script_and_targets() -> None:
    jobs = workflow()["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert ".ci/run" in commands
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    targets = set(re.findall(r"^([\w-]+):", text_of("Makefile"), re.MULTILINE))
    assert {command.removeprefix("make ") for command in commands if command.startswith("make ")} <= targets


def test_only_versions_of_python_that_were_tried_are_claimed() -> None:
    """The table of CONTRIBUTING.md, the classifiers and the workflow say the same."""
    rows = re.findall(r"^\| (3\.\d+) \| (.+?) \|", text_of("CONTRIBUTING.md"), re.MULTILINE)
    tried = {version for version, tests in rows if not tests.startswith("not run")}
    prefix = "Programming Language :: Python :: 3."
    claimed = {line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"] if line.startswith(prefix)}
    matrix = workflow()["jobs"]["test"]["strategy"]["matrix"]
    untried = {row["python"] for row in matrix["include"] if row.get("untried")}
    assert set(matrix["python"]) == {version for version, _ in rows}
    assert claimed == tried == set(matrix["python"]) - untried
    assert PROJECT["project"]["requires-python"] == f">={min(tried)}"


@pytest.mark.parametrize(
    "form", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml")), ids=lambda file: file.name
)
def test_a_form_for_issues_has_questions_with_names_of_their_own(form: Path) -> None:
    loaded = yaml.safe_load(form.read_text("utf-8"))
    assert {"name", "description", "body"} <= set(loaded)
    names = [question["id"] for question in loaded["body"]]
    assert len(names) == len(set(names)) > 0
    assert all(question["attributes"]["label"] for question in loaded["body"])
