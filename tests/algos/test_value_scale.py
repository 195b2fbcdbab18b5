"""Critics that learn scaled returns: the statistics by hand, values in units of rewards wherever they are used or shown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from marl.algos.central_critic.critic import last_layers
from marl.algos.central_critic.learner import CentralCriticLearner
from marl.algos.central_critic.losses import value_loss
from marl.algos.joint_view import team_rewards
from marl.data.batch import MultiAgentBatch
from marl.data.returns import fold_rewards, gae
from marl.policies.mlp import MLP
from marl.policies.networks import seeded
from marl.policies.policy import Inputs
from marl.policies.stochastic import StochasticPolicy
from marl.policies.value_scale import KEPT, SMALLEST, ValueScale
from marl.training.trainer import Trainer

KEYS: dict[str, Any] = {
    "env": "two_step_game", "train_batch_size": 40, "sgd_minibatch_size": 16, "num_sgd_iter": 2, "num_envs_per_worker": 4,
    "fcnet_hiddens": [8, 6], "evaluation": {"interval": 0}, "seed": 3, "normalize_values": True,
}  # fmt: skip
OWN_LAYERS: dict[str, dict[str, Any]] = {
    "shared layers": {"vf_share_layers": True},
    "memory": {"use_gru": True, "lstm_cell_size": 5, "max_seq_len": 4},
}
CRITICS: dict[str, dict[str, Any]] = {"own": {}, "group": {"critic_sees": "group"}, **OWN_LAYERS}


def learner_of(trainer: Trainer) -> CentralCriticLearner:
    learner = trainer.learners[0]
    assert isinstance(learner, CentralCriticLearner)
    return learner


# -- the statistics ------------------------------------------------------------------------------------------------


def test_mean_and_deviation_of_two_batches_by_hand() -> None:
    scale = ValueScale()
    assert scale.mean_and_deviation == (0.0, 1.0)
    scale.observe(torch.tensor([1.0, 3.0]), None)
    assert scale.mean_and_deviation == pytest.approx((2.0, 1.0))  # the first batch counts whole
    scale.observe(torch.tensor([6.0, 6.0, 6.0]), None)
    old, new = KEPT * (1 - KEPT), 1 - KEPT
    mean = (2.0 * old + 6.0 * new) / (old + new)
    square = ((1.0 + 9.0) / 2 * old + 36.0 * new) / (old + new)
    assert scale.mean_and_deviation == pytest.approx((mean, (square - mean**2) ** 0.5))
    shown = scale.normalized(torch.tensor([mean, 6.0]))
    assert shown.tolist() == pytest.approx([0.0, (6.0 - mean) / (square - mean**2) ** 0.5], abs=1e-6)
    assert scale.in_reward_units(shown).tolist() == pytest.approx([mean, 6.0])


def test_returns_that_are_all_alike_are_not_divided_by_nothing() -> None:
    scale = ValueScale()
    scale.observe(torch.full((5,), 1e4), None)
    assert scale.mean_and_deviation == pytest.approx((1e4, SMALLEST), rel=1e-3)


def test_values_stay_what_they_were_when_the_statistics_move() -> None:
    network, scale = MLP([3, 5, 2], ["tanh"], seeded(0)), ValueScale()
    x = torch.randn(7, 3, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        other, before = network(x)[:, 0], scale.in_reward_units(network(x)[:, 1])
        for targets in (torch.tensor([100.0, 300.0]), torch.tensor([-50.0, 0.0, 1.0])):
            scale.observe(targets, network)
            torch.testing.assert_close(scale.in_reward_units(network(x)[:, 1]), before, rtol=0, atol=1e-3)
        torch.testing.assert_close(network(x)[:, 0], other)  # only the last output is a value
        assert not torch.allclose(network(x)[:, 1], before, atol=0.1)


def test_values_of_actions_begin_at_the_first_mean_and_stay_what_they_were_from_then_on() -> None:
    """Values that rise from 0 rise first where the policy goes, and it would follow them."""
    network, scale = MLP([3, 5, 4], ["tanh"], seeded(0)), ValueScale()
    x = torch.randn(7, 3, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        first = network(x)
        scale.observe(torch.tensor([90.0, 110.0]), network, outputs=4)
        before = scale.in_reward_units(network(x))
        torch.testing.assert_close(before, 100.0 + 10.0 * first)
        for targets in (torch.tensor([-50.0, 0.0, 1.0]), torch.tensor([7.0, 9.0])):
            scale.observe(targets, network, outputs=4)
            torch.testing.assert_close(scale.in_reward_units(network(x)), before, rtol=0, atol=1e-3)


def test_huber_errors_of_values_are_squared_inside_and_linear_outside() -> None:
    values, targets = torch.tensor([1.0, 5.0, -4.0]), torch.tensor([0.0, 0.0, 0.0])
    loss, slope = value_loss(values, targets, values, None, 2.0)
    assert loss.tolist() == pytest.approx([1.0, 2 * 2 * 5 - 4, 2 * 2 * 4 - 4])
    assert slope.tolist() == pytest.approx([2.0, 4.0, -4.0])
    # Clipped to 0.5 above the old value, the second one has the larger error before it moved: it gains nothing.
    clipped, slope = value_loss(values, targets, torch.tensor([1.0, 6.0, -4.0]), 0.5, 2.0)
    assert clipped.tolist() == pytest.approx([1.0, 2 * 2 * 5.5 - 4, 2 * 2 * 4 - 4])
    assert slope.tolist() == pytest.approx([2.0, 0.0, -4.0])


# -- learning ------------------------------------------------------------------------------------------------------


def paid(batch: MultiAgentBatch, factor: float) -> MultiAgentBatch:
    batch.rewards *= factor
    return batch


@pytest.mark.parametrize("critic", sorted(CRITICS))
def test_a_policy_learns_the_same_from_rewards_a_thousand_times_larger(critic: str) -> None:
    """Both begin with values of 0, so that nothing but the size of rewards differs."""
    weights = []
    for factor in (1.0, 1000.0):
        with Trainer("ppo", config={**KEYS, **CRITICS[critic]}) as trainer:
            learner = learner_of(trainer)
            network = learner.networks["default_policy"]
            layers = last_layers(network.actor.model if network.critic is None else network.critic.network)
            assert layers is not None
            with torch.no_grad():
                layers.layers[-1].weight[-1].zero_()
            for _ in range(3):
                learner.learn(paid(trainer.workers.collect(10).batch, factor))
            weights.append({**trainer.get_weights()["default_policy"], **_state(learner)})
            mean, deviation = _scale(learner).mean_and_deviation
            assert (mean / factor, deviation / factor) == pytest.approx((3.2, 3.4), abs=2.0)
    for name, array in weights[0].items():
        if not name.endswith("sums"):
            np.testing.assert_allclose(weights[1][name], array, rtol=0, atol=2e-3, err_msg=name)


def _scale(learner: CentralCriticLearner) -> ValueScale:
    actor, critic = learner.actors["default_policy"], learner.critics["default_policy"]
    scale = actor.value_scale if actor.shares_value else critic.value_scale
    assert scale is not None
    return scale


def _state(learner: CentralCriticLearner) -> Mapping[str, Any]:
    critic = learner.networks["default_policy"].critic
    return {} if critic is None else {name: tensor.numpy().copy() for name, tensor in critic.state_dict().items()}


def test_the_first_batch_of_targets_is_shown_to_the_loss_with_mean_zero_and_deviation_one() -> None:
    with Trainer("mappo", config={**KEYS, "share_reward": True}) as trainer:
        learner = learner_of(trainer)
        rows = learner._with_advantages("default_policy", paid(trainer.workers.collect(10).batch, 50.0))
        data = learner._train_batch("default_policy", rows).data
        mean, deviation = _scale(learner).mean_and_deviation
    assert float(data["value_targets"].mean()) == pytest.approx(0.0, abs=1e-5)
    assert float(data["value_targets"].std(unbiased=False)) == pytest.approx(1.0, abs=1e-5)
    assert rows["value_targets"].std() == pytest.approx(deviation)
    expected = (rows["values"] - mean) / deviation
    np.testing.assert_allclose(data["values"].numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("critic", ["own", "group"])
def test_advantages_are_made_of_values_in_units_of_rewards(critic: str) -> None:
    with Trainer("ppo", config={**KEYS, **CRITICS[critic], "share_reward": True}) as trainer:
        learner = learner_of(trainer)
        learner.learn(paid(trainer.workers.collect(10).batch, 40.0))
        batch = paid(trainer.workers.collect(10).batch, 40.0)
        rows, order = learner._with_advantages("default_policy", batch), batch.for_policy("default_policy")
        shown = torch.from_numpy(rows["critic_features"])
        with torch.no_grad():
            index = torch.from_numpy(rows["agent_index"])
            raw = learner.critics["default_policy"](torch.from_numpy(rows["obs"]), index, shown).numpy()
        mean, deviation = _scale(learner).mean_and_deviation
    assert deviation > 20.0
    values = raw * deviation + mean
    np.testing.assert_allclose(rows["values"], values, rtol=1e-5)
    grid, after = np.zeros_like(batch.rewards), np.zeros_like(batch.rewards)
    grid[order["row"], order["lane"], order["seat"]] = values
    after[:-1] = grid[1:]  # two steps per episode: what follows a first step is the second one of the same copy
    folded = fold_rewards(batch, 0.99, team_rewards(batch))
    advantages = gae(batch, grid, after, folded, 0.99, 0.95)[order["row"], order["lane"], order["seat"]]
    complete = order["row"] < len(grid) - 1
    np.testing.assert_allclose(rows["advantages"][complete], advantages[complete], rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("critic", sorted(OWN_LAYERS))
def test_a_policy_that_gives_its_own_value_shows_it_in_units_of_rewards(critic: str, tmp_path: Path) -> None:
    with Trainer("ppo", config={**KEYS, **OWN_LAYERS[critic]}) as trainer:
        learner = learner_of(trainer)
        learner.learn(paid(trainer.workers.collect(10).batch, 40.0))
        batch = trainer.workers.collect(10).batch
        rows, policy = batch.for_policy("default_policy"), trainer.policies["default_policy"]
        assert isinstance(policy, StochasticPolicy)
        by_learner = trainer.value_function("default_policy", batch)
        by_policy = policy.value_function(rows).numpy()
        inputs = Inputs(rows["obs"], rows["legal"], rows["agent_index"])
        seen = policy.insight(inputs, rows["carry"][:, : policy.carry_size], explore=True)
        outputs: Tensor = policy.outputs(inputs, rows["carry"][:, : policy.carry_size])
        mean, deviation = _scale(learner).mean_and_deviation
    assert deviation > 20.0
    np.testing.assert_allclose(by_policy, by_learner, rtol=1e-5)
    assert seen.value is not None
    np.testing.assert_allclose(seen.value, by_learner, rtol=1e-5)
    np.testing.assert_allclose(outputs.detach().numpy()[:, -1] * deviation + mean, by_learner, rtol=1e-5)


def test_without_the_key_there_is_no_scale() -> None:
    with Trainer("ppo", config={**KEYS, "normalize_values": False, "vf_share_layers": True}) as trainer:
        learner = learner_of(trainer)
        assert learner.actors["default_policy"].value_scale is None
        assert learner.critics["default_policy"].value_scale is None
        assert not any("scale" in name for name in trainer.get_weights()["default_policy"])


def test_a_critic_from_before_values_were_scaled_goes_on_with_its_values() -> None:
    with Trainer("mappo", config={**KEYS, "normalize_values": False}) as old, Trainer("mappo", config=KEYS) as new:
        batch = old.workers.collect(10).batch
        learner_of(old).learn(batch)
        new.set_weights(old.get_weights())
        learner_of(new).load_state_dict(learner_of(old).state_dict())
        np.testing.assert_array_equal(
            new.value_function("default_policy", batch), old.value_function("default_policy", batch)
        )
        learner_of(new).learn(batch)
        assert _scale(learner_of(new)).mean_and_deviation[1] != 1.0
