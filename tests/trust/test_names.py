"""Names in a stranger's files: they call nothing, import nothing, and every command says so in one sentence."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import marl as package
from marl import Trainer
from marl.envs.registry import ENV, resolve_env
from marl.errors import ConfigError
from marl.registry import load_object, only_modules
from marl.training.extensions.curriculum import TASKS
from marl.trust import Sort
from tests.envs.stand_ins import robots_v1
from tests.forgeries import forge, forge_export, real_run, trap
from tests.trust.conftest import Command

LEVELS = [{"name": "top_level", "horizon": 2, "goals": "GOALS"}, {"name": "low_level"}]
HIERARCHY = {"levels": LEVELS, "features": [0]}


def hierarchy(goals: str) -> list[Any]:
    return [{"hierarchy": {**HIERARCHY, "levels": [{**LEVELS[0], "goals": goals}, LEVELS[1]]}}]


FORGED: dict[str, dict[str, Any]] = {
    "a class that writes files as the env": {"env": "marl:Trainer", "env_config": {"directory": "CANARY"}},
    "a function of marl as the env": {"env": "marl.runs.system_info:git"},
    "a module of the working folder as the env": {"env": "trap:Env"},
    "a module whose name begins with marl": {"env": "marl_trap:Env"},
    "Python's own function": {"env": "os:system", "env_config": {"command": "touch CANARY"}},
    "what a module of marl imports": {"env": "marl.runs.atomic:os"},
    "a walk through attributes": {"env": "marl.runs.atomic:os.system"},
    "a walk inside of the envs": {"env": "marl.envs.registry:gym.make", "env_config": {"id": "trap:Env-v0"}},
    "what a module of envs imports": {"env": "marl.envs.registry:load_object"},
    "a function among the envs": {"env": "marl.envs.registry:make_env", "env_config": {"env": "trap:Env"}},
    "a Gymnasium id with a module": {"env": "trap:Env-v0"},
    "a Gymnasium id with a module behind copies": {"env": "copies", "env_config": {"env": "trap:Env-v0"}},
    "a Gymnasium id of another package": {"env": "Forged-v0"},
    "a Gymnasium id of another package behind copies": {"env": "copies", "env_config": {"env": "Forged-v0"}},
    "a module of PettingZoo that is no env": {"env": "pettingzoo:utils/all_modules"},
    "a game file of OpenSpiel": {"env": "openspiel:efg_game(filename=CANARY)"},
    "a game file as a key": {"env": "openspiel:efg_game", "env_config": {"filename": "CANARY"}},
    "a wrapper that is a function of marl": {"wrappers": [{"marl.runs.atomic:remove": {}}]},
    "a wrapper of the working folder": {"wrappers": [{"trap:call": {}}]},
    "goals": {"wrappers": hierarchy("marl:Trainer")},
    "goals of the working folder": {"wrappers": hierarchy("trap:Env")},
    "imports": {"imports": ["trap"]},
    "imports of a program": {"imports": ["marl.run"]},
    "callbacks": {"callbacks": "marl:Trainer"},
    "callbacks of the working folder": {"callbacks": "trap:Env"},
    "a hook": {"callbacks": {"on_train_result": "marl.runs.atomic:remove"}},
    "a mapping function": {"multiagent.policy_mapping_fn": "marl.runs.atomic:remove", "policies": ["p"]},
    "who is trained": {"multiagent.policies_to_train": "marl.runs.atomic:remove"},
    "a model": {"model.custom_model": "marl.training.store:Store"},
    "a model of the working folder": {"model.custom_model": "trap:Env"},
    "a preprocessor": {"model.custom_preprocessor": "marl:Trainer"},
    "a distribution": {"model.custom_action_dist": "marl:Trainer"},
    "a loss": {"algo.custom_loss": "marl:Trainer"},
    "a loss of the working folder": {"algo.custom_loss": "trap:Env"},
    "a rule": {"policies": {"default_policy": {"scripted": "marl.runs.atomic:remove"}}},
    "a rule of the working folder": {"policies": {"default_policy": {"scripted": "trap:call"}}},
    "an algorithm": {"algo": {"name": "marl:Trainer"}},
    "an algorithm of the working folder": {"algo": {"name": "trap:Env"}},
    "the algorithm of one policy": {"policies": {"default_policy": {"algo": "trap:Env"}}},
    "an env to evaluate on": {"evaluation": {"interval": 1, "env": "trap:Env"}},
    "the algorithm of best responses": {
        "exploitability": {"interval": 1, "method": "best_response", "best_response_algo": "trap:Env"}
    },
}


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that appears when anything of the traps runs. They lie in the working folder and beside the checkpoint."""
    place = tmp_path / "canary"
    for folder in (tmp_path, tmp_path / "forged"):
        for name in ("trap", "marl_trap"):
            trap(folder / "here", name, place)
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "here")])  # as if they were installed
    yield place
    for name in ("trap", "marl_trap"):
        sys.modules.pop(name, None)


