"""Weighted imitation: numbers by hand, and what the learner does with them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import marl
from marl.algos.marwil.learner import MarwilLearner
from marl.algos.marwil.losses import advantage_weights, imitation_loss, moved_average, value_loss
from marl.errors import ConfigError
from marl.training.trainer import Trainer

SMALL = {"fcnet_hiddens": [16], "evaluation": {"interval": 0}, "train_batch_size": 8, "sgd_minibatch_size": 100}


def test_a_weight_is_the_exponential_of_the_scaled_advantage() -> None:
    weights = advantage_weights(torch.tensor([0.0, 4.0, -2.0]), squared_norm=16.0, beta=2.0, largest=20.0)
    assert weights.tolist() == pytest.approx([1.0, math.exp(2.0), math.exp(-1.0)])


def test_no_weight_is_above_the_largest_even_where_the_exponential_would_overflow() -> None:
    assert advantage_weights(torch.tensor([1e6, 8.0]), 1.0, 1.0, 20.0).tolist() == pytest.approx([20.0, 20.0])


def test_with_beta_zero_all_decisions_weigh_the_same() -> None:
    assert advantage_weights(torch.tensor([5.0, -5.0]), 100.0, 0.0, 20.0).tolist() == [1.0, 1.0]


def test_losses_are_the_weighted_mean_of_minus_log_probabilities_and_the_squared_error() -> None:
    logp = torch.tensor([0.5, 0.25]).log()
    expected = (2.0 * math.log(2) + 0.5 * math.log(4)) / 2
    assert float(imitation_loss(logp, torch.tensor([2.0, 0.5]))) == pytest.approx(expected)
    assert float(value_loss(torch.tensor([1.0, 3.0]), torch.tensor([2.0, 0.0]))) == pytest.approx((1.0 + 9.0) / 2)


def test_the_moving_average_goes_a_share_of_the_way() -> None:
    assert moved_average(100.0, 60.0, 0.25) == pytest.approx(90.0)


# -- the learner -------------------------------------------------------------------------------------------------------


def episodes() -> list[dict[str, Any]]:
    """Two episodes of CartPole: three steps to the end, and two steps that were cut off."""
    obs = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32) * 0.1
    ended = {"obs": obs[:4], "actions": [0, 1, 1], "rewards": [1.0, 2.0, 4.0], "terminated": True}
    return [ended, {"obs": obs[4:], "actions": [1, 0], "rewards": [8.0, 16.0], "terminated": False}]


def trainer(folder: Path, algo: str = "marwil", **keys: Any) -> Trainer:
    if not folder.exists():
        marl.write_trajectories(folder, "CartPole-v1", episodes())
    return Trainer(algo, env="CartPole-v1", config={**SMALL, "input": str(folder), **keys})


def learner_of(run: Trainer) -> MarwilLearner:
    (learner,) = run.learners
    assert isinstance(learner, MarwilLearner)
    return learner


def test_returns_go_to_the_end_and_a_truncated_episode_asks_the_critic(tmp_path: Path) -> None:
    with trainer(tmp_path / "data", gamma=0.5) as run:
        learner = learner_of(run)
        batch = run.source.collect(5).batch
        rows = learner._rows("default_policy", batch)
        last = torch.from_numpy(episodes()[1]["obs"][-1:])
        with torch.inference_mode():
            value = float(learner.critics["default_policy"](last, torch.zeros(1, dtype=torch.long)))
    by_reward = dict(zip(batch.rewards.reshape(-1).tolist(), rows["returns"].tolist(), strict=True))
    assert [by_reward[r] for r in (1.0, 2.0, 4.0)] == pytest.approx([1 + 1 + 1, 2 + 2, 4])
    assert [by_reward[r] for r in (8.0, 16.0)] == pytest.approx([8 + 0.5 * (16 + 0.5 * value), 16 + 0.5 * value])


def test_the_loss_is_the_one_of_the_paper(tmp_path: Path) -> None:
    with trainer(tmp_path / "data", beta=2.0, vf_coeff=0.5, moving_average_sqd_adv_norm_update_rate=0.5) as run:
        learner, name = learner_of(run), "default_policy"
        rows = learner._rows(name, run.source.collect(5).batch)
        (part,) = learner._minibatches(name, rows)
        loss, _ = learner._loss(name, part)
        total = 0.0
        with torch.inference_mode():  # one row after the other, without our losses
            logits = learner.actors[name].model(part["obs"], part["agent_index"])
            values = learner.critics[name](part["obs"], part["agent_index"]).squeeze(1)
            squares = sum(float(r - v) ** 2 for r, v in zip(part["returns"], values, strict=True)) / 5
            norm = 100.0 + 0.5 * (squares - 100.0)
            for i in range(5):
                advantage = float(part["returns"][i] - values[i])
                chosen = float(logits[i].softmax(0)[part["actions"][i]])
                weight = min(20.0, math.exp(2.0 * advantage / math.sqrt(norm)))
                total += (-weight * math.log(chosen) + 0.5 * advantage**2) / 5
    assert float(loss.detach()) == pytest.approx(total, rel=1e-5)


def test_a_permuted_batch_gives_the_same_loss(tmp_path: Path) -> None:
    with trainer(tmp_path / "data") as run:
        learner, name = learner_of(run), "default_policy"
        (part,) = learner._minibatches(name, learner._rows(name, run.source.collect(5).batch))
        before = dict(learner.squared_norm)
        loss, _ = learner._loss(name, part)
        learner.squared_norm = before
        order = torch.tensor([3, 0, 4, 1, 2])
        again, _ = learner._loss(name, {column: tensor[order] for column, tensor in part.items()})
    assert float(loss.detach()) == pytest.approx(float(again.detach()), rel=1e-5)


def test_behaviour_cloning_has_no_critic_and_learns_the_recorded_actions(tmp_path: Path) -> None:
    obs = np.array([[0.1, 0, 0, 0], [-0.1, 0, 0, 0]] * 2, np.float32)
    marl.write_trajectories(
        tmp_path / "data", "CartPole-v1", [{"obs": obs, "actions": [1, 0, 1, 0], "rewards": [0.0] * 4}]
    )
    with trainer(tmp_path / "data", "bc", lr=0.02) as run:
        assert learner_of(run).critics == {}
        for _ in range(60):
            stats = run.train()["info"]["learner"]["default_policy"]["learner_stats"]
        assert [run.compute_action(o) for o in obs[:2]] == [1, 0]
        assert stats["policy_loss"] < 0.05
        assert stats["total_loss"] == stats["policy_loss"]


def test_marwil_prefers_the_better_of_two_recorded_actions_and_cloning_the_more_frequent(tmp_path: Path) -> None:
    obs = np.zeros((1, 4), np.float32)
    bad, good = ({"obs": obs, "actions": [a], "rewards": [r]} for a, r in ((0, 0.0), (1, 10.0)))
    marl.write_trajectories(tmp_path / "data", "CartPole-v1", [bad, bad, good])
    keys = {"train_batch_size": 30, "lr": 0.01, "beta": 1.0}
    with trainer(tmp_path / "data", "marwil", **keys) as weighted, trainer(tmp_path / "data", "bc", lr=0.01) as cloned:
        for _ in range(150):
            weighted.train()
            cloned.train()
        # V = 10 / 3 and c = sqrt(200 / 9) = 4.71: the weights are exp(-0.71) twice and exp(1.41) once, so 4.11 to 0.99.
        assert [weighted.compute_action(obs[0]), cloned.compute_action(obs[0])] == [1, 0]


def test_bc_keeps_beta_zero_and_weights_need_a_critic(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"bc has beta 0.0, not 1.0"):
        trainer(tmp_path / "data", "bc", beta=1.0)
    with pytest.raises(
        ConfigError, match=r"vf_coeff: 0 needs beta: 0, but beta is 1 .*advantages, and these need a critic"
    ):
        trainer(tmp_path / "data", vf_coeff=0.0)
    with pytest.raises(
        ConfigError, match=r"vf_share_layers: true needs vf_coeff above 0, but vf_coeff is 0 .*as in bc"
    ):
        trainer(tmp_path / "data", "bc", vf_share_layers=True)


def test_a_policy_with_a_memory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has a memory, but marwil and bc learn from single moments"):
        trainer(tmp_path / "data", use_lstm=True)


@pytest.mark.parametrize("env", ["traffic", "pettingzoo:classic/tictactoe_v3", "Pendulum-v1"])
def test_marwil_also_learns_from_its_own_play(env: str) -> None:
    keys = {**SMALL, "train_batch_size": 60, "horizon": 20, "num_envs_per_worker": 2}
    with Trainer("marwil", env=env, config=keys) as run:
        before = run.get_weights()
        results = [run.train() for _ in range(3)]
        assert all(len(result["info"]["learner"]) == len(run.policies) for result in results[1:])
        after = run.get_weights()
    for name, weights in after.items():
        assert any(not np.array_equal(array, before[name][key]) for key, array in weights.items())


def test_a_frozen_policy_changes_by_nothing() -> None:
    keys = {**SMALL, "train_batch_size": 30, "policy_mapping_fn": "per_agent", "num_envs_per_worker": 4}
    with Trainer("marwil", env="two_step_game", config=keys) as run:
        run.set_policies_to_train(["agent_0"])
        before = run.get_weights()
        run.train()
        after = run.get_weights()
    assert all(np.array_equal(array, before["agent_1"][key]) for key, array in after["agent_1"].items())
    assert any(not np.array_equal(array, before["agent_0"][key]) for key, array in after["agent_0"].items())


def test_policies_that_share_layers_take_one_step_together() -> None:
    keys = {
        **SMALL, "train_batch_size": 30, "num_envs_per_worker": 4, "policy_mapping_fn": "per_agent",
        "shared": {"encoder": "eyes"},
    }  # fmt: skip
    with Trainer("marwil", env="two_step_game", config=keys) as run:
        (learner,) = run.learners
        result = run.train()
        assert sorted(learner.policies) == sorted(result["info"]["learner"]) == ["agent_0", "agent_1"]
        weights = run.get_weights()
    first, second = weights["agent_0"], weights["agent_1"]
    shared = [key for key in first if np.array_equal(first[key], second[key])]
    assert any("weights.0" in key for key in shared)
    assert any("weights.1" in key for key in first if key not in shared)
