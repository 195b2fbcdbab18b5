"""Hierarchies are ordinary scenarios: levels are frozen, loaded, given other algorithms and resumed like any policies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marl.envs.games.windy_maze import WindyMaze
from marl.runs.checkpoint import read_part
from marl.training.trainer import Trainer
from tests.small_envs import Scripted, Step
from tests.training.test_exact_resume import ON_POLICY, assert_resume_is_exact

MOVES = [[-0.2, 0], [0, 0.2], [0.2, 0], [0, -0.2]]
LEVELS = [
    {"name": "top_level", "horizon": 2, "goals": {"changes": [[2 * a, 2 * b] for a, b in MOVES], "tolerance": 0.1}},
    {"name": "mid_level", "horizon": 3, "goals": {"changes": MOVES}},
    {"name": "low_level"},
]
SCENARIO: dict[str, Any] = {
    "env": "windy_maze",
    "env_config": {"rooms": [1, 2], "room_size": 3, "limit": 30},
    "wrappers": [{"hierarchy": {"features": [0, 1], "levels": LEVELS}}],
    "policy_mapping_fn": "levels",
    "num_envs_per_worker": 4,
    "fcnet_hiddens": [16],
    "train_batch_size": 240,
    "sgd_minibatch_size": 60,
    "num_sgd_iter": 2,
    "evaluation": {"interval": 0},
}
NAMES = ["top_level", "mid_level", "low_level"]


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [n for n in NAMES if any(not np.array_equal(before[n][key], after[n][key]) for key in before[n])]


def test_training_the_top_alone_leaves_the_other_levels_unchanged_bit_for_bit() -> None:
    with Trainer("ppo", config={**SCENARIO, "policies_to_train": ["top_level"]}) as trainer:
        before = trainer.get_weights()
        result = trainer.train()
        assert changed(before, trainer.get_weights()) == ["top_level"]
        trainer.set_policies_to_train(NAMES)
        trainer.train()
        assert changed(before, trainer.get_weights()) == NAMES
    assert sorted(result["policy_reward_mean"]) == sorted(NAMES)


def test_one_level_is_loaded_from_an_earlier_run_and_the_others_start_anew(tmp_path: Path) -> None:
    with Trainer("ppo", config=SCENARIO) as earlier:
        earlier.train()
        trained = earlier.get_weights()
        earlier.save(tmp_path / "earlier")
    keys = {**SCENARIO, "seed": 1, "load": {"low_level": str(tmp_path / "earlier")}}
    with Trainer("ppo", config=keys) as later:
        assert changed(trained, later.get_weights()) == ["top_level", "mid_level"]


def test_a_low_level_fits_under_another_number_of_levels(tmp_path: Path) -> None:
    with Trainer("ppo", config=SCENARIO) as three:
        three.train()
        low = three.get_weights()["low_level"]
        three.save(tmp_path / "three")
    two = {**SCENARIO, "wrappers": [{"hierarchy": {"features": [0, 1], "levels": LEVELS[1:]}}]}
    two |= {
        "policy_mapping_fn": {"mid_level_*": "mid_level", "*": "low_level"},
        "load": {"low_level": str(tmp_path / "three")},
    }
    with Trainer("ppo", config=two) as trainer:
        loaded = trainer.get_weights()
    assert sorted(loaded) == ["low_level", "mid_level"]
    assert all(np.array_equal(loaded["low_level"][key], low[key]) for key in low)


def test_levels_learn_by_different_algorithms_in_one_run() -> None:
    dqn = {"algo": "dqn", "learning_starts": 50, "train_batch_size": 16, "updates_per_step": 0.1}
    keys = {**SCENARIO, "policies": {"top_level": {}, "mid_level": {"algo": "a2c"}, "low_level": dqn}}
    with Trainer("ppo", config=keys) as trainer:
        before = trainer.get_weights()
        result = trainer.train()
        assert changed(before, trainer.get_weights()) == NAMES
    stats = {name: block["learner_stats"] for name, block in result["info"]["learner"].items()}
    assert "mean_q" in stats["low_level"]
    assert "entropy" in stats["top_level"]
    assert "entropy" in stats["mid_level"]


class Forgetful(WindyMaze):
    """Cannot tell its state: episodes come back by replaying them."""

    get_state = None  # type: ignore[assignment]
    set_state = None  # type: ignore[assignment]


@pytest.mark.parametrize("env", [WindyMaze, Forgetful])
def test_a_run_resumes_exactly_in_the_middle_of_goals(env: type[WindyMaze], tmp_path: Path) -> None:
    dqn = {"algo": "dqn", "learning_starts": 20, "train_batch_size": 16, "buffer_size": 150, "updates_per_step": 0.2}
    keys = {**SCENARIO, **ON_POLICY, "env": env, "num_envs_per_worker": 2, "train_batch_size": 40}
    keys["policies"] = {"top_level": {}, "mid_level": {}, "low_level": dqn}
    assert_resume_is_exact("ppo", keys, tmp_path)
    if env is WindyMaze:
        env_ids = read_part(tmp_path / "half", "workers")["workers"][0]["player"]["world"]["lanes"]
        used = [
            post["life"]["used"] for env_id in env_ids for post in env_id["state"]["posts"].values() if post["life"]
        ]
        assert any(count > 0 for counts in used for count in counts)


def test_an_env_that_exposes_the_levels_itself_needs_no_wrapper() -> None:
    steps = [
        Step(["low_level_1"], {"top_level_0": 1}),
        Step(["low_level_1"], {"low_level_1": 2}),
        Step(["top_level_0"], {"low_level_1": 2}, terminated=["low_level_1"]),
        Step([], {"top_level_0": 4}, ["__all__"], last=["top_level_0"]),
    ]
    keys = {k: v for k, v in SCENARIO.items() if k not in ("env", "env_config", "wrappers")}
    keys["env"] = lambda _: Scripted(["top_level_0"], steps, agents=["top_level_0", "low_level_1"])
    with Trainer("ppo", config=keys) as trainer:
        assert sorted(trainer.get_weights()) == ["low_level", "top_level"]
        assert trainer.train()["policy_reward_mean"] == {"top_level": 5.0, "low_level": 4.0}