@pytest.fixture
def forged_id() -> Iterator[None]:
    """A Gymnasium id that some installed package has registered."""
    gym.register("Forged-v0", entry_point="trap:Env")
    yield
    gym.registry.pop("Forged-v0")


def with_canary(value: Any, canary: Path) -> Any:
    if isinstance(value, str):
        return value.replace("CANARY", str(canary))
    if isinstance(value, dict):
        return {key: with_canary(item, canary) for key, item in value.items()}
    return [with_canary(item, canary) for item in value] if isinstance(value, list) else value


@pytest.mark.usefixtures("forged_id")
@pytest.mark.parametrize("forgery", FORGED)
def test_a_forged_checkpoint_runs_nothing(forgery: str, run: Path, tmp_path: Path, canary: Path) -> None:
    path = forge(run, tmp_path / "forged" / "run", **with_canary(FORGED[forgery], canary))
    with pytest.raises(ConfigError) as refused, Trainer.from_checkpoint(path) as trainer:
        trainer.train()
    said = str(refused.value)
    assert "comes from a" in said or "not followed" in said, said
    assert not canary.exists()


COMMANDS: dict[str, list[str]] = {
    "run": ["run", "--resume", "PATH"],
    "rollout": ["rollout", "PATH", "--episodes", "1"],
    "rollout with a policy from elsewhere": ["rollout", "GOOD", "--episodes", "1", "--policy", "default_policy=PATH"],
    "exploit": ["exploit", "PATH"],
    "crossplay": ["crossplay", "PATH", "random", "--episodes", "2"],
    "report": ["report", "WORLD", "PATH", "--episodes", "2", "--out", "OUT"],
    "export": ["export", "PATH", "--out", "OUT"],
}
EVIL = {
    "marl": {"env": "marl:Trainer", "env_config": {"directory": "CANARY"}},
    "folder": {"env": "trap:Env"},
    "imports": {"imports": ["trap"]},
}


@pytest.mark.parametrize("evil", EVIL)
@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_in_one_sentence(
    command: str, evil: str, run: Path, tmp_path: Path, canary: Path, marl: Command
) -> None:
    path = forge(run, tmp_path / "forged" / "run", **with_canary(EVIL[evil], canary))
    places = {
        "PATH": str(path),
        "GOOD": str(run),
        "OUT": str(tmp_path / "out"),
        "WORLD": EVIL[evil].get("env", "matrix_game"),
    }
    words = [next((w.replace(k, p) for k, p in places.items() if k in w), w) for w in COMMANDS[command]]
    code, _, said = marl(*words)
    assert code == 2, said
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert "comes from a" in said
    assert not canary.exists()


def test_an_exported_policy_names_no_function_of_marl_and_no_module_beside_it(
    run: Path, tmp_path: Path, canary: Path
) -> None:
    with Trainer.from_checkpoint(run) as trainer:
        (good,) = trainer.export_model(tmp_path / "good")
    assert package.load_policy(good).compute_action(np.zeros(1, np.float32)) in range(2)
    for number, name in enumerate(("marl.runs.atomic:remove", "trap:call", "os:system")):
        changes = {"acts": "scripted", "scripted": {"name": name}}
        bad = forge_export(good, tmp_path / f"bad{number}", changes)
        with pytest.raises(ConfigError, match="comes from a"):
            package.load_policy(bad)
    assert not canary.exists()


def test_what_is_looked_up_later_is_still_refused(run: Path, tmp_path: Path, canary: Path) -> None:
    """The env of an evaluation is only built when the first evaluation is due, long after the checkpoint was read."""
    later = {"interval": 1, "episodes": 1, "env_config": {"env": "trap:Env-v0"}}
    changes = {"env": "copies", "env_config": {"env": "CartPole-v1", "num_agents": 2}, "evaluation": later}
    with Trainer("ppo", env="copies", config={"train_batch_size": 16, "fcnet_hiddens": [4]}) as trainer:
        saved = trainer.save(tmp_path / "carts")
    path = forge(saved, tmp_path / "forged" / "run", **changes)
    with Trainer.from_checkpoint(path) as trainer, pytest.raises(ConfigError, match="--allow trap"):
        trainer.evaluate()
    assert not canary.exists()


