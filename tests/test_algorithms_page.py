"""docs/algorithms.md tells the truth: names, keys, defaults, scenario files and proofs are those of the package."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from marl.algos.presets import ALGOS
from marl.policies.config import ModelConfig
from marl.scenario.load import load_scenario

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "algorithms.md").read_text(encoding="utf-8")
PROOFS: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "proofs" / "proofs.yaml").read_text(encoding="utf-8"))
COMMAND = re.compile(r"marl run scenarios/(\w+)\.yaml(.*)")
KEY = re.compile(r"^\| `(\w+)` \| ([^|]+) \|", re.MULTILINE)


def sections() -> dict[str, str]:
    """Headings to what stands below them, up to the next heading of any depth."""
    parts = re.split(r"^#+ (.+)$", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


SECTIONS = sections()
NAMES = sorted(ALGOS)


def algorithm_of(scenario: str) -> str:
    return load_scenario(ROOT / "scenarios" / f"{scenario}.yaml").preset.name


def check_keys(section: str, algorithm: str) -> int:
    """How many keys a section's tables name; each has to exist with that default."""
    config, model = ALGOS[algorithm].configure(), ModelConfig()
    rows = KEY.findall(SECTIONS[section])
    for key, default in rows:
        owner = config if key in type(config).model_fields else model
        assert key in type(owner).model_fields, f"{section}: {key} is no key of {algorithm}"
        assert yaml.safe_load(default) == getattr(owner, key), f"{section}: the default of {key}"
    return len(rows)


def test_the_opening_table_lists_every_algorithm_once_with_its_family() -> None:
    listed = re.findall(r"^\| \[(\w+)\]\(#\1\) \| (\w+) \|", PAGE, re.MULTILINE)
    assert sorted(listed) == [(name, ALGOS[name].family.name) for name in NAMES]


def test_the_page_begins_with_the_right_numbers() -> None:
    families = {ALGOS[name].family.name for name in NAMES}
    assert (len(NAMES), len(families)) == (38, 10), "say the new numbers on the page, and here"
    assert "Thirty-eight names, ten families." in PAGE


@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_has_a_section_whose_keys_exist_with_their_defaults(name: str) -> None:
    assert check_keys(name, name) >= 3


def test_keys_outside_of_the_algorithms_sections_exist_with_their_defaults() -> None:
    assert check_keys("The magnet", "ppo") == 3
    for name in NAMES:
        if ALGOS[name].family.name != "deep_cfr":  # whose section tells its own discount
            assert check_keys("Notation", name) >= 3


@pytest.mark.parametrize("name", NAMES)
def test_every_command_in_a_section_runs_its_algorithm(name: str) -> None:
    commands = COMMAND.findall(SECTIONS[name])
    assert commands
    for scenario, options in commands:
        changed = re.search(r"--set algo\.name=(\w+)", options)
        assert (changed[1] if changed else algorithm_of(scenario)) == name, scenario


@pytest.mark.parametrize("name", NAMES)
def test_linked_curves_and_rows_are_of_declared_proofs_of_the_algorithm(name: str) -> None:
    curves = re.findall(r"\(proofs/(\w+)\.png\)", SECTIONS[name])
    assert sorted(curves) == sorted(re.findall(r"\(proofs\.md#(\w+)\)", SECTIONS[name]))
    for proof in curves:
        assert proof in PROOFS, f"{proof} is not declared in proofs/proofs.yaml"
        declared = PROOFS[proof]
        assert declared.get("set", {}).get("algo.name", algorithm_of(declared["scenario"])) == name, proof


def test_named_files_exist_and_linked_sections_too() -> None:
    named = re.findall(r"scenarios/\w+\.yaml", PAGE) + [
        f"scenarios/{f}" for f in re.findall(r"(?<![\w/])\w+\.yaml", PAGE)
    ]
    named = [path for path in named if path != "scenarios/proofs.yaml"]
    pages = [f"docs/{page}" for page in re.findall(r"\]\((\w+\.md)[#)]", PAGE)]
    for path in {*named, *pages}:
        assert (ROOT / path).exists(), path
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in SECTIONS}
    assert {*re.findall(r"\]\(#([\w-]+)\)", PAGE)} <= anchors
