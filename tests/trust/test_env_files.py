"""Envs that read a file: a checkpoint's path is not followed, and every command takes it from the owner again."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import gymnasium as gym
import pytest

from marl.cli.last_words import resume_command
from marl.envs.adapters.copies import GymnasiumCopies
from marl.envs.adapters.permits import check_gymnasium, check_places
from marl.errors import ConfigError
from marl.registry import only_modules
from marl.training.trainer import Trainer
from tests.forgeries import forge, real_run
from tests.trust.conftest import Command

PENNIES = """EFG 2 R "pennies" { "a" "b" } ""
p "" 1 1 "" { "L" "R" } 0
p "" 2 1 "" { "l" "r" } 0
t "" 1 "" { 1.0 -1.0 }
t "" 2 "" { -1.0 1.0 }
p "" 2 1 "" { "l" "r" } 0
t "" 3 "" { -1.0 1.0 }
t "" 4 "" { 1.0 -1.0 }
"""


@pytest.fixture(scope="module")
def game(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("pyspiel")
    file = tmp_path_factory.mktemp("games") / "my game.efg"  # a space: advice has to be quoted
    file.write_text(PENNIES)
    return file


@pytest.fixture(scope="module")
def by_key(game: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose env reads the file that a key names."""
    directory = tmp_path_factory.mktemp("runs") / "by_key"
    return real_run(directory, "openspiel:efg_game", env_config={"filename": str(game)})


@pytest.fixture(scope="module")
def by_name(game: Path, by_key: Path) -> Path:
    """A run with the file in the name of its env."""
    return forge(by_key, by_key.parent / "by_name", env=f"openspiel:efg_game(filename={game})", env_config={})


def advised(said: str) -> list[str]:
    """The option that a message advises, as a shell reads it."""
    found = re.search(r"give it again: (--set .*) \(in Python", " ".join(said.split()))
    assert found is not None, said
    return shlex.split(found[1])


@pytest.mark.parametrize("command", ["exploit", "export", "rollout", "run"])
@pytest.mark.parametrize("kind", ["by_key", "by_name"])
def test_what_a_refusal_advises_can_be_typed_and_works(
    command: str, kind: str, tmp_path: Path, marl: Command, request: pytest.FixtureRequest
) -> None:
    path = forge(request.getfixturevalue(kind), tmp_path / "run")
    words = {"export": ["export", path, "--out", tmp_path / "out"], "run": ["run", "--resume", path]}.get(
        command, [command, path]
    )
    code, _, said = marl(*words)
    assert (code, "the file sets filename" in said) == (2, True)
    code, _, said = marl(*words, *advised(said))
    assert code == 0, said


@pytest.mark.parametrize("kind", ["by_key", "by_name"])
def test_the_command_that_a_stopped_run_prints_gives_the_files_of_its_envs_again(
    kind: str, tmp_path: Path, marl: Command, game: Path, request: pytest.FixtureRequest
) -> None:
    path = forge(request.getfixturevalue(kind), tmp_path / "the run")
    own = {"env_config": {"filename": str(game)}, "evaluation": {"interval": 1, "env_config": {"filename": str(game)}}}
    with Trainer.from_checkpoint(
        path, **(own if kind == "by_key" else {"env": f"openspiel:efg_game(filename={game})"})
    ) as one:
        one.store.directory = path
        words = shlex.split(resume_command(one))
    assert words[:4] == ["marl", "run", "--resume", str(path)]
    assert ("evaluation.env_config.filename=" in " ".join(words)) == (kind == "by_key")
    code, _, said = marl(*words[1:])
    assert code == 0, said


def test_crossplay_and_report_advise_options_that_they_have(by_key: Path, game: Path, marl: Command) -> None:
    keys = ("--env-config", json.dumps({"filename": str(game)}))
    code, _, said = marl("crossplay", by_key, "random", "--episodes", 2)
    assert code == 2
    assert "--set" not in said
    assert "by --env and --env-config" in said
    code, _, said = marl("crossplay", by_key, "random", "--episodes", 2, "--env", "openspiel:efg_game", *keys)
    assert code == 0, said


