"""Magnetic mirror descent: what a training batch of mmd moves to, and that seeds learn it together as each by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from marl.algos.central_critic.penalties import penalties
from marl.algos.central_critic.train_batch import Minibatch
from marl.policies.distributions import Categorical
from marl.training.trainer import Trainer
from tests.algos.updates import small_run

STEP, TEMPERATURE = 4.0, 0.5  # weights of the divergence from the old policy, and of the entropy


def test_a_batch_of_mmd_rests_at_the_step_of_mirror_descent() -> None:
    """The loss ``-<pi, A> + k KL(pi || old) - alpha H(pi)`` has no slope at ``pi ~ (old^k exp(A))^(1 / (k + alpha))``."""
    rng = np.random.default_rng(0)
    distribution, advantages = Categorical(4), torch.from_numpy(rng.normal(size=(6, 4)))
    old = torch.from_numpy(rng.normal(size=(6, 4)))
    minibatch = Minibatch({"old_params": old, "advantages": torch.zeros(6)}, None)
    there = (STEP * old.log_softmax(-1) + advantages) / (STEP + TEMPERATURE)

    def slope(params: torch.Tensor) -> torch.Tensor:
        (penalty,) = penalties(distribution, minibatch, 0.0, STEP, None)
        _, by_params = penalty.with_slope(params, 6)
        leaf = params.clone().requires_grad_()
        rest = -((leaf.softmax(-1) * advantages).sum(-1) + TEMPERATURE * distribution.entropy(leaf)).mean()
        return penalty.coeff * by_params + torch.autograd.grad(rest, leaf)[0]

    assert slope(there).abs().max() < 1e-12
    assert slope(old).abs().max() > 0.01  # and elsewhere it has one
    assert slope(there + torch.eye(4, dtype=torch.float64)[0]).abs().max() > 0.01


def test_rows_that_only_fill_up_a_stack_are_no_part_of_the_mean() -> None:
    rng = np.random.default_rng(1)
    params, old = torch.from_numpy(rng.normal(size=(2, 2, 8, 4)))
    minibatch = Minibatch({"old_params": old}, None)
    (penalty,) = penalties(Categorical(4), minibatch, 0.0, STEP, None)
    means, by_params = penalty.with_slope(params, 6)
    alone = Minibatch({"old_params": old[1, :6]}, None)
    (penalty,) = penalties(Categorical(4), alone, 0.0, STEP, None)
    mean, by_own = penalty.with_slope(params[1, :6], 6)
    torch.testing.assert_close(means[1], mean)
    torch.testing.assert_close(by_params[1, :6], by_own)
    assert not by_params[:, 6:].any()


def test_a_larger_divergence_weight_moves_the_policy_less() -> None:
    moved = []
    for coeff in (0.01, 100.0):
        with small_run("mmd", backward_kl_coeff=coeff, num_sgd_iter=8) as trainer:
            result = trainer.train()
            moved.append(result["info"]["learner"]["default_policy"]["learner_stats"]["backward_kl"])
    assert 0 < moved[1] < 0.5 * moved[0]


def test_the_weight_of_the_divergence_follows_its_schedule() -> None:
    with small_run("mmd", backward_kl_coeff_schedule=[[0, 8.0], [64, 0.0]]) as trainer:
        (learner,) = trainer.learners
        for expected in (4.0, 0.0):  # after 32 and 64 env steps
            trainer.train()
            assert learner.backward_kl_coeffs == {"default_policy": expected}  # type: ignore[attr-defined]


def weights(keys: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
    with Trainer("mmd", config=keys) as trainer:
        for _ in range(3):
            trainer.train()
        return [array for policy in trainer.get_weights().values() for array in policy.values()]


@pytest.mark.parametrize(
    "keys", [{"backward_kl_coeff": 0.7}, {"kl_coeff": 0.3}], ids=["backward", "forward alone is not"]
)
def test_seeds_of_mmd_learn_in_a_stack_as_alone(keys: dict[str, Any]) -> None:
    small = {
        "env": "kuhn_poker", "fcnet_hiddens": [8], "num_envs_per_worker": 8, "train_batch_size": 64, "num_sgd_iter": 2,
        "sgd_minibatch_size": 24, "policy_mapping_fn": "per_agent", "evaluation": {"interval": 0}, **keys,
    }  # fmt: skip
    alone, stacked = weights(small), weights({**small, "stacked": True})
    for one, other in zip(alone, stacked, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
