"""Where nothing else can be gained, an update climbs the entropy of the policy, and by as much as its weight says."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from marl.algos.central_critic.learner import CentralCriticLearner
from marl.algos.presets import ALGOS
from marl.algos.sac.learner import SacLearner
from marl.data.batch import MultiAgentBatch
from tests.algos.updates import one_update

FREE: dict[str, Any] = {"optimizer": {"type": "sgd"}, "grad_clip": None}
HALF: dict[str, dict[str, Any]] = {  # two ways to say 0.5 after 32 env steps
    "constant": {"entropy_coeff": 0.5},
    "schedule": {"entropy_coeff": 7.0, "entropy_coeff_schedule": [[0, 1.0], [64, 0.0]]},
}


def nothing_to_gain(batch: MultiAgentBatch, critic: torch.nn.Module) -> None:
    batch.rewards[:] = 0.0
    with torch.no_grad():
        for parameter in critic.parameters():
            parameter.zero_()


def seen(batch: MultiAgentBatch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Observations, seats and masks of all decisions; nothing is masked here."""
    t, e, a = batch.active.nonzero()
    return torch.from_numpy(batch.obs[0][t, e, a]), torch.from_numpy(a), torch.ones(len(t), 0, dtype=torch.bool)


def mean_entropy(params: torch.Tensor, choices: bool) -> torch.Tensor:
    if choices:
        chances = params.exp() / params.exp().sum(1, keepdim=True)
        return -(chances * chances.log()).sum(1).mean()
    log_std = params.chunk(2, 1)[1]
    return (0.5 * torch.log(2 * torch.pi * torch.e * (2 * log_std).exp())).sum(1).mean()


def moves(policy: torch.nn.Module, before: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([(p.detach() - old).reshape(-1) for p, old in zip(policy.parameters(), before, strict=True)])


def uphill(entropy: torch.Tensor, policy: torch.nn.Module) -> torch.Tensor:
    gradients = torch.autograd.grad(entropy, list(policy.parameters()), allow_unused=True, materialize_grads=True)
    return torch.cat([gradient.reshape(-1) for gradient in gradients])


@pytest.mark.parametrize("actions", ["discrete", "box"])
@pytest.mark.parametrize("weight", list(HALF))
@pytest.mark.parametrize("algo", [a for a in ALGOS if "entropy_coeff" in ALGOS[a].family.config.model_fields])
def test_a_policy_gradient_climbs_the_entropy_by_its_weight(algo: str, weight: str, actions: str) -> None:
    if actions == "box" and ALGOS[algo].defaults.get("critic_values") == "actions":
        pytest.skip("it compares single choices")
    with one_update(algo, {"actions": actions}, **FREE, **HALF[weight], lr=2.0) as trainer:
        batch, learner = trainer.workers.collect(8).batch, trainer.learners[0]
        assert isinstance(learner, CentralCriticLearner)
        nothing_to_gain(batch, learner.critics["default_policy"])
        policy = learner.actors["default_policy"]
        entropy = mean_entropy(policy(*seen(batch))[0], actions == "discrete")
        expected, before = 2.0 * 0.5 * uphill(entropy, policy), [p.detach().clone() for p in policy.parameters()]
        stats = learner.learn(batch)["default_policy"]
        assert expected.norm() > 1e-4
        assert torch.allclose(moves(policy, before), expected, rtol=1e-3, atol=1e-6)
        assert stats["entropy"] == pytest.approx(float(entropy.detach()), rel=1e-4)


def test_the_actor_of_sac_climbs_the_entropy_by_its_temperature() -> None:
    keys = {**FREE, "initial_alpha": 0.5, "actor_lr": 2.0, "critic_lr": 1e-30, "train_batch_size": 64}
    with one_update("sac", **keys) as trainer:
        batch, learner = trainer.workers.collect(8).batch, trainer.learners[0]
        assert isinstance(learner, SacLearner)
        pupil = learner.actor_critics["default_policy"]
        nothing_to_gain(batch, pupil.critics)
        nothing_to_gain(batch, pupil.target_critics)
        policy, shown = pupil.actor, []
        learner.on_batch = lambda _, rows: shown.append((rows["obs"], rows["seat"]))  # what the update drew
        before = [p.detach().clone() for p in policy.parameters()]
        learner.learn(batch)
    ((obs, seats),) = shown
    after = moves(policy, before)
    with torch.no_grad():
        for parameter, old in zip(policy.parameters(), before, strict=True):
            parameter.copy_(old)
    rows = torch.from_numpy(obs), torch.from_numpy(seats), torch.ones(len(obs), 0, dtype=torch.bool)
    expected = 2.0 * 0.5 * uphill(mean_entropy(policy(*rows), choices=True), policy)
    assert expected.norm() > 1e-4
    assert torch.allclose(after, expected, rtol=1e-3, atol=1e-6)