def test_a_report_on_an_env_with_the_file_in_its_name_has_it_from_the_user(
    by_name: Path, game: Path, tmp_path: Path, marl: Command
) -> None:
    words = (by_name, "--episodes", 2, "--max-nodes", 1, "--out", tmp_path / "out")
    code, _, said = marl("report", f"openspiel:efg_game(filename={game})", *words)
    assert code == 0, said


@pytest.mark.slow
def test_a_report_with_trained_best_responses_takes_the_file_again(
    by_key: Path, game: Path, tmp_path: Path, marl: Command
) -> None:
    words = ("report", "openspiel:efg_game", by_key, "--episodes", 2, "--best-response", 1, "--out", tmp_path / "out")
    code, _, said = marl(*words)
    assert code == 2
    assert "--set" not in said
    assert "by ENV and --env-config" in said
    code, _, said = marl(*words, "--env-config", json.dumps({"filename": str(game)}))
    assert code == 0, said


@pytest.mark.parametrize("command", [["exploit"], ["export", "--out", "nowhere"]])
def test_a_key_that_is_not_of_the_env_is_refused_where_it_would_change_nothing(
    command: list[str], run: Path, marl: Command
) -> None:
    code, _, said = marl(command[0], run, *command[1:], "--set", "lr=0.1")
    assert code == 2
    assert "--set lr=... changes nothing here. What counts: env, env_config.KEY" in said


# -- what is advised ---------------------------------------------------------------------------------------------------


def test_the_key_of_an_env_inside_of_an_env_is_told_in_full() -> None:
    config = {"env": "Ant-v5", "env_config": {"xml_file": "/some where.xml"}}
    with (
        only_modules(frozenset()),
        pytest.raises(ConfigError, match=re.escape("--set 'env_config.env_config.xml_file=/some where.xml' (")),
    ):
        GymnasiumCopies(config)


@pytest.mark.parametrize(
    ("keys", "option"),
    [
        ({"a": {"b": {"path": "/x"}}}, "--set env_config.a.b.path=/x"),
        ({"game": "efg_game(filename=/x)"}, "--set 'env_config.game=efg_game(filename=/x)'"),
        ({"path": "12"}, """--set 'env_config.path="12"'"""),
        ({"path": "[" * 10_000}, f"""--set 'env_config.path="{"[" * 10_000}"'"""),
        ({"path": "a/b: c"}, """--set 'env_config.path="a/b: c"'"""),
        ({"path": ["/x", "/y"]}, """--set 'env_config.path=["/x", "/y"]'"""),
    ],
    ids=["nested", "inner", "number", "brackets", "mapping", "list"],
)
def test_a_place_at_any_depth_is_refused_with_the_option_that_gives_it_again(
    keys: dict[str, object], option: str
) -> None:
    with only_modules(frozenset()), pytest.raises(ConfigError, match=re.escape(option + " (")):
        check_places("openspiel:x", keys)


def test_only_the_text_that_was_given_again_is_followed() -> None:
    name = "openspiel:efg_game(filename=/x)"
    with only_modules(frozenset(), [name]):
        check_places(name, {})
        with pytest.raises(ConfigError, match="'/y'"):
            check_places("openspiel:efg_game(filename=/y)", {})
        with pytest.raises(ConfigError, match="'/y'"):
            check_places(name, {"path": "/y"})
    with only_modules(frozenset(), ["efg_game(filename=/x)"]):
        check_places(name, {})
        check_places("openspiel:repeated_game", {"stage_game": "efg_game(filename=/x)"})


# -- ids of Gymnasium --------------------------------------------------------------------------------------------------


def test_an_id_without_a_version_is_checked_as_the_one_that_gymnasium_takes() -> None:
    gym.register("Swapped-v1", entry_point="gymnasium.envs.classic_control:CartPoleEnv")
    gym.register("Swapped-v7", entry_point="somebody.else:Env")
    try:
        with only_modules(frozenset()):
            check_gymnasium("CartPole")
            check_gymnasium("Swapped-v1")
            with pytest.raises(ConfigError, match="--allow somebody"):
                check_gymnasium("Swapped")
            with pytest.raises(ConfigError, match="--allow somebody"):
                GymnasiumCopies({"env": "Swapped"})
    finally:
        del gym.registry["Swapped-v1"], gym.registry["Swapped-v7"]
