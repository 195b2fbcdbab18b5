"""Scenarios by name: those of the repository are shipped with the package."""

from __future__ import annotations

from pathlib import Path

import pytest

from marl.errors import ConfigError
from marl.scenario.load import load_scenario, read_yaml, shipped_scenarios

ROOT = Path(__file__).parents[2]


def test_every_scenario_of_the_repository_is_shipped_by_its_name() -> None:
    assert shipped_scenarios() == {file.stem: file for file in sorted((ROOT / "scenarios").rglob("*.yaml"))}


def test_a_shipped_scenario_is_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_scenario("two_step_game").env == "two_step_game"


def test_a_file_of_that_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two_step_game").write_text("env: mine")
    assert read_yaml(Path("two_step_game")) == {"env": "mine"}


def test_a_mistyped_name_is_told_the_right_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"no scenario file two_step_gam. Did you mean 'two_step_game'"):
        read_yaml(Path("two_step_gam"))
