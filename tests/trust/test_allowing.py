"""Modules that are allowed once, for every command."""

from __future__ import annotations

from pathlib import Path

import pytest

from marl import Trainer
from marl.cli.allowing import with_standing
from marl.errors import ConfigError
from tests.command import marl

PATH = "tests.algos.own_learners:Cautious"


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("MARL_ALLOW", raising=False)


def write(tmp_path: Path, text: str) -> None:
    (tmp_path / "config" / "marl").mkdir(parents=True)
    (tmp_path / "config" / "marl" / "config.yaml").write_text(text)


def test_a_checkpoint_with_a_module_of_the_users_plays_once_it_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"env": "two_step_game", "fcnet_hiddens": [4], "evaluation": {"interval": 0}}
    with Trainer(PATH, config=config) as trainer:
        saved = trainer.save(tmp_path / "checkpoint")
    refused = marl("rollout", saved, "--episodes", 1)
    assert refused.code == 2
    assert "MARL_ALLOW" in refused.err
    monkeypatch.setenv("MARL_ALLOW", "other, tests")
    assert marl("rollout", saved, "--episodes", 1).code == 0
    monkeypatch.setenv("MARL_ALLOW", "other")
    assert marl("rollout", saved, "--episodes", 1).code == 2
    write(tmp_path, "allow: [tests]\n")
    assert marl("rollout", saved, "--episodes", 1).code == 0
    assert marl("export", saved, "--out", tmp_path / "exported").code == 0, "every command that has --allow"


def test_all_places_add_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert with_standing(None) == []
    monkeypatch.setenv("MARL_ALLOW", "one two.below,  three")
    write(tmp_path, "allow: [four]\n")
    assert with_standing(["given"]) == ["given", "one", "two.below", "three", "four"]


@pytest.mark.parametrize("variable", ["*", "a/b", "a b:c", "1a"])
def test_what_is_no_module_is_refused(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARL_ALLOW", variable)
    with pytest.raises(ConfigError, match=r"MARL_ALLOW: .* is no module"):
        with_standing(None)


@pytest.mark.parametrize("text", ["allow: my_package", "alow: [a]", "- a", "allow: ['*']", "allow: [1]"])
def test_a_file_that_says_something_else_is_refused(text: str, tmp_path: Path) -> None:
    write(tmp_path, text)
    with pytest.raises(ConfigError, match=r"config\.yaml"):
        with_standing(None)


def test_an_empty_file_allows_nothing(tmp_path: Path) -> None:
    write(tmp_path, "# nothing yet\n")
    assert with_standing(None) == []
