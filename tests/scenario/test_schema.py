"""The JSON schema accepts what the loader accepts, and refuses what it refuses."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from marl.algos.presets import ALGOS
from marl.errors import ConfigError
from marl.scenario.config import ALL_ALGO_KEYS, MODEL_KEYS, MULTIAGENT_KEYS, TOP_KEYS
from marl.scenario.load import compose
from marl.scenario.schema import Schema, scenario_schema
from marl.tune.config import TuneConfig

ROOT = Path(__file__).parents[2]
SCENARIOS = sorted(ROOT.glob("scenarios/**/*.yaml"))


@pytest.fixture(scope="module")
def schema() -> Schema:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return scenario_schema({"tune": TuneConfig})


@pytest.fixture(scope="module")
def validator(schema: Schema) -> Draft202012Validator:
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def problems(validator: Draft202012Validator, keys: Any) -> list[str]:
    return [f"{list(error.absolute_path)}: {error.message[:200]}" for error in validator.iter_errors(keys)]


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda p: p.stem)
def test_every_shipped_scenario_is_valid(path: Path, validator: Draft202012Validator) -> None:
    assert problems(validator, yaml.safe_load(path.read_text(encoding="utf-8"))) == []


def test_every_key_stands_at_the_top_with_its_sentence(schema: Schema) -> None:
    properties = schema["properties"]
    assert {*TOP_KEYS, *ALL_ALGO_KEYS, *MODEL_KEYS, *MULTIAGENT_KEYS} <= set(properties)
    assert [key for key, value in properties.items() if not value.get("description") and key != "tune"] == []


def test_every_algorithm_offers_its_own_keys_and_defaults_alone(schema: Schema) -> None:
    for name in ALGOS:
        branch = schema["$defs"][f"algo_{name}"]
        assert set(branch["properties"]) == {"name", *ALGOS[name].family.config.model_fields}
        for key, value in ALGOS[name].defaults.items():
            assert branch["properties"][key]["default"] == value
        assert {"$ref": f"#/$defs/algo_{name}"} in schema["properties"]["algo"]["oneOf"]


VALID: list[dict[str, Any]] = [
    {},
    {"algo": "QMIX", "mixer": "monotonic", "fcnet_hiddens": [8]},
    {"algo": {"name": "dqn", "lr": 0.1}, "policies": ["a", "b"], "policy_mapping_fn": "per_agent"},
    {"algo": {"lr": 0.1}, "clip_param": 0.1},  # no name: ppo
    {"multiagent": {"policies": {"a": {"lr": 0.1, "algo": "dqn"}, "b": {"scripted": "random"}, "c": None}}},
    {"clip_rewards": 1.0, "explore": False, "log_level": "DEBUG", "preprocessor_pref": "deepmind"},
]
WRONG: list[dict[str, Any]] = [
    {"num_worker": 1},
    {"algo": "qmxi"},
    {"algo": {"name": "dqn", "clip_param": 0.1}},
    {"algo": "dqn", "clip_param": 0.1},
    {"mixer": "sum"},
    {"lr": -1},
    {"evaluation": {"episode": 1}},
    {"num_workers": "two"},
    {"log_level": "LOUD"},
    {"preprocessor_pref": "atari"},
]


@pytest.mark.parametrize("keys", VALID, ids=str)
def test_what_the_loader_takes_is_valid(keys: dict[str, Any], validator: Draft202012Validator) -> None:
    compose({"env": "two_step_game", **keys})
    assert problems(validator, {"env": "two_step_game", **keys}) == []


@pytest.mark.parametrize("keys", WRONG, ids=str)
def test_what_the_loader_refuses_is_not(keys: dict[str, Any], validator: Draft202012Validator) -> None:
    with pytest.raises(ConfigError):
        compose({"env": "two_step_game", **keys})
    assert problems(validator, {"env": "two_step_game", **keys})


def test_a_policy_has_no_unknown_keys_and_a_search_may_stand_for_a_value(validator: Draft202012Validator) -> None:
    assert problems(validator, {"env": "e", "policies": {"a": {"lrr": 1}}})
    assert problems(validator, {"env": "e", "lr": {"grid_search": [0.1, 0.2]}, "gamma": {"uniform": [0.9, 1.0]}}) == []
    assert problems(validator, {"env": "e", "lr": {"grid_serch": [0.1, 0.2]}})
