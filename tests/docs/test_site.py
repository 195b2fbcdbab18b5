"""The site: it builds without a warning, needs no network, and its generated pages are complete."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from docs.pictures.draw import HERE, drawings
from docs.reference.generate import WIDTH, _files_in, command_names, commands_page, help_of, on_config, pages
from marl.algos.presets import ALGOS
from marl.runs.fields import table as fields
from marl.scenario.config import ALL_ALGO_KEYS, MODEL_KEYS, MULTIAGENT_KEYS, TOP_KEYS
from marl.scenario.reference import SECTIONS, everything
from marl.training.display import table_cells
from tests.docs.pages import DOCS, ROOT, blocks_of
from tests.docs.test_links import broken_links

FIRST_PAGES = ("index.md", "index.ko.md", "index.zh.md")


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def nav() -> list[Any]:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    entries: list[Any] = yaml.safe_load(text[text.index("\nnav:") :])["nav"]
    return entries


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert built.returncode == 0, built.stdout + built.stderr
    made = {file.relative_to(tmp_path).with_suffix("").as_posix(): file for file in tmp_path.rglob("*.html")}
    assert {"index", "concepts", "howto/own_env", "reference/keys", "games/index"} <= {*made}
    for name, file in made.items():
        html = file.read_text(encoding="utf-8")
        assert re.findall(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="?(?:https?:)?//', html) == [], name
    assert "One iteration: rounds of collecting and learning" in made["reference/python"].read_text(encoding="utf-8")


def test_every_page_stands_in_the_navigation_once() -> None:
    named = _files_in(nav())
    assert len(named) == len({*named})
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} | {*pages()}
    config = SimpleNamespace(nav=nav(), docs_dir=str(DOCS))
    assert {*_files_in(on_config(config).nav)} == there


def test_the_navigation_is_by_purpose_and_every_page_has_a_place_in_it() -> None:
    purposes = [name for section in nav() for name in section]
    assert purposes == ["Tutorials", "How-to", "Reference", "Explanation", "For maintainers"]
    assert on_config(SimpleNamespace(nav=nav(), docs_dir=str(DOCS))).nav == nav()  # nothing is left for "More"


def test_a_subject_has_one_page() -> None:
    """A how-to beside a chapter of the same subject (howto/tuning.md, tune.md) repeats it, until one of them is out of date."""
    chapters = {file.stem[:3]: file.name for file in DOCS.glob("*.md")}
    assert {
        file.name: chapters.get(file.stem[:3]) for file in DOCS.glob("howto/*.md") if file.stem[:3] in chapters
    } == {}


def test_the_page_for_contributors_leads_to_pages_of_the_site() -> None:
    text = pages()["contributing.md"]
    assert broken_links(text, DOCS / "contributing.md") == []
    assert "](architecture.md)" in text
    assert "SECURITY.md" in text


def test_a_page_that_nobody_placed_stands_under_more(tmp_path: Path) -> None:
    (tmp_path / "new.md").write_text("# New\n", encoding="utf-8")
    placed = [{"All": sorted(pages())}]
    assert on_config(SimpleNamespace(nav=placed, docs_dir=str(tmp_path))).nav == [*placed, {"More": ["new.md"]}]


def test_the_pages_of_keys_hold_what_marl_config_all_prints() -> None:
    text = pages()["reference/keys.md"] + pages()["reference/algorithm_keys.md"]
    plain = text.replace("\\", "")
    printed = re.findall(r"^  (\w+) \(.*?\): (.+)$", everything(), re.M)
    assert len(printed) > 300
    for key, meaning in printed:
        assert meaning not in ("None", ""), f"{key} has no description"
        assert f"| `{key}` |" in plain
        assert " ".join(meaning.split()) in plain, key
    headings = set(re.findall(r"^## (.+)$", text, re.M))
    assert {*ALGOS, "Top level", *(f"{name}:" for name in SECTIONS)} <= headings


def test_every_field_of_a_result_stands_in_the_reference() -> None:
    text = pages()["reference/results.md"]
    assert [field.name for field in fields() if f"| `{field.name}` |" not in text] == []


@pytest.mark.parametrize("command", ["", *command_names()])
def test_the_page_of_commands_holds_the_help_which_fits_a_terminal(command: str) -> None:
    text = help_of(*command.split())
    assert text.rstrip() in commands_page()
    assert [line for line in text.splitlines() if len(line) > WIDTH] == []


@pytest.mark.slow
def test_the_help_of_train_in_a_real_terminal_is_that_of_the_page() -> None:
    shown = subprocess.run(
        [str(Path(sys.executable).parent / "marl"), "train", "--help"],
        env={**os.environ, "COLUMNS": str(WIDTH)}, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert f"## marl train\n\n```text\n{shown.stdout.rstrip()}\n```" in commands_page()


def test_pictures_are_as_their_script_draws_them() -> None:
    drawn = drawings()
    measured = (
        "scale_",
        "memories.svg",
        "plot_curves.svg",
        "frontier.svg",
        "suite_",
    )  # measured: by scripts of theirs, by marl plot or marl suite
    own = {file.name for file in HERE.glob("*.svg") if not file.name.startswith(measured)}
    assert own == {*drawn}
    for name, svg in drawn.items():
        assert (HERE / name).read_text(encoding="utf-8") == svg, f"python docs/pictures/draw.py draws {name} anew"
        assert f"](pictures/{name})" in page("concepts.md")


def test_the_three_shapes_of_policies_are_drawn() -> None:
    svg = drawings()["policy_shapes.svg"]
    for shape in ("one agent, one policy", "many agents, one policy", "many agents, many policies"):
        assert shape in svg
        assert shape in page("concepts.md")


@pytest.mark.parametrize("name", FIRST_PAGES)
def test_the_first_page_explains_every_column_of_the_table(name: str) -> None:
    result = {"training_iteration": 1, "timesteps_total": 1, "policy_reward_mean": {"team": 1.0}}
    explained = re.findall(r"^\| `([^`]+)` \|", page(name), re.M)
    assert [column for column in explained if column in table_cells(result)] == [*table_cells(result)]


@pytest.mark.parametrize("name", FIRST_PAGES[1:])
def test_a_translation_has_the_same_steps_and_commands_as_the_first_page(name: str) -> None:
    def steps(of: str) -> list[str]:
        blocks = blocks_of(DOCS / of)
        return [line.split("#")[0].strip() for b in blocks if b.language == "bash" for line in b.text.splitlines()]

    assert {*steps(name)} <= {*steps("index.md")}
    assert len(steps(name)) >= 5
    assert len(re.findall(r"^## ", page(name), re.M)) == len(re.findall(r"^## ", page("index.md"), re.M)) - 1
    assert all(f"]({other})" in page(name) for other in FIRST_PAGES if other != name)


def test_keys_that_the_page_for_users_of_rllib_names_exist() -> None:
    section = page("coming_from_rllib.md").partition("\n## Keys\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+) \| (.+) \|$", section, re.M)[1:]
    known = {*TOP_KEYS, *ALL_ALGO_KEYS, *MODEL_KEYS, *MULTIAGENT_KEYS}
    assert len(rows) > 12
    for old, new in rows:
        named = old if new.startswith("the same") else new
        keys = [
            code
            for code in re.findall(r"`(\w+)[^`]*`", named)
            if code not in ("marl", "trainer", "per_agent", "package", "algo")
        ]
        assert {*keys} <= known, (old, new)


def test_no_version_of_the_changelog_has_a_section_twice() -> None:
    for version in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        headings = re.findall(r"^### (.+)$", version, re.MULTILINE)
        assert len(headings) == len({*headings}), headings