# -- what the user allowed ---------------------------------------------------------------------------------------------

ENV_SOURCE = Sort("env", (Trainer,), creators=True, rooms=("marl.envs",))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("os", "passes on|not allowed|form|expected"),
        ("Trainer", "only passes on"),
        ("HOOKS", "only passes on"),
        ("Game.Inner", "one name after the colon"),
        ("make.__globals__", "one name after the colon"),
        ("annotations", "not allowed"),
    ],
)
def test_an_allowed_module_gives_only_what_is_defined_in_it(name: str, why: str) -> None:
    with only_modules(frozenset({"tests"})), pytest.raises(ConfigError, match=why):
        load_object(f"tests.trust.allowed:{name}", ENV_SOURCE)


@pytest.mark.parametrize("env", ["tests.trust.allowed:Game", "tests.trust.allowed:make"])
def test_envs_of_an_allowed_module_are_played(env: str, run: Path, tmp_path: Path) -> None:
    path = forge(run, tmp_path / "forged", env=env)
    with pytest.raises(ConfigError, match="--allow tests"):
        Trainer.from_checkpoint(path)
    with only_modules(frozenset({"tests"})):
        assert callable(load_object(env, ENV_SOURCE))


def test_a_run_with_functions_of_the_user_goes_on_once_their_module_is_allowed(tmp_path: Path, marl: Command) -> None:
    keys = {"policies": ["default_policy"], "policy_mapping_fn": "tests.trust.allowed:first_policy"}
    path = real_run(tmp_path / "mine", env="tests.trust.allowed:Game", **keys)
    assert marl("run", "--resume", path)[0] == 2
    code, out, said = marl("run", "--resume", path, "--allow", "tests")
    assert code == 0, said
    assert "iter 3" in out


def test_the_function_that_chooses_tasks_is_none_of_marl() -> None:
    with only_modules(frozenset()), pytest.raises(ConfigError, match="nothing of marl itself"):
        load_object("marl.runs.atomic:remove", TASKS)


def test_envs_and_rules_of_marl_are_found_by_their_places() -> None:
    from marl.envs.registry import ENV
    from marl.policies.scripted import SCRIPTED

    with only_modules(frozenset()):
        assert load_object("marl.envs.games.two_step:TwoStepGames", ENV)
        assert load_object("marl.envs.games.particles.scripted_prey:flee", SCRIPTED)
        assert load_object("marl.policies.scripted:RandomPolicy", SCRIPTED)
        with pytest.raises(ConfigError, match="may name of marl only"):
            load_object("marl.envs.games.particles.scripted_prey:np", SCRIPTED)


def test_a_name_that_the_user_types_in_the_same_command_is_his_own() -> None:
    name = "tests.trust.allowed:Game.Inner"
    with only_modules(frozenset(), [name]):
        assert callable(load_object(name, ENV_SOURCE))
        with pytest.raises(ConfigError, match="--allow tests"):
            load_object("tests.trust.allowed:Game", ENV_SOURCE)


def test_an_alias_of_a_module_opens_no_way_around_what_was_allowed() -> None:
    """``tests.processes`` imports subprocess; only the former was allowed."""
    with only_modules(frozenset({"tests"})):
        assert load_object("tests.envs.stand_ins.robots_v1:parallel_env", ENV) is robots_v1.parallel_env
        with pytest.raises(ConfigError, match=r"would use the module 'subprocess', which was not allowed"):
            load_object("tests.processes.subprocess:Popen", ENV)
    with only_modules(frozenset()), pytest.raises(ConfigError, match="--allow tests"):
        load_object("tests.envs.stand_ins.robots_v1:parallel_env", ENV)


def test_a_package_before_an_id_is_imported_only_where_it_is_allowed() -> None:
    with only_modules(frozenset()), pytest.raises(ConfigError, match="--allow tests"):
        resolve_env("tests.envs.stand_ins.warehouse:stand-in-warehouse-2ag-v1")
    with only_modules(frozenset({"tests"})):
        resolve_env("tests.envs.stand_ins.warehouse:stand-in-warehouse-2ag-v1")
