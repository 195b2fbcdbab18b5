"""Critics of actions: targets worked out by a loop, gradients by autograd on the formulas, and who may not have one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from marl.algos.central_critic.action_critic import ActionCritic, loss_over_actions
from marl.algos.central_critic.config import CentralCriticConfig
from marl.algos.central_critic.learner import CentralCriticLearner
from marl.algos.central_critic.train_batch import Minibatch
from marl.errors import ConfigError
from marl.policies.networks import Features
from marl.training.trainer import Trainer
from tests.algos.test_gradients_by_hand import as_double
from tests.algos.updates import assert_stack_equals_alone, small_run

CLIP, LAMBDA, GAMMA = 0.2, 0.7, 0.9


def numbers(rows: int, actions: int, count: int) -> list[Tensor]:
    rng = np.random.default_rng(3)
    return [torch.from_numpy(rng.normal(size=(rows, actions))) for _ in range(count)]


# -- the policy's loss -------------------------------------------------------------------------------------------------


def test_the_loss_over_actions_is_the_mean_of_those_of_single_actions() -> None:
    """Of PPO's loss of every action with its advantage, as often as the old policy would have drawn it; by autograd."""
    params, old, values = numbers(7, 4, 3)
    leaf = params.clone().requires_grad_()
    chances = old.softmax(-1)
    expected = torch.zeros(7, dtype=torch.float64)
    for row in range(7):
        mean = sum(float(chances[row, b] * values[row, b]) for b in range(4))
        for a in range(4):
            ratio = leaf[row].softmax(-1)[a] / chances[row, a]
            advantage = values[row, a] - mean
            worst = torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage)
            expected[row] = expected[row] - chances[row, a] * worst
    (slope,) = torch.autograd.grad(expected.sum(), leaf)
    losses, by_params = loss_over_actions(params, old, values, CentralCriticConfig(clip_param=CLIP))
    torch.testing.assert_close(losses, expected.detach())
    torch.testing.assert_close(by_params, slope)
    unclipped = loss_over_actions(params, old, values, CentralCriticConfig(clip_param=1e9))[1]
    assert (unclipped - slope).abs().max() > 0.01  # clipping decided somewhere


def test_one_step_of_a2c_goes_up_the_expected_value() -> None:
    params, values = numbers(5, 3, 2)
    leaf = params.clone().requires_grad_()
    (slope,) = torch.autograd.grad(-(leaf.softmax(-1) * values).sum(), leaf)
    config = CentralCriticConfig(objective="a2c")
    torch.testing.assert_close(loss_over_actions(params, None, values, config)[1], slope)


def test_stacked_rows_lose_as_each_by_itself() -> None:
    params, old, values = numbers(6, 4, 3)
    config = CentralCriticConfig(clip_param=CLIP)
    alone = loss_over_actions(params, old, values, config)
    stacked = loss_over_actions(params.view(2, 3, 4), old.view(2, 3, 4), values.view(2, 3, 4), config)
    torch.testing.assert_close(stacked[0].flatten(), alone[0])
    torch.testing.assert_close(stacked[1].reshape(6, 4), alone[1])


def plain_loss(learner: CentralCriticLearner, name: str, minibatch: Minibatch) -> Tensor:
    """The whole loss written again for autograd."""
    config, actor, data = learner.configs[name], learner.actors[name], minibatch.data
    params, _ = actor(data["obs"], data["agent_index"], data["legal"])
    values = learner.critics[name](data["obs"], data["agent_index"], data["critic_features"])
    old = data.get("old_params", params).detach().softmax(-1)
    advantages = values.detach() - (old * values.detach()).sum(-1, keepdim=True)
    new = params.softmax(-1)
    if config.objective == "ppo":
        ratio = torch.where(old > 0, new / old.clamp(min=1e-300), 1.0)
        low, high = 1 - config.clip_param, 1 + config.clip_param
        gain = old * torch.minimum(ratio * advantages, ratio.clamp(low, high) * advantages)
    else:
        gain = old * torch.where(old > 0, params.log_softmax(-1), 0.0) * advantages
    loss: Tensor = -gain.sum(-1).mean() - config.entropy_coeff * actor.distribution.entropy(params).mean()
    picked = values[torch.arange(len(values)), data["actions"].long()]
    loss = loss + config.vf_loss_coeff * ((picked - data["value_targets"]) ** 2).mean()
    if config.backward_kl_coeff:
        loss = loss + config.backward_kl_coeff * actor.distribution.kl(params, data["old_params"]).mean()
    return loss


