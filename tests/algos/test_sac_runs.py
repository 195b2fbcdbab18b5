"""Soft actor-critic in envs of all shapes: turns, absent agents, different spaces, frozen policies, resuming."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from marl import Trainer
from marl.algos.custom_loss import Loss, register_loss
from marl.errors import ConfigError
from tests.algos.paydays import LEARN, SMALL, Payday, learner_of, pupil_of, trainer
from tests.small_envs import Scripted, Step
from tests.training.test_exact_resume import assert_resume_is_exact
from tests.training.trees import differences

pytestmark = pytest.mark.slow  # whole runs or processes


def weights_finite(run: Trainer) -> bool:
    return all(np.isfinite(w).all() for weights in run.get_weights().values() for w in weights.values())


@pytest.mark.parametrize("sees", ["own", "group", "all"])
def test_agents_that_come_go_and_take_turns_are_learned_from(sees: str) -> None:
    turns = [
        Step(["a_1"], {"a_0": 1}),
        Step([], {"a_0": 2}),
        Step(["a_0", "a_1"], {"a_0": 4}),
        Step(["a_1"], {"a_0": 8}, terminated=["a_0"]),
        Step([], {"a_1": 16}, ["__all__"]),
    ]
    with trainer(lambda _: Scripted(["a_0"], turns, agents=["a_0", "a_1"]), critic_sees=sees) as run:
        before = run.get_weights()
        result = run.train()
        assert differences(before, run.get_weights())
        assert weights_finite(run)
        stats = result["info"]["learner"]["default_policy"]["learner_stats"]
        assert {"alpha", "entropy", "critic_loss", "actor_loss", "mean_q", "target_entropy"} <= set(stats)


def test_agents_with_different_spaces_see_each_other_in_their_critics() -> None:
    with trainer(lambda _: Payday({"wolf_0": None, "sheep_0": [0.0, 1.0]}), critic_sees="all") as run:
        run.train()
        assert {p.soft.outputs for p in learner_of(run).actor_critics.values()} == {1, 2}
        # Both observations and actions, and one seat each: 2 + 1 + 3 + 2 + 1.
        assert [p.view.size for p in learner_of(run).actor_critics.values()] == [9, 9]
        assert weights_finite(run)


def test_a_frozen_policy_and_all_that_belongs_to_it_change_by_nothing() -> None:
    keys = {"policies": {"p0": {}, "p1": {}}, "policy_mapping_fn": {"agent_0": "p0", "agent_1": "p1"}}
    with trainer("two_step_game", critic_sees="group", policies_to_train=["p0"], **keys) as run:
        before, pupil = run.get_weights(), pupil_of(run, "p1").state_dict()
        moved = pupil_of(run, "p0").state_dict()
        run.train()
        assert differences(run.get_weights()["p1"], before["p1"]) == []
        assert differences(pupil_of(run, "p1").state_dict(), pupil) == []
        assert differences(run.get_weights()["p0"], before["p0"])
        assert differences(pupil_of(run, "p0").state_dict(), moved)


RESUMED = {**SMALL, "timesteps_per_iteration": 30, "evaluation": {"interval": 2, "episodes": 2}, "seed": 3}


def test_resuming_is_exact_for_box_actions_with_priorities_and_a_filter(tmp_path: Path) -> None:
    keys = {"env": "Pendulum-v1", "prioritized_replay": True, "n_step": 3, "observation_filter": "MeanStdFilter"}
    assert_resume_is_exact("sac", {**RESUMED, **keys}, tmp_path)


def test_resuming_is_exact_for_choices_with_joint_critics(tmp_path: Path) -> None:
    keys = {"env": "two_step_game", "critic_sees": "all", "policies": {"p0": {}, "p1": {"lr": 0.001}}}
    mapping = {"policy_mapping_fn": {"agent_0": "p0", "agent_1": "p1"}}
    assert_resume_is_exact("sac", {**RESUMED, **keys, **mapping}, tmp_path)


def test_a_shared_reward_is_the_groups_sum() -> None:
    env = lambda _: Payday({"a_0": [1.0, 1.0], "a_1": [1.0, 1.0]})  # noqa: E731
    for share, reward in ((False, 1.0), (True, 2.0)):
        with trainer(env, share_reward=share) as run:
            run.train()
            pupil = pupil_of(run)
            assert set(pupil.replay.columns["rewards"][: len(pupil.replay)].tolist()) == {reward}


def test_every_optimiser_has_its_own_step_size_or_the_common_one() -> None:
    keys = {"lr_schedule": [[0, 0.01], [100, 0.02]], "critic_lr": 0.5, "alpha_lr": 0.0}
    with trainer("Pendulum-v1", **keys) as run:
        assert pupil_of(run).step_sizes(50) == pytest.approx({"actor": 0.015, "critic": 0.5, "alpha": 0.0})


class PullToZero(Loss):
    """The actor's mean shall be 0, whatever the critics say."""

    def __call__(self, loss: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        params = self.policy(batch["obs"], batch["agent_index"], batch["legal"])
        self.rows = len(batch["actions"])
        return 0 * loss + params[:, :1].square().mean()

    def stats(self) -> dict[str, float]:
        return {"rows": float(self.rows)}


def test_a_custom_loss_replaces_what_the_actor_minimises() -> None:
    register_loss("pull_to_zero", PullToZero)
    with trainer(
        lambda _: Payday({"a_0": None}), custom_loss="pull_to_zero", **{**LEARN, "timesteps_per_iteration": 400}
    ) as run:
        stats = run.train()["info"]["learner"]["default_policy"]["learner_stats"]
        assert stats["rows"] == 64
        obs = torch.full((1, 2), 0.5)
        params = pupil_of(run).actor(obs, torch.zeros(1, dtype=torch.long), torch.ones(1, 0, dtype=torch.bool))
        assert abs(float(params[0, 0].detach())) < 0.02  # without it: atanh(0.25) = 0.26


def test_exploration_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match="does not fit sac; expected StochasticSampling"):
        trainer("CartPole-v1", exploration_config={"type": "EpsilonGreedy"})
