"""The backward pass of fully connected layers against autograd, and the forward pass against plain formulas."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch

from marl.policies.mlp import ACTIVATIONS, MLP, Layer, fast_tanh_, pull_layers, run_layers
from marl.policies.networks import seeded

FORMULAS = {
    "tanh": torch.tanh, "relu": lambda x: x.clamp(min=0), "silu": lambda x: x * torch.sigmoid(x),
    "gelu": lambda x: 0.5 * x * (1 + torch.erf(x / 2**0.5)), "elu": lambda x: torch.where(x > 0, x, x.exp() - 1),
}  # fmt: skip


def network(activation: str, outputs: int = 3) -> MLP:
    made = MLP([5, 17, 8, outputs], [activation, activation], seeded(1)).double()
    made._look_up()
    with torch.no_grad():
        for bias in made.biases:
            bias.uniform_(-1, 1, generator=seeded(2))
    return made


def rows(*shape: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(3).normal(size=shape))


@pytest.mark.parametrize("outputs", [3, 20])
@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_pulling_back_gives_the_gradients_of_autograd(activation: str, outputs: int) -> None:
    mlp, x, slopes = network(activation, outputs), rows(11, 5), rows(11, outputs)
    by_autograd = x.clone().requires_grad_()
    y = by_autograd
    for i, (weight, bias) in enumerate(zip(mlp.weights, mlp.biases, strict=True)):
        y = y @ weight.T + bias
        if i < 2:
            y = FORMULAS[activation](y)
    expected = torch.autograd.grad(y, [by_autograd, *mlp.parameters()], slopes)

    out, tape = mlp.run(x)
    by_inputs = mlp.pull(tape, slopes, inputs=True)

    assert not out.requires_grad
    torch.testing.assert_close(out, y.detach(), rtol=0, atol=1e-12)
    torch.testing.assert_close(by_inputs, expected[0], rtol=0, atol=1e-10)
    for parameter, gradient in zip(mlp.parameters(), expected[1:], strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=0, atol=1e-10)


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_forward_is_one_function_with_gradients_and_without(activation: str) -> None:
    mlp, x = network(activation), rows(7, 5)
    out, _ = mlp.run(x)
    with torch.inference_mode():
        acting = mlp(x)
    assert torch.equal(out, acting)
    torch.testing.assert_close(mlp(x), out, rtol=0, atol=1e-14)
    torch.testing.assert_close(mlp(rows(2, 7, 5))[0], mlp(rows(2, 7, 5)[0]), rtol=0, atol=1e-14)


def test_gradients_are_added_and_can_be_left_alone() -> None:
    mlp, x, slopes = network("tanh"), rows(11, 5), rows(11, 3)
    _, tape = mlp.run(x)
    mlp.pull(tape, slopes)
    once = [p.grad.clone() for p in mlp.parameters() if p.grad is not None]
    mlp.pull(tape, slopes)
    mlp.pull(tape, slopes, inputs=True, parameters=False)
    for parameter, gradient in zip(mlp.parameters(), once, strict=True):
        torch.testing.assert_close(parameter.grad, 2 * gradient)


def test_stacked_networks_are_run_and_pulled_as_each_by_itself() -> None:
    mlps = [MLP([5, 64, 3], ["tanh"], seeded(seed)) for seed in range(4)]
    x, slopes = rows(4, 30, 5).float(), rows(4, 30, 3).float()
    stacked = []
    for i, layer in enumerate(mlps[0].layers):
        weight = torch.stack([mlp.layers[i].weight.detach() for mlp in mlps])
        bias = torch.stack([mlp.layers[i].bias.detach() for mlp in mlps])
        stacked.append(Layer(weight, bias, layer.activation))
    out, tape = run_layers(stacked, x)
    by_inputs = pull_layers(stacked, tape, slopes, inputs=True)
    assert by_inputs is not None
    for k, mlp in enumerate(mlps):
        alone, own_tape = mlp.run(x[k])
        own = mlp.pull(own_tape, slopes[k], inputs=True)
        torch.testing.assert_close(out[k], alone)
        torch.testing.assert_close(by_inputs[k], own)
        for i, layer in enumerate(mlp.layers):
            torch.testing.assert_close(stacked[i].weight.grad[k], layer.weight.grad)
            torch.testing.assert_close(stacked[i].bias.grad[k], layer.bias.grad)


def test_fast_tanh_is_tanh_to_rounding_also_at_the_ends() -> None:
    x = torch.cat([torch.linspace(-20, 20, 100_001), torch.tensor([0.0, torch.inf, -torch.inf, 1e-8, 88.0, -300.0])])
    exact = torch.tanh(x.double())
    assert float((fast_tanh_(x.clone()).double() - exact).abs().max()) < 2.5e-7
    assert torch.isnan(fast_tanh_(torch.tensor([torch.nan]))).all()


def test_layers_stay_with_their_parameters_in_a_copy() -> None:
    mlp = MLP([5, 6, 2], ["tanh"], seeded(1))
    for made in (copy.deepcopy(mlp), pickle.loads(pickle.dumps(mlp))):
        with torch.no_grad():
            made.weights[0].zero_()
        assert not made.layers[0].weight.any()
        assert mlp.layers[0].weight.any()
