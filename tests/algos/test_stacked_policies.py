"""Policies of one shape are trained together: each learns what it would learn by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from marl.algos.central_critic import stacked
from marl.algos.central_critic.learner import CentralCriticLearner
from marl.algos.optimiser import FlatOptimiser
from marl.algos.stack import FlatStack
from marl.training.trainer import Trainer
from tests.algos.updates import small_run

APART: dict[str, Any] = {
    "multiagent": {"policy_mapping_fn": "per_agent"}, "num_sgd_iter": 1,
}  # fmt: skip
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "ppo": ("ppo", {}, {"entropy_coeff": 0.01, "vf_clip_param": 0.5, "grad_clip": 0.3}),
    "masks": ("ppo", {"masked": True}, {}),
    "coordinates": ("ppo", {"box": True}, {"free_log_std": True, "entropy_coeff": 0.01}),
    "shared layers": ("ppo", {}, {"vf_share_layers": True}),
    "filter": ("ppo", {}, {"observation_filter": "MeanStdFilter"}),
    "joint critic": ("mappo", {}, {}),
    "a2c": ("a2c", {}, {"num_sgd_iter": None}),
    "scaled values": ("mappo", {}, {"normalize_values": True, "vf_huber_delta": 0.5, "vf_clip_param": 0.2}),
    "scaled values in shared layers": ("ppo", {}, {"vf_share_layers": True, "normalize_values": True}),
    "sgd": ("ppo", {}, {"optimizer": {"type": "sgd"}}),
}


def trained(case: str, monkeypatch: pytest.MonkeyPatch, *, apart: bool) -> tuple[Trainer, list[int]]:
    """Weights after some iterations, and how many policies each stack had."""
    algo, env, keys = CASES[case]
    sizes: list[int] = []
    build = FlatStack.of.__func__  # type: ignore[attr-defined]

    def noted(cls: type[FlatStack], optimisers: Any) -> FlatStack:
        sizes.append(len(optimisers))
        return build(cls, optimisers)

    with monkeypatch.context() as patch:
        patch.setattr(FlatStack, "of", classmethod(noted))
        if apart:
            patch.setattr(stacked, "can_be_stacked", lambda learner, name: False)
        given = {key: value for key, value in {**APART, **keys}.items() if value is not None}
        run = small_run(algo, {"agents": 3, "together": True, **env}, env="tests.algos.witnessed:Witnessed", **given)
        for _ in range(3):
            run.train()
    return run, sizes


@pytest.mark.parametrize("case", sorted(CASES))
def test_policies_that_are_trained_together_learn_what_each_learns_alone(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined, sizes = trained(case, monkeypatch, apart=False)
    alone, none = trained(case, monkeypatch, apart=True)
    with joined, alone:
        assert sizes
        assert set(sizes) == {3}
        assert none == []
        for name, weights in alone.get_weights().items():
            for part, array in weights.items():
                np.testing.assert_allclose(joined.get_weights()[name][part], array, rtol=0, atol=2e-6)
        assert [one.counters for one in joined.learners] == [one.counters for one in alone.learners]
        for name, row in joined.last_metrics.items():
            for key, number in row.items():
                assert number == pytest.approx(alone.last_metrics[name][key], abs=1e-4, rel=1e-4), key


def blocks(run: Trainer) -> list[FlatOptimiser]:
    """One per policy."""
    found = []
    for learner in run.learners:
        assert isinstance(learner, CentralCriticLearner)
        found += learner.optimisers.values()
    return found


def test_each_policy_keeps_its_own_views_state_and_file(monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = trained("ppo", monkeypatch, apart=False)
    with run:
        weights = run.get_weights()
        arrays = [weights[name]["model.network.weights.0"] for name in sorted(weights)]
        assert not np.array_equal(arrays[0], arrays[1])
        for learner in run.learners:
            learner.load_state_dict(learner.state_dict())
        run.train()
        for optimiser in blocks(run):
            first = optimiser.params[0]
            assert first.data_ptr() == optimiser.flat.data_ptr()
            assert first.grad is not None
            assert first.grad.data_ptr() == optimiser.grad.data_ptr()


def test_a_policy_whose_gradient_is_not_finite_is_named_and_the_others_are_not_touched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, _ = trained("ppo", monkeypatch, apart=False)
    with run:
        stack = FlatStack.of(blocks(run))
        stack.grad.fill_(0.1)
        stack.grad[1, 5] = torch.nan
        before = stack.flat.clone()
        _, errors = stack.step(1.0, [0.1, 0.1, 0.1])
        assert list(errors) == [1]
        assert "agent_1" in str(errors[1])
        assert torch.equal(stack.flat[1], before[1])
        assert not torch.equal(stack.flat[0], before[0])
        assert not torch.equal(stack.flat[2], before[2])
