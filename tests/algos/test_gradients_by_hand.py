"""Gradients of pg, a2c, ppo, mappo and impala that are worked out by hand, against autograd on the formulas of the papers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from marl.algos.central_critic.learner import CentralCriticLearner
from marl.algos.central_critic.train_batch import Minibatch
from marl.policies.distributions import Categorical, Distribution, distribution_for
from marl.policies.networks import Features
from marl.policies.stochastic import StochasticPolicy
from marl.training.trainer import Trainer
from tests.algos.updates import small_run

SPACES = {
    "one choice": spaces.Discrete(5),
    "many options": spaces.Discrete(20),
    "several choices": spaces.MultiDiscrete([3, 2, 17]),
    "coordinates": spaces.Box(-1, 1, (3,)),
    "choices and coordinates": spaces.Tuple([spaces.Discrete(3), spaces.Box(-1, 1, (2,))]),
}


def drawn(distribution: Distribution, rows: int) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(0)
    params = rng.normal(size=(rows, distribution.size))
    actions, _ = distribution.sample(params.astype(np.float32), rng, True)
    return torch.from_numpy(params), torch.from_numpy(actions)


@pytest.mark.parametrize("space", sorted(SPACES))
@pytest.mark.parametrize("by_entropy", [0.0, -0.3])
def test_slopes_of_a_distribution_are_those_of_autograd(space: str, by_entropy: float) -> None:
    distribution = distribution_for(SPACES[space])
    assert type(distribution).measure is not Distribution.measure
    params, actions = drawn(distribution, 9)
    by_logp = torch.linspace(-1, 2, 9, dtype=torch.float64)
    measured = distribution.measure(params, actions)
    expected = Distribution.measure(distribution, params, actions)
    torch.testing.assert_close(measured.logp, expected.logp, rtol=0, atol=1e-12)
    torch.testing.assert_close(measured.entropy, expected.entropy, rtol=0, atol=1e-12)
    slopes, by_autograd = measured.slopes(by_logp, by_entropy), expected.slopes(by_logp, by_entropy)
    torch.testing.assert_close(slopes, by_autograd, rtol=0, atol=1e-10)


@pytest.mark.parametrize("space", sorted(SPACES))
def test_stacked_rows_are_measured_as_each_by_itself(space: str) -> None:
    distribution = distribution_for(SPACES[space])
    params, actions = drawn(distribution, 12)
    by_logp = torch.linspace(-1, 2, 12, dtype=torch.float64)
    alone = distribution.measure(params, actions)
    stacked = distribution.measure(params.view(3, 4, -1), actions.view(3, 4, *actions.shape[1:]))
    torch.testing.assert_close(stacked.logp.flatten(), alone.logp)
    torch.testing.assert_close(stacked.entropy.flatten(), alone.entropy)
    slopes = stacked.slopes(by_logp.view(3, 4), -0.3)
    torch.testing.assert_close(slopes.reshape(12, -1), alone.slopes(by_logp, -0.3))


def test_a_class_of_the_user_is_measured_by_its_own_formulas() -> None:
    class Bold(Categorical):
        def logp(self, params: Tensor, actions: Tensor) -> Tensor:
            return super().logp(2 * params, actions)

    params, actions = drawn(Bold(4), 6)
    measured, plain = Bold(4).measure(params, actions), Categorical(4).measure(2 * params, actions)
    torch.testing.assert_close(measured.logp, plain.logp)
    by_logp = torch.ones(6, dtype=torch.float64)
    torch.testing.assert_close(measured.slopes(by_logp, 0.0), 2 * plain.slopes(by_logp, 0.0))


# -- whole losses ------------------------------------------------------------------------------------------------------

ENVS: dict[str, dict[str, Any]] = {
    "masks": {"agents": 3, "masked": True},
    "coordinates": {"agents": 3, "box": True},
}
KEYS: dict[str, dict[str, Any]] = {
    "pg": {},
    "a2c": {"entropy_coeff": 0.02},
    "ppo": {"entropy_coeff": 0.02, "vf_clip_param": 0.3},
    "ppo shared layers": {"vf_share_layers": True, "fcnet_activation": "relu"},
    "ppo kl": {"kl_coeff": 0.4},
    "ppo magnet": {"magnet_coeff": 0.3},
    "mmd": {"backward_kl_coeff": 0.3, "entropy_coeff": 0.02},
    "mappo": {"entropy_coeff": 0.01, "fcnet_activation": "relu"},
    "impala": {},
}


def as_double(trainer: Trainer, name: str) -> tuple[CentralCriticLearner, Minibatch]:
    """The learner's networks and one of its minibatches in double precision."""
    (learner,) = trainer.learners
    assert isinstance(learner, CentralCriticLearner)
    collected = trainer.workers.collect(20)
    rows = learner._with_advantages(name, collected.batch)
    minibatch = learner._train_batch(name, rows).whole()
    for column, values in minibatch.data.items():
        if values.dtype == torch.float32:
            minibatch.data[column] = values.double()
    generator = torch.Generator().manual_seed(1)
    # As after some steps: ratios and values have moved, so that clipping matters.
    minibatch.data["action_logp"] += 0.3 * torch.randn(len(minibatch.data["action_logp"]), generator=generator).double()
    minibatch.data["values"] += 0.5 * torch.randn(len(minibatch.data["values"]), generator=generator).double()
    for module in (learner.actors[name], learner.critics[name], *(m.copy for m in learner.magnets.values())):
        module.double()
        for parameter in module.parameters():
            parameter.grad = None
            with torch.no_grad():
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator).double())
    return learner, minibatch


