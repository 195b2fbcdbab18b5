"""Odd input, and going on from checkpoints under other circumstances: what is refused, and what works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marl.algos.presets import ALGOS
from marl.errors import CheckpointError, ConfigError, SpaceMismatchError, UserError
from marl.scenario.describe import describe
from marl.scenario.load import compose, load_scenario
from marl.training.trainer import Trainer
from tests.small_envs import Scripted, Step
from tests.training.test_odd_envs import PPO, QMIX
from tests.training.trees import differences


def test_null_values_survive_the_complete_form() -> None:
    scenario = compose({"env": "e", "algo": {"name": "qmix", "grad_clip": None}})
    again = compose(describe(scenario))
    assert again.preset.configure(**again.algo_keys).grad_clip is None
    assert describe(again) == describe(scenario)


def test_what_makes_a_preset_cannot_be_changed_under_its_name() -> None:
    with pytest.raises(ConfigError, match=r"vdn has mixer 'sum', not 'monotonic'. Use algo qmix"):
        ALGOS["vdn"].configure(mixer="monotonic")


def test_restoring_into_a_used_trainer_is_exact(tmp_path: Path) -> None:
    with Trainer("ppo", env="CartPole-v1", config=PPO) as trainer:
        trainer.save(tmp_path / "start")
        trainer.train()
        expected = trainer.get_weights()
        trainer.train()
        trainer.restore(tmp_path / "start")
        trainer.train()
        assert differences(trainer.get_weights(), expected) == []


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"seed": 9}, "seed"), ({"buffer_size": 70}, "algo.buffer_size"), ({"prioritized_replay": True}, "algo.prioritized_replay"),
     ({"mixing_embed_dim": 8}, "algo.mixing_embed_dim"), ({"num_envs_per_worker": 2}, "num_envs_per_worker"), ({"fcnet_hiddens": [9]}, "model.fcnet_hiddens")],
)  # fmt: skip
def test_a_run_does_not_go_on_with_keys_that_its_state_depends_on(
    changes: dict[str, Any], name: str, tmp_path: Path
) -> None:
    with Trainer("qmix", env="two_step_game", config=QMIX) as trainer:
        trainer.train()
        trainer.save(tmp_path / "here")
    with (
        Trainer("qmix", env="two_step_game", config={**QMIX, **changes}) as other,
        pytest.raises(CheckpointError, match=name),
    ):
        other.restore(tmp_path / "here")
    with Trainer("qmix", env="two_step_game", config={**QMIX, "lr": 0.1, "stop": {"timesteps_total": 5}}) as other:
        other.restore(tmp_path / "here")


def only_the_first(policy: str, batch: Any) -> bool:
    return policy == "agent_0"


def test_a_function_that_chooses_who_learns_is_found_again_by_its_name(tmp_path: Path) -> None:
    keys = {**PPO, "policy_mapping_fn": "per_agent", "policies_to_train": only_the_first}
    with Trainer("ppo", env="two_step_game", config=keys) as trainer:
        trainer.train()
        trainer.save(tmp_path / "here")
    with Trainer.from_checkpoint(tmp_path / "here", allow=["tests"]) as again:
        assert again.train()["policies_to_train"] == ["agent_0"]


def test_a_restored_run_does_not_look_for_what_it_once_loaded(tmp_path: Path) -> None:
    with Trainer("ppo", env="two_step_game", config=PPO) as first:
        first.save(tmp_path / "first")
    with Trainer(
        "ppo", env="two_step_game", config={**PPO, "load": {"default_policy": str(tmp_path / "first")}}
    ) as second:
        second.save(tmp_path / "second")
    (tmp_path / "first").rename(tmp_path / "gone")
    Trainer.from_checkpoint(tmp_path / "second").stop()


def test_a_damaged_older_checkpoint_does_not_end_the_run(tmp_path: Path) -> None:
    with Trainer("ppo", env="two_step_game", config={**PPO, "checkpoint_freq": 1}, directory=tmp_path) as trainer:
        trainer.train()
        (tmp_path / "checkpoints" / "checkpoint_000001" / "manifest.json").write_text("junk")
        trainer.train()
    assert (tmp_path / "checkpoints" / "checkpoint_000002" / "manifest.json").exists()


def test_an_evaluation_mapping_to_another_kind_is_refused_before_the_run() -> None:
    keys = {
        **PPO,
        "env": "traffic",
        "policies": ["car", "traffic_light"],
        "evaluation": {"policy_mapping_fn": {"car_*": "traffic_light", "*": "car"}},
    }
    with pytest.raises(
        SpaceMismatchError, match=r"evaluation.policy_mapping_fn sends 'car_\*\[0\]' to policy 'traffic_light'"
    ):
        Trainer("ppo", config=keys)


@pytest.mark.parametrize(
    ("policies", "text"),
    [({"p": {"algo": 5}}, r"policies.p.algo = 5"), ({"p": {"exploration_config": 5}}, "policies.p.exploration_config = 5"),
     ({"p": {"scripted": {1: 2}}}, "policies.p.scripted"), ({"p": {"scripted": {"nam": "random"}}}, "unknown key 'nam'")],
)  # fmt: skip
def test_odd_values_in_a_policys_section_are_named(policies: dict[str, Any], text: str) -> None:
    with pytest.raises(UserError, match=text):
        Trainer("ppo", env="two_step_game", config={"policies": policies})


@pytest.mark.parametrize("points", [[[0, 1e-3], [10, -1.0]], [[100, 1e-3], [10, 1e-4]], []])
def test_schedules_that_make_no_sense_are_refused(points: list[Any]) -> None:
    with pytest.raises(ConfigError, match="lr_schedule"):
        compose({"env": "e", "algo": {"name": "ppo", "lr_schedule": points}})


def test_a_scenario_and_separate_keys_cannot_be_given_together() -> None:
    with pytest.raises(ConfigError, match="not both"):
        Trainer("qmix", scenario=compose({"env": "two_step_game"}))


def test_anchors_and_merges_in_a_scenario_work(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(
        "env: two_step_game\nmultiagent:\n  policies:\n    a: &base {gamma: 0.5}\n    b: {<<: *base, lr: 0.1}\n"
    )
    assert load_scenario(path).multiagent.policies["b"] == {"gamma": 0.5, "lr": 0.1}


def test_a_checkpoint_imports_no_module_that_was_not_allowed() -> None:
    from marl.registry import import_module, only_modules

    with only_modules(frozenset()), pytest.raises(ConfigError, match="--allow json"):
        import_module("json", "imports")
    with only_modules(frozenset({"json"})):
        import_module("json", "imports")


def test_keys_of_an_algorithm_do_not_change_which_one_it_is() -> None:
    from marl.scenario.load import apply

    raw: dict[str, Any] = {"algo": "dqn"}
    apply(raw, "algo", {"lr": 0.1})
    assert raw["algo"] == {"name": "dqn", "lr": 0.1}
    apply(raw, "algo", "vdn")
    assert raw["algo"] == {"name": "vdn", "lr": 0.1}


def test_a_goal_on_the_training_reward_stops_without_evaluations() -> None:
    keys = {**PPO, "env": "two_step_game", "goal": {"episode_reward_mean": 1}, "stop": {"goal": True}}
    with Trainer("ppo", config=keys) as trainer:
        assert trainer.train()["done"]


@pytest.mark.parametrize(("algo", "wrong"), [("ppo", "EpsilonGreedy"), ("dqn", "StochasticSampling")])
def test_a_policys_own_exploration_must_fit_its_algorithm(algo: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=f"policies.p.exploration_config.type {wrong} does not fit {algo}"):
        Trainer(algo, env="two_step_game", config={"policies": {"p": {"exploration_config": {"type": wrong}}}})


def test_a_constant_of_a_policy_replaces_an_inherited_schedule() -> None:
    keys = {"env": "two_step_game", "algo": {"name": "ppo", "lr_schedule": [[0, 0.1]]}, "policies": {"p": {"lr": 0.5}}}
    with Trainer(config={**PPO, **keys}) as trainer:
        assert trainer.setup.roles["p"].config.lr_schedule is None
        assert trainer.train()["info"]["learner"]["p"]["learner_stats"]["cur_lr"] == 0.5


def test_numpy_values_in_env_config_survive_save_and_restore(tmp_path: Path) -> None:
    make = lambda config: Scripted(["a_0"], [Step([], {}, ["__all__"])], agents=["a_0"])  # noqa: E731
    with Trainer("ppo", env=make, config={**PPO, "env_config": {"m": np.eye(2)}}) as trainer:
        trainer.save(tmp_path / "here")
        saved = trainer.get_weights()
        trainer.set_weights({name: {k: v * 0 for k, v in arrays.items()} for name, arrays in saved.items()})
        assert differences(trainer.get_weights(), saved)
        trainer.restore(tmp_path / "here")
        assert differences(trainer.get_weights(), saved) == []
