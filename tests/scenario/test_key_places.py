"""Keys in the wrong section are told where they belong; numbers and lists may be written as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from marl.algos.presets import ALGOS
from marl.errors import ConfigError
from marl.scenario.config import Scenario
from marl.scenario.key_places import SECTIONS, homes_of
from marl.scenario.load import apply, compose, parse_set
from marl.scenario.yaml_text import parse_yaml


def refusal(**keys: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        compose({"env": "two_step_game", "algo": {"name": "ppo"}, **keys})
    return str(refused.value)


def changed(*texts: str) -> Scenario:
    raw: dict[str, Any] = {"env": "two_step_game", "algo": "ppo"}
    for text in texts:
        apply(raw, *parse_set(text))
    return compose(raw)


@pytest.mark.parametrize(
    ("keys", "advice"),
    [
        ({"model": {"lr": 1}}, "lr belongs under algo: `algo: {lr: ...}`"),
        ({"algo": {"name": "ppo", "fcnet_hiddens": [8]}}, "belongs under model: `model: {fcnet_hiddens: ...}`"),
        ({"algo": {"name": "ppo", "num_workers": 1}}, "num_workers belongs to the scenario itself, in no section"),
        ({"evaluation": {"horizon": 9}}, "horizon belongs to the scenario itself, in no section"),
        ({"interval": 5}, "belongs under evaluation: `evaluation: {interval: ...}`, or under exploitability"),
        ({"initial_epsilon": 1}, "belongs under exploration_config: `exploration_config: {initial_epsilon: ...}`"),
        ({"momentum": 0.9}, "belongs under algo.optimizer: `algo: {optimizer: {momentum: ...}}`"),
        ({"timesteps_total": 9}, "belongs under stop: `stop: {timesteps_total: ...}`"),
        ({"population": {"kind": "self_play", "groups": {}}}, "belongs under multiagent: `multiagent: {groups: ...}`"),
    ],
)
def test_a_key_in_the_wrong_section_is_told_where_it_belongs(keys: dict[str, Any], advice: str) -> None:
    assert advice in refusal(**keys)


def test_a_typo_is_still_a_typo() -> None:
    assert "Did you mean 'train_batch_size'?" in refusal(algo={"name": "ppo", "train_batch_sise": 1})
    assert "it belongs to apex, dqn" in refusal(algo={"name": "ppo", "double_q": True})


def test_every_key_of_every_section_is_found_at_home() -> None:
    for section, keys in SECTIONS.items():
        for key in keys.model_fields:
            assert section in homes_of(key)
    for name in ALGOS:
        for key in ALGOS[name].family.config.model_fields:
            assert "algo" in homes_of(key)
    assert homes_of("nobody's") == []


def test_powers_of_ten_are_numbers() -> None:
    assert changed("train_batch_size=1e3", "horizon=2E2", "stop.timesteps_total=1e6").algo["train_batch_size"] == 1000
    assert changed("lr=5e-4").algo["lr"] == 0.0005
    assert changed("stop={timesteps_total: 1e6}").stop == {"timesteps_total": 1_000_000.0}
    read = parse_yaml("[1e3, -1e3, 2.5e6, 1e-3, .5e1, 1_0e2, 1e30]", "it")
    assert read == [1000, -1000, 2.5e6, 0.001, 5.0, 1000, 1e30]
    assert [type(number) for number in read] == [int, int, float, float, float, int, float]


def test_texts_that_only_look_like_powers_of_ten_stay_texts() -> None:
    assert parse_yaml("['1e3', 1e, e3, 1e3x, 1e3.5, v1e3]", "it") == ["1e3", "1e", "e3", "1e3x", "1e3.5", "v1e3"]


@pytest.mark.parametrize("text", ["fcnet_hiddens=64,64", "model.fcnet_hiddens=64, 64", "fcnet_hiddens=[64, 64]"])
def test_a_list_needs_no_brackets_on_the_command_line(text: str) -> None:
    assert changed(text).model.fcnet_hiddens == [64, 64]


def test_a_single_value_is_a_list_of_one_only_where_nothing_else_fits() -> None:
    assert changed("fcnet_hiddens=64").model.fcnet_hiddens == [64]
    assert changed("policies_to_train=red,blue").multiagent.policies_to_train == ["red", "blue"]
    assert changed("policies_to_train=package.module:choose").multiagent.policies_to_train == "package.module:choose"
    assert changed("conv_filters=null").model.conv_filters is None
    assert changed("env_config.name=a,b").env_config == {"name": "a,b"}