def loss_of_the_papers(learner: CentralCriticLearner, name: str, minibatch: Minibatch) -> Tensor:
    """Written again, as plainly as possible, for autograd."""
    config, actor, data = learner.configs[name], learner.actors[name], minibatch.data
    params, values = actor(data["obs"], data["agent_index"], data["legal"])
    if not actor.shares_value:
        values = learner.critics[name](data["obs"], data["agent_index"], data["critic_features"])
    logp = actor.distribution.logp(params, data["actions"])
    if config.objective == "ppo":
        ratio = torch.exp(logp - data["action_logp"])
        clipped = torch.clamp(ratio, 1 - config.clip_param, 1 + config.clip_param)
        loss = -torch.minimum(ratio * data["advantages"], clipped * data["advantages"]).mean()
    else:
        loss = -(logp * data["advantages"]).mean()
    loss = loss - config.entropy_coeff * actor.distribution.entropy(params).mean()
    if config.objective != "pg":
        errors = (values - data["value_targets"]) ** 2
        if config.vf_clip_param is not None:
            near = data["values"] + torch.clamp(values - data["values"], -config.vf_clip_param, config.vf_clip_param)
            errors = torch.maximum(errors, (near - data["value_targets"]) ** 2)
        loss = loss + config.vf_loss_coeff * errors.mean()
    if learner.kl_coeffs[name] > 0:
        loss = loss + learner.kl_coeffs[name] * actor.distribution.kl(data["old_params"], params).mean()
    if learner.backward_kl_coeffs[name] > 0:
        loss = loss + learner.backward_kl_coeffs[name] * actor.distribution.kl(params, data["old_params"]).mean()
    if name in learner.magnets:
        there, _ = learner.magnets[name].copy(data["obs"], data["agent_index"], data["legal"])
        loss = loss + config.magnet_coeff * actor.distribution.kl(params, there.detach()).mean()
    return loss


@pytest.mark.parametrize("env", sorted(ENVS))
@pytest.mark.parametrize("case", sorted(KEYS))
def test_gradients_of_a_whole_loss_are_those_of_autograd(case: str, env: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_run(case.split()[0], ENVS[env], env="tests.algos.witnessed:Witnessed", **KEYS[case]) as trainer:
        (name,) = trainer.policies_to_train
        learner, minibatch = as_double(trainer, name)
        shown = Features.forward
        monkeypatch.setattr(Features, "forward", lambda self, obs, index: shown(self, obs, index).double())
        networks = learner.networks[name]
        modules = [networks.actor] if networks.critic is None else [networks.actor, networks.critic]
        parameters = [p for module in modules for p in module.parameters()]
        loss = loss_of_the_papers(learner, name, minibatch)
        expected = torch.autograd.grad(loss, parameters)

        numbers = learner._add_gradient(name, minibatch)

        torch.testing.assert_close(numbers["total_loss"], loss.detach(), rtol=0, atol=1e-10)
        for parameter, gradient in zip(parameters, expected, strict=True):
            assert parameter.grad is not None
            torch.testing.assert_close(parameter.grad, gradient, rtol=0, atol=1e-10)


def test_an_illegal_option_gets_no_gradient_whatever_a_distribution_says_of_it() -> None:
    keys = {"env": "tests.algos.witnessed:Witnessed", "vf_share_layers": True}
    with small_run("ppo", {"agents": 2, "masked": True}, **keys) as trainer:
        (actor,) = trainer.workers.policies.values()
        assert isinstance(actor, StochasticPolicy)
        legal = torch.tensor([[True, False, True, True], [False, True, True, False]])
        by_outputs = actor.by_outputs(torch.ones(2, 4), torch.full((2,), 5.0), legal)
    assert by_outputs.tolist() == [[1, 0, 1, 1, 5], [0, 1, 1, 0, 5]]
