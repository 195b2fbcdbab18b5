"""An algorithm of the user's own: by registration, by path, in a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import marl
from marl.algos.presets import ALGOS
from marl.errors import ConfigError, UnknownNameError
from marl.scenario.describe import describe
from marl.scenario.load import compose
from marl.scenario.schema import scenario_schema
from marl.training.trainer import Trainer
from tests.algos.own_learners import Cautious, Nameless

PATH = "tests.algos.own_learners:Cautious"
SMALL: dict[str, Any] = {"env": "two_step_game", "fcnet_hiddens": [4], "evaluation": {"interval": 0}}


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(ALGOS, "_items", dict(ALGOS._items))
    monkeypatch.setattr(ALGOS, "_added", set(ALGOS._added))
    marl.register_algorithm("cautious", Cautious)
    return "Cautious"


def learned(trainer: Trainer) -> tuple[float, float, int]:
    stats = trainer.train()["info"]["learner"]["default_policy"]["learner_stats"]
    return stats["patience"], stats["cur_lr"], trainer.timesteps_total


def test_a_registered_algorithm_trains_with_its_own_defaults_and_keys(registered: str) -> None:
    with Trainer(registered, config={**SMALL, "algo": {"patience": 5}}) as trainer:
        assert learned(trainer) == (5.0, 0.125, 32)
        assert ALGOS["cautious"].summary == "ppo that counts how often it was asked."


def test_a_path_needs_no_registration_and_survives_save_and_restore(tmp_path: Path) -> None:
    with Trainer(PATH, config={**SMALL, "lr": 0.25}) as trainer:
        assert learned(trainer) == (3.0, 0.25, 32)
        saved = trainer.save(tmp_path / "checkpoint")
        assert describe(trainer.scenario)["algo"]["name"] == PATH
    with Trainer.from_checkpoint(saved, allow=["tests"]) as again:
        assert learned(again) == (3.0, 0.25, 64)
    with pytest.raises(
        ConfigError, match=r"comes from a checkpoint and would use the module 'tests\.algos.*--allow tests"
    ):
        Trainer.from_checkpoint(saved)


def test_a_policy_may_have_it_beside_built_in_ones() -> None:
    policies = {"a": {"algo": PATH}, "b": {}}
    keys = {
        **SMALL,
        "policies": policies,
        "policy_mapping_fn": {"agent_0": "a", "agent_1": "b"},
        "train_batch_size": 32,
    }
    with Trainer("ppo", config={**keys, "sgd_minibatch_size": 32}) as trainer:
        info = trainer.train()["info"]["learner"]
    assert "patience" in info["a"]["learner_stats"]
    assert "patience" not in info["b"]["learner_stats"]


def test_unknown_names_say_how_to_bring_ones_own() -> None:
    with pytest.raises(UnknownNameError, match=r"Did you mean 'ppo'\? One of your own is named package\.module:Class"):
        compose({"env": "e", "algo": "pppo"})


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("tests.algos.own_learners:Nameless", "has no attribute `like`"),
        ("tests.algos.own_learners:NOT_A_LEARNER", "expected a class derived from marl.Learner"),
        ("tests.algos.own_learners:Cautios", "Did you mean 'Cautious'"),
        ("no_such_module:Cautious", "cannot import 'no_such_module'"),
    ],
)
def test_what_is_no_algorithm_is_refused(path: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        compose({"env": "two_step_game", "algo": path})


def test_built_in_names_stay_what_they_are() -> None:
    with pytest.raises(ConfigError, match="there is an algorithm 'ppo' already"):
        marl.register_algorithm("ppo", Cautious)
    with pytest.raises(ConfigError, match="cannot be called"):
        marl.register_algorithm("a:b", Cautious)
    with pytest.raises(ConfigError, match="`like`"):
        marl.register_algorithm("nameless", Nameless)


def test_the_json_schema_has_a_place_for_registered_algorithms(registered: str) -> None:
    rules = scenario_schema({})["allOf"]
    (mine,) = [rule for rule in rules if "cautious" in str(rule["if"])]
    refused = mine["then"]["properties"]
    assert "mixer" in refused  # of qmix
    assert "clip_param" not in refused  # of ppo, which it derives from