@pytest.mark.parametrize(
    ("algo", "keys"),
    [
        ("mmd", {"backward_kl_coeff": 0.3, "entropy_coeff": 0.02}),
        ("a2c", {"entropy_coeff": 0.02}),
        ("mappo", {"normalize_values": False}),
        ("mappo", {"normalize_values": True}),
        ("coma", {"entropy_coeff": 0.02}),
    ],
)
def test_gradients_of_the_whole_loss_are_those_of_autograd(
    algo: str, keys: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {"env": "tests.algos.witnessed:Witnessed", "critic_values": "actions", **keys}
    with small_run(algo, {"agents": 3, "masked": True}, **env) as trainer:
        (name,) = trainer.policies_to_train
        learner, minibatch = as_double(trainer, name)
        shown = Features.forward
        monkeypatch.setattr(Features, "forward", lambda self, obs, index: shown(self, obs, index).double())
        networks = learner.networks[name]
        assert networks.critic is not None
        parameters = [*networks.actor.parameters(), *networks.critic.parameters()]
        loss = plain_loss(learner, name, minibatch)
        expected = torch.autograd.grad(loss, parameters)
        found = learner._add_gradient(name, minibatch)
        if algo not in ("a2c", "coma"):  # whose mean of p log p A is reported and not differentiated twice
            torch.testing.assert_close(found["total_loss"], loss.detach(), rtol=0, atol=1e-10)
        for parameter, gradient in zip(parameters, expected, strict=True):
            assert parameter.grad is not None
            torch.testing.assert_close(parameter.grad, gradient, rtol=0, atol=1e-10)


# -- what the critic learns --------------------------------------------------------------------------------------------


def kuhn(**keys: Any) -> Trainer:
    config = {
        "env": "kuhn_poker", "policy_mapping_fn": "per_agent", "critic_sees": "all", "critic_values": "actions",
        "gae_lambda": LAMBDA, "gamma": GAMMA, "fcnet_hiddens": [8], "num_envs_per_worker": 6, "train_batch_size": 64,
        "num_sgd_iter": 2, "sgd_minibatch_size": 24, "evaluation": {"interval": 0}, **keys,
    }  # fmt: skip
    return Trainer("mmd", config=config)


def test_targets_are_those_of_a_plain_loop_over_each_seats_decisions() -> None:
    with kuhn() as trainer:
        for _ in range(2):
            trainer.train()  # values and policies that differ from action to action
        (learner,) = trainer.learners
        assert isinstance(learner, CentralCriticLearner)
        batch = trainer.workers.collect(41).batch  # fragments end in the middle of games
        for name in ("player_0", "player_1"):
            actor, critic = learner.actors[name], learner.critics[name]
            assert isinstance(critic, ActionCritic)
            whole = batch.for_policy(name)
            found = learner._with_advantages(name, batch)

            def judged(after: bool, rows: Any = whole, actor: Any = actor, critic: Any = critic) -> tuple[Any, Any]:
                obs = torch.from_numpy(rows["new_obs" if after else "obs"])
                legal = torch.from_numpy(rows["new_legal" if after else "legal"])
                index = torch.from_numpy(rows["agent_index"])
                with torch.no_grad():
                    values = critic(obs, index, torch.from_numpy(critic.seen(batch, rows, after=after))).numpy()
                    chances = actor(obs, index, legal)[0].softmax(-1).numpy()
                return values, (chances * values).sum(1)

            values, _ = judged(False)
            _, ahead = judged(True)
            folded = batch.for_policy(name, GAMMA)["rewards"]
            target: dict[tuple[int, int], float] = {}
            for i in reversed(range(len(whole))):
                lane, row, elapsed = int(whole["lane"][i]), int(whole["row"][i]), int(whole["elapsed"][i])
                target[lane, row] = float(folded[i])
                if not whole["terminateds"][i]:
                    later = [j for j in range(i + 1, len(whole)) if whole["lane"][j] == lane]
                    more = 0.0
                    if later and not whole["truncateds"][i]:
                        j = later[0]
                        more = LAMBDA * (target[lane, int(whole["row"][j])] - values[j, whole["actions"][j]])
                    target[lane, row] += GAMMA**elapsed * (float(ahead[i]) + more)
            expected = [target[int(lane), int(row)] for lane, row in zip(whole["lane"], whole["row"], strict=True)]
            np.testing.assert_allclose(found["value_targets"], expected, atol=1e-5)
            taken = values[np.arange(len(values)), whole["actions"]]
            np.testing.assert_allclose(found["values"], taken, atol=1e-6)
            assert np.ptp(values, axis=1).max() > 1e-3


def test_seeds_learn_in_a_stack_as_alone() -> None:
    assert_stack_equals_alone(kuhn)


# -- who may not have one ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algo", "env", "keys", "message"),
    [
        ("ppo", "Pendulum-v1", {}, "compares single choices"),
        ("ppo", "CartPole-v1", {"use_lstm": True}, "single decisions"),
        ("ppo", "CartPole-v1", {"vf_share_layers": True}, "a critic of its own"),
    ],
)
def test_policies_that_cannot_have_one_are_refused(algo: str, env: str, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Trainer(algo, env=env, config={"critic_values": "actions", **keys})
