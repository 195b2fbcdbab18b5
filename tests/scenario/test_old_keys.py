"""Keys of other frameworks are refused with the way to say the same here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from marl.algos.presets import ALGOS
from marl.errors import ConfigError
from marl.policies.config import ExplorationConfig
from marl.rollout.config import EvaluationConfig
from marl.scenario.config import ALL_ALGO_KEYS, MODEL_KEYS, MULTIAGENT_KEYS, TOP_KEYS
from marl.scenario.load import compose
from marl.scenario.resolve import resolve
from marl.scenario.rllib_keys import OLD_KEYS

OURS = {*TOP_KEYS, *ALL_ALGO_KEYS, *MODEL_KEYS, *MULTIAGENT_KEYS, *ExplorationConfig.model_fields}


def test_no_key_of_ours_is_in_the_table() -> None:
    assert OURS & set(OLD_KEYS) == set()
    assert set(EvaluationConfig.model_fields) & set(OLD_KEYS) == set()


@pytest.mark.parametrize("key", sorted(OLD_KEYS))
def test_an_old_key_is_refused_with_its_own_hint(key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        compose({"env": "two_step_game", key: 1})
    assert str(refused.value) == f"config: unknown key {key!r}. Here, {OLD_KEYS[key]}."


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"model": {"squash_to_range": True}}, "unknown key 'model.squash_to_range'. Here, say normalize_actions"),
        ({"model": {"no_final_linear": True}}, "Here, the last layer always has one unit"),
        ({"algo": {"name": "dqn", "target_update": 3}}, "algo dqn: unknown key 'target_update'. Here, say target_update_every"),
        ({"exploration_config": {"type": "EpsilonGreedy", "epsilon_start": 1.0}}, "Here, exploration_config says it"),
    ],
)  # fmt: skip
def test_so_it_is_inside_of_a_section(keys: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        compose({"env": "two_step_game", **keys})


def test_so_it_is_for_a_single_policy() -> None:
    with pytest.raises(ConfigError, match=r"policies\.p: unknown key 'no_final_linear'\. Here, the last layer"):
        resolve(compose({"env": "two_step_game", "policies": {"p": {"no_final_linear": True}}}))


def test_keys_that_the_hints_name_exist() -> None:
    named = (
        "normalize_actions",
        "horizon",
        "output",
        "critic_sees",
        "gae_lambda",
        "target_update_every",
        "updates_per_step",
    )
    said = " ".join(OLD_KEYS.values())
    for key in (*named, "custom_model", "recreate_failed_workers", "collection", "torch_threads"):
        assert key in said
        assert key in OURS


def test_an_algorithm_that_was_registered_later_does_not_upset_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys of the built-in ones are known by name; one of the user's own is not among them."""
    monkeypatch.setattr(ALGOS, "_items", dict(ALGOS._items))
    monkeypatch.setattr(ALGOS, "_added", set(ALGOS._added))
    ALGOS.put("registered_later", replace(ALGOS["dqn"], name="registered_later"))
    with pytest.raises(ConfigError, match=r"ppo has no key 'dueling'; it belongs to .*dqn"):
        compose({"env": "CartPole-v1", "algo": {"name": "ppo", "dueling": True}})
