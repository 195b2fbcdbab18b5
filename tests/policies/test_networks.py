"""Layers, first weights and features, against numbers by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces

from marl.data.task import AgentType
from marl.policies.config import ModelConfig
from marl.policies.mlp import MLP
from marl.policies.networks import Features, build_mlp, byte_scale, one_hot_sizes, seeded


def test_first_weights_are_orthogonal_rows_with_gain_sqrt_2_and_the_given_gain_in_the_last_layer() -> None:
    net = MLP([16, 8, 6, 3], ["relu", "tanh"], seeded(0), last_gain=0.01)
    for weight, gain in zip(net.weights, [math.sqrt(2), math.sqrt(2), 0.01], strict=True):
        torch.testing.assert_close(weight @ weight.T, gain**2 * torch.eye(len(weight)), atol=1e-6, rtol=1e-5)
    assert [tuple(bias.shape) for bias in net.biases] == [(8,), (6,), (3,)]
    assert all(not bias.any() for bias in net.biases)


def test_layers_are_applied_in_order_with_their_activations() -> None:
    net = MLP([2, 3, 2, 1], ["relu", "tanh"], seeded(0))
    for bias in net.biases:
        torch.nn.init.constant_(bias, 0.1)
    x = torch.tensor([[1.0, -2.0], [-0.5, 0.3]])
    (w1, w2, w3), (b1, b2, b3) = net.weights, net.biases
    by_hand = torch.tanh(torch.clamp(x @ w1.T + b1, min=0) @ w2.T + b2) @ w3.T + b3
    torch.testing.assert_close(net(x), by_hand)
    assert [id(parameter) for parameter in net.first(2)] == [id(parameter) for parameter in (w1, b1, w2, b2)]


def test_shared_layers_are_the_donors_tensors_and_the_others_stay() -> None:
    donor, taker = MLP([2, 4, 4, 1], ["relu", "relu"], seeded(1)), MLP([2, 4, 4, 1], ["relu", "relu"], seeded(2))
    own = taker.weights[1].clone()
    taker.share(donor, 1)
    assert taker.weights[0] is donor.weights[0]
    assert taker.biases[0] is donor.biases[0]
    assert torch.equal(taker.weights[1], own)
    before = taker(torch.ones(1, 2)).item()
    with torch.no_grad():
        donor.weights[0].mul_(2.0)
    assert taker(torch.ones(1, 2)).item() == pytest.approx(2 * before, rel=1e-5)  # relu without biases is homogeneous


def test_the_model_config_gives_sizes_and_activations() -> None:
    model = ModelConfig(
        fcnet_hiddens=[5, 4], fcnet_activation="relu", post_fcnet_hiddens=[3], post_fcnet_activation="tanh"
    )
    net = build_mlp(6, 2, model, seeded(0), last_gain=0.5)
    assert [tuple(weight.shape) for weight in net.weights] == [(5, 6), (4, 5), (3, 4), (2, 3)]
    assert net.activations == ("relu", "relu", "tanh")
    torch.testing.assert_close(net.weights[-1] @ net.weights[-1].T, 0.25 * torch.eye(2))


def test_several_choices_become_one_hots_side_by_side_followed_by_the_seat() -> None:
    kind = AgentType("k", ("a", "b", "c"), spaces.MultiDiscrete([2, 3]), spaces.Discrete(2))
    features = Features(kind, agent_id=True)
    assert features.size == 2 + 3 + 3
    shown = features(torch.tensor([[1, 2], [0, 0]]), torch.tensor([0, 2]))
    assert shown.tolist() == [[0, 1, 0, 0, 1, 1, 0, 0], [1, 0, 1, 0, 0, 0, 0, 1]]
    assert Features(kind, agent_id=False)(torch.tensor([[1, 2]]), torch.tensor([0])).tolist() == [[0, 1, 0, 0, 1]]


def test_bytes_are_divided_by_their_upper_bound_and_nothing_else_is() -> None:
    image = spaces.Box(0, np.array([[200, 0]], np.uint8), dtype=np.uint8)
    mixed = spaces.Dict({"b": spaces.Box(-5, 5, (2,)), "a": image})
    assert byte_scale(mixed) == pytest.approx([1 / 200, 1, 1, 1])  # Dict spaces are in order of their names
    assert byte_scale(spaces.Tuple([spaces.Box(-5, 5, (1,)), image])) == pytest.approx([1, 1 / 200, 1])
    kind = AgentType("k", ("a",), spaces.Box(0, 255, (2,), np.uint8), spaces.Discrete(2))
    assert Features(kind, False)(torch.tensor([[51, 255]]), torch.tensor([0])).numpy() == pytest.approx(
        np.array([[0.2, 1.0]])
    )
    assert one_hot_sizes(spaces.Discrete(4)) == [4]
    assert one_hot_sizes(mixed) == []


def test_a_generator_follows_from_all_its_numbers() -> None:
    draws = {seeded(*numbers).initial_seed() for numbers in [(0,), (1,), (0, 1), (1, 1)]}
    assert len(draws) == 4
    assert min(draws) >= 0
    assert seeded(3, 4).initial_seed() == seeded(3, 4).initial_seed()
