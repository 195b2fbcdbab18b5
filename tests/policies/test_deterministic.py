"""Deterministic policies: squashing, noise, masks, and gradients through drawn options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from marl.data.task import AgentType
from marl.errors import ConfigError, SpaceMismatchError
from marl.policies.build import build_policy
from marl.policies.config import ExplorationConfig, ModelConfig, PolicySpec
from marl.policies.deterministic import DeterministicPolicy
from marl.policies.policy import Inputs

OBS = spaces.Box(-1, 1, (3,), np.float32)
BOX = spaces.Box(-2, 2, (2,), np.float32)
MIXED = spaces.Tuple([spaces.Box(0, 1, (1,), np.float32), spaces.Discrete(3), spaces.MultiDiscrete([2, 2])])


def build(action: Any, exploration: dict[str, Any] | None = None, masked: bool = False, **model: Any) -> Any:
    explore = None if exploration is None else ExplorationConfig(**exploration)
    spec = PolicySpec("deterministic", 0, ModelConfig(**{"fcnet_hiddens": [8], **model}), explore)
    policy = build_policy(spec, AgentType("agent", ("a_0", "a_1"), OBS, action, masked))
    assert isinstance(policy, DeterministicPolicy)
    return policy


def act(policy: Any, rows: int, explore: bool, legal: Any = None, seed: int = 0) -> Any:
    mask = np.ones((rows, 0), bool) if legal is None else np.tile(np.array(legal, bool), (rows, 1))
    obs = np.random.default_rng(5).normal(size=(rows, 3)).astype(np.float32)
    inputs = Inputs(obs, mask, np.zeros(rows, np.int64))
    return policy.act(inputs, np.zeros((rows, 0), np.float32), np.random.default_rng(seed), explore=explore).actions


def test_greedy_coordinates_are_the_tanh_of_the_network() -> None:
    policy = build(BOX)
    obs = torch.from_numpy(np.random.default_rng(5).normal(size=(4, 3)).astype(np.float32))
    out = policy(obs, torch.zeros(4, dtype=torch.long))
    assert act(policy, 4, explore=False) == pytest.approx(out.tanh().detach().numpy(), abs=1e-6)


def test_coordinates_without_bounds_are_the_network_itself() -> None:
    half = spaces.Box(np.array([-1, -np.inf], np.float32), np.array([1, np.inf], np.float32))
    policy = build(half)
    out = torch.tensor([[2.0, 2.0]])
    assert policy.greedy(out, torch.ones(1, 0, dtype=torch.bool)).tolist()[0] == pytest.approx([np.tanh(2.0), 2.0])
    explored = act(build(half, {"type": "GaussianNoise", "initial_scale": 5.0}), 500, explore=True)
    assert abs(explored[:, 0]).max() <= 1 < abs(explored[:, 1]).max()


def test_noise_has_the_annealed_scale_and_stays_in_the_box() -> None:
    policy = build(BOX, {"type": "GaussianNoise", "initial_scale": 0.4, "final_scale": 0.1, "scale_timesteps": 100})
    greedy = act(policy, 4_000, explore=False)
    assert (act(policy, 4_000, explore=True) - greedy).std() == pytest.approx(0.4, rel=0.05)
    policy.anneal(50)
    assert (act(policy, 4_000, explore=True) - greedy).std() == pytest.approx(0.25, rel=0.05)
    loud = act(build(BOX, {"type": "GaussianNoise", "initial_scale": 3.0}), 500, explore=True)
    assert abs(loud).max() == 1.0


def test_a_random_start_is_uniform_over_the_box_and_over_legal_options() -> None:
    policy = build(BOX, {"type": "GaussianNoise", "random_timesteps": 10})
    drawn = act(policy, 8_000, explore=True)
    assert np.histogram(drawn, 4, (-1, 1))[0] / drawn.size == pytest.approx([0.25] * 4, abs=0.01)
    chooser = build(spaces.Discrete(4), {"type": "StochasticSampling", "random_timesteps": 10}, masked=True)
    with torch.no_grad():
        chooser.model.network.biases[-1][:] = torch.tensor([9.0, 0.0, 0.0, 0.0])
    legal = [True, False, True, True]
    shares = np.bincount(act(chooser, 9_000, True, legal), minlength=4) / 9_000
    assert shares == pytest.approx([1 / 3, 0, 1 / 3, 1 / 3], abs=0.02)
    chooser.anneal(10)
    assert (act(chooser, 100, True, legal) == 0).mean() > 0.9


def test_exploring_draws_options_by_their_softmax_and_greedy_play_takes_the_likeliest_legal_one() -> None:
    policy = build(spaces.Discrete(3), masked=True, fcnet_hiddens=[])
    with torch.no_grad():
        policy.model.network.weights[-1].zero_()
        policy.model.network.biases[-1][:] = torch.tensor([3.0, 1.0, 0.0])
    legal = [False, True, True]
    shares = np.bincount(act(policy, 20_000, True, legal), minlength=3) / 20_000
    assert shares == pytest.approx([0, np.e / (np.e + 1), 1 / (np.e + 1)], abs=0.01)
    assert set(act(policy, 5, False, legal).tolist()) == {1}


def test_choices_and_coordinates_of_one_action_stand_in_their_columns() -> None:
    policy = build(MIXED)
    assert policy.model.outputs == 3 + 2 + 2 + 1
    with torch.no_grad():
        policy.model.network.weights[-1].zero_()
        policy.model.network.biases[-1][:] = torch.tensor([0.0, 0.0, 5.0, 0.0, 5.0, 5.0, 0.0, 0.5])
    assert act(policy, 2, explore=False)[0].tolist() == pytest.approx([np.tanh(0.5), 2, 1, 0])
    out = policy(torch.zeros(1, 3), torch.zeros(1, dtype=torch.long))
    encoded = policy.greedy(out, torch.ones(1, 0, dtype=torch.bool))
    assert encoded[0].tolist() == pytest.approx([0, 0, 1, 0, 1, 1, 0, np.tanh(0.5)])


def test_a_drawn_option_is_one_hot_forwards_and_the_softmax_backwards() -> None:
    policy, temperature = build(spaces.Discrete(3)), 0.5
    logits = torch.tensor([[1.0, 3.0, 0.5]], requires_grad=True)
    by_action, gumbel = torch.tensor([[2.0, -1.0, 4.0]]), torch.tensor([[0.3, -0.2, 1.0]])
    drawn, soft = policy.drawn(logits.detach(), torch.ones(1, 0, dtype=torch.bool), gumbel, temperature)
    assert drawn.tolist() == [[0, 1, 0]]
    ((logits + gumbel) / temperature).softmax(1).backward(by_action)  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert torch.allclose(policy.slopes(soft, by_action, temperature), logits.grad)
    assert logits.grad.abs().max() > 0.1


def test_gumbel_noise_draws_by_the_softmax_and_temperature_only_changes_the_gradient() -> None:
    policy, rng = build(spaces.Discrete(3)), np.random.default_rng(0)
    gumbel = torch.from_numpy(-np.log(rng.standard_exponential((20_000, 3), np.float32)))
    out = torch.log(torch.tensor([[0.6, 0.3, 0.1]])).expand(20_000, 3)
    nothing = torch.ones(20_000, 0, dtype=torch.bool)
    (warm, soft), (cold, sharp) = policy.drawn(out, nothing, gumbel, 1.0), policy.drawn(out, nothing, gumbel, 0.1)
    assert warm.mean(0).tolist() == pytest.approx([0.6, 0.3, 0.1], abs=0.01)
    assert torch.equal(warm, cold)
    assert sharp.amax(1).mean() > soft.amax(1).mean() + 0.2


def test_an_illegal_option_is_neither_drawn_nor_given_a_gradient() -> None:
    policy = build(spaces.Discrete(3), masked=True)
    out = torch.tensor([[9.0, 0.0, 0.0]] * 50)
    legal = torch.tensor([[False, True, True]] * 50)
    gumbel = torch.from_numpy(np.random.default_rng(0).gumbel(size=(50, 3)).astype(np.float32))
    drawn, soft = policy.drawn(out, legal, gumbel, 1.0)
    assert drawn[:, 0].abs().max() == 0
    slopes = policy.slopes(soft, torch.tensor([[1.0, 2.0, 3.0]] * 50), 1.0)
    assert slopes[:, 0].abs().max() == 0
    assert slopes[:, 1].abs().min() > 0


def test_a_memory_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"memory of 512 numbers"):
        build(BOX, use_lstm=True)


def test_exploration_has_to_fit_the_action_space() -> None:
    with pytest.raises(SpaceMismatchError, match=r"GaussianNoise does not fit .* expected StochasticSampling"):
        build(spaces.Discrete(2), {"type": "GaussianNoise"})
    with pytest.raises(SpaceMismatchError, match=r"StochasticSampling does not fit .* expected GaussianNoise"):
        build(BOX, {"type": "StochasticSampling"})
