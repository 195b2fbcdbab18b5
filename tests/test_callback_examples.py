"""The examples of callbacks run and show what they say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from examples import (
    backdated_rewards,
    callbacks_pole_angles,
    critic_by_callback,
    curiosity_bonus,
    self_play_by_callback,
)
from marl.algos.joint_view import JointFeatures
from marl.training.trainer import Trainer


def test_pole_angles_are_reported_as_numbers_and_as_a_histogram() -> None:
    result = callbacks_pole_angles.main(2)
    found = result["custom_metrics"]
    assert 0 < found["pole_angle_min"] < found["pole_angle_mean"] < found["pole_angle_max"] < 0.3
    assert len(result["hist_stats"]["pole_angles"]) == 1_000
    assert 0 < result["info"]["learner"]["default_policy"]["learner_stats"]["mean_action"] < 1
    assert result["evaluation"]["custom_metrics"].keys() == found.keys()
    assert result["callback_ok"]


@pytest.mark.slow
def test_back_dated_rewards_teach_faster_than_late_ones() -> None:
    found = backdated_rewards.main(20)
    assert found["back-dated"] > found["late"] + 3


@pytest.mark.slow
def test_curiosity_opens_a_lock_that_luck_does_not() -> None:
    assert curiosity_bonus.main() == {"plain": 0.0, "curious": 1.0}


@pytest.mark.slow
def test_a_critic_by_callback_finds_the_risky_reward() -> None:
    assert critic_by_callback.main() == 8.0


def test_what_the_callback_fills_in_is_what_the_built_in_critic_is_shown() -> None:
    grids: list[Any] = []

    class Watching(critic_by_callback.SeeEverybody):
        def on_sample_end(self, *, samples: Any, **_: Any) -> None:
            grids.append(samples)

    keys = {"callbacks": Watching, "fcnet_hiddens": [4], "train_batch_size": 40, "num_envs_per_worker": 2}
    with Trainer("ppo", env=critic_by_callback.Roomy, config={**keys, "evaluation": {"interval": 0}}) as trainer:
        trainer.train()
    with Trainer("mappo", env="two_step_game", config={**keys, "callbacks": None, "critic_sees": "all"}) as built_in:
        (critic,) = built_in.learners[0].critics.values()  # type: ignore[attr-defined]
    (grid,), view, width = grids, critic.view, critic_by_callback.WIDTH
    own = {name: [getattr(grid, name)[0][..., :width].astype(np.int64)] for name in ("obs", "new_obs")}
    plain = replace(grid, task=view.task, **own)
    t, e, a = np.nonzero(grid.active & ~grid.terminateds)  # nobody asks for values behind an end
    for after, column in ((False, grid.obs[0]), (True, grid.new_obs[0])):
        room = column[t, e, a][:, width:].reshape(-1, 2, width).astype(np.int64)
        filled = JointFeatures(view.task, [0, 1])({0: room}, np.ones((len(t), 2), bool))
        shown = view(plain, t, e, a, after)[:, : filled.shape[1]]  # behind it stands whose value is asked for
        assert torch.equal(filled, shown)
        assert room.any()


def test_self_play_by_callback_collects_snapshots_and_drops_the_oldest() -> None:
    trainer = self_play_by_callback.main(12)
    opponents = [name for name in trainer.policies if name != "main"]
    newest = int(opponents[-1].removeprefix("main_"))
    assert newest >= 3
    assert len(opponents) == self_play_by_callback.MOST_OPPONENTS
    assert opponents == [f"main_{newest - i}" for i in (1, 0)]
    assert trainer.policies_to_train == {"main"}
