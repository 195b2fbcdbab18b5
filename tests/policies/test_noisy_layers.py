"""Layers that draw their weights: numbers against the paper's formula, gradients against autograd, and who sees which noise."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

import marl
from marl.data.task import AgentType
from marl.errors import ConfigError
from marl.policies import noisy as noisy_module
from marl.policies.build import build_policies, build_policy
from marl.policies.config import ExplorationConfig, ModelConfig, PolicySpec
from marl.policies.mlp import MLP
from marl.policies.noisy import NoisyMLP, noise_for_all, noise_of_outcomes
from marl.policies.policy import Inputs
from marl.policies.size import parameter_count
from marl.policies.value import ValuePolicy

OBS, CHOICES = spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(4)
KIND = AgentType("a", ("a", "b"), OBS, CHOICES)
SIZES = [3, 5, 4]


def layers(sigma0: float = 0.5, activation: str = "tanh") -> tuple[MLP, NoisyMLP]:
    plain = MLP(SIZES, [activation], torch.Generator().manual_seed(1))
    return copy.deepcopy(plain), NoisyMLP(plain, sigma0)


def spec(model: ModelConfig | None = None, **options: Any) -> PolicySpec:
    told = {"noisy": True, "sigma0": 0.5, **options}
    model = model or ModelConfig(fcnet_hiddens=[6])
    return PolicySpec("value", 0, model, ExplorationConfig(type="NoisyLayers"), options=told)


def policy(model: ModelConfig | None = None, **options: Any) -> ValuePolicy:
    built = build_policy(spec(model, **options), KIND)
    assert isinstance(built, ValuePolicy)
    return built


def rows(n: int) -> Inputs:
    return Inputs(np.full((n, 3), 0.3, np.float32), np.ones((n, 0), bool), np.zeros(n, np.int64))


@torch.no_grad()
def by_hand(network: NoisyMLP, x: np.ndarray[Any, Any], normal: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The paper's equation for one row, number by number; ``normal`` is what was drawn for it."""
    numbers = iter(normal.tolist())
    for i, (weight, bias) in enumerate(zip(network.weights, network.biases, strict=True)):
        wide, narrow = weight.shape[1], weight.shape[0]
        shaped = [math.copysign(math.sqrt(abs(e)), e) for e in (next(numbers) for _ in range(wide + narrow))]
        y = []
        for out in range(narrow):
            noise = shaped[wide + out]
            total = float(bias[out]) + float(network.bias_sigmas[i][out]) * noise
            for into in range(wide):
                drawn = float(weight[out, into]) + float(network.weight_sigmas[i][out, into]) * noise * shaped[into]
                total += drawn * float(x[into])
            y.append(math.tanh(total) if i == 0 else total)
        x = np.array(y)
    return x


def spread(network: NoisyMLP) -> None:
    """Deviations that are not all alike."""
    with torch.no_grad():
        for i, sigma in enumerate([*network.weight_sigmas, *network.bias_sigmas]):
            sigma.mul_(torch.rand(sigma.shape, generator=torch.Generator().manual_seed(i)) * 3)


def test_deviations_begin_as_sigma0_over_the_root_of_the_inputs_and_the_means_play_without_noise() -> None:
    plain, noisy = layers(0.4)
    for weight, sigma, bias in zip(noisy.weights, noisy.weight_sigmas, noisy.bias_sigmas, strict=True):
        expected = 0.4 / math.sqrt(weight.shape[1])
        assert torch.allclose(sigma, torch.full_like(weight, expected))
        assert torch.allclose(bias, torch.full((len(weight),), expected))
    x = torch.randn(7, 3)
    assert torch.equal(noisy(x), plain(x))
    assert torch.equal(noisy.run(x)[0], plain.run(x)[0])


def test_each_row_that_acts_has_the_noise_of_the_papers_equation() -> None:
    _, noisy = layers()
    spread(noisy)
    x = np.random.default_rng(3).normal(size=(6, 3)).astype(np.float32)
    noisy.use(noisy.draw(np.random.default_rng(8), 6), [])
    with torch.inference_mode():
        found = noisy(torch.from_numpy(x)).numpy()
    normal = np.random.default_rng(8).standard_normal((6, sum(SIZES) + SIZES[1]), np.float32)
    for i in range(6):
        np.testing.assert_allclose(found[i], by_hand(noisy, x[i], normal[i]), rtol=1e-4, atol=1e-5)


def test_all_rows_that_are_learned_from_have_one_noise_and_outcomes_another() -> None:
    _, noisy = layers()
    spread(noisy)
    x = np.random.default_rng(3).normal(size=(2, 3)).astype(np.float32)
    rng = np.random.default_rng(8)
    first, second = (rng.standard_normal(sum(SIZES) + SIZES[1], np.float32) for _ in range(2))
    with noise_for_all([noisy], np.random.default_rng(8)):
        now = noisy.run(torch.from_numpy(x))[0]
        with noise_of_outcomes([noisy]):
            later = noisy.run(torch.from_numpy(x))[0]
        again = noisy.run(torch.from_numpy(x))[0]
    for i in range(2):
        np.testing.assert_allclose(now[i], by_hand(noisy, x[i], first), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(later[i], by_hand(noisy, x[i], second), rtol=1e-4, atol=1e-5)
    assert torch.equal(now, again)
    assert noisy.noise == []
    assert noisy.later == []


def gradient_distance(activation: str) -> float:
    """How far ``pull`` is from autograd, in float64, over means and deviations; pulled twice, so twice as large."""
    _, noisy = layers(activation=activation)
    noisy.double()
    noisy._look_up()
    spread(noisy)
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(9, 3, generator=generator, dtype=torch.float64)
    slopes = torch.randn(9, 4, generator=generator, dtype=torch.float64)
    with noise_for_all([noisy], np.random.default_rng(2)):
        expected = torch.autograd.grad(noisy(x), list(noisy.parameters()), slopes)
        _, tape = noisy.run(x)
        back = noisy.pull(tape, slopes, inputs=True)
        noisy.pull(tape, slopes)
        seen = x.clone().requires_grad_()
        (by_inputs,) = torch.autograd.grad(noisy(seen), seen, slopes)
    assert back is not None
    far = [float((back - by_inputs).abs().max())]
    for parameter, slope in zip(noisy.parameters(), expected, strict=True):
        assert parameter.grad is not None
        far.append(float((parameter.grad - 2 * slope).abs().max()))
    return max(far)


@pytest.mark.parametrize("activation", ["tanh", "relu", "silu"])
def test_the_way_back_through_noisy_layers_is_autograds(activation: str) -> None:
    assert gradient_distance(activation) < 1e-5  # tanh is written as a sigmoid, which is off by 2e-7


def test_a_deviation_that_forgot_its_noise_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = noisy_module._add_slopes
    monkeypatch.setattr(noisy_module, "_add_slopes", lambda d, m, s, f: right(d, m, s, torch.ones_like(f)))
    assert gradient_distance("tanh") > 1e-2


# -- policies ----------------------------------------------------------------------------------------------------------


def test_greedy_play_draws_nothing_and_takes_the_best_action_of_the_means() -> None:
    noisy, rng = policy(), np.random.default_rng(0)
    before = rng.bit_generator.state
    decision = noisy.act(rows(5), np.zeros((5, 0), np.float32), rng, explore=False)
    assert rng.bit_generator.state == before
    values = noisy.q_values({"obs": rows(5).obs})
    assert decision.actions.tolist() == values.argmax(1).tolist()


def test_exploring_rows_that_see_the_same_do_different_things_and_the_same_seed_does_the_same() -> None:
    noisy = policy(sigma0=3.0)
    first, second = (
        noisy.act(rows(64), np.zeros((64, 0), np.float32), np.random.default_rng(seed), explore=True).actions
        for seed in (1, 1)
    )
    assert len(set(first.tolist())) > 2
    assert first.tolist() == second.tolist()
    assert all(part.noise == [] for part in noisy.noisy_layers)


def test_values_and_thoughts_have_no_noise_and_no_chances_while_it_explores() -> None:
    noisy = policy()
    insight = noisy.insight(rows(2), np.zeros((2, 0), np.float32), explore=True)
    assert insight.probabilities is None
    assert insight.q_values is not None
    np.testing.assert_allclose(insight.q_values, noisy.q_values({"obs": rows(2).obs}), rtol=1e-6)


def test_layers_before_and_behind_a_memory_are_noisy_and_its_own_are_not() -> None:
    noisy = policy(ModelConfig(fcnet_hiddens=[6], use_gru=True, lstm_cell_size=5))
    names = [name for name, _ in noisy.named_parameters() if "sigma" in name]
    assert {name.split(".")[1] for name in names} == {"network", "head"}
    assert noisy.model.memory is not None
    bare = policy(ModelConfig(fcnet_hiddens=[], use_gru=True, lstm_cell_size=5))
    assert len(bare.noisy_layers) == 1


def test_shared_encoders_share_their_deviations() -> None:
    model = ModelConfig(fcnet_hiddens=[6], shared={"encoder": "x"})
    both = build_policies({"one": spec(model), "two": spec(model)}, [KIND])
    one, two = both["one"], both["two"]
    assert isinstance(one, ValuePolicy)
    assert isinstance(two, ValuePolicy)
    first, second = one.noisy_layers[0], two.noisy_layers[0]
    assert first.weight_sigmas[0] is second.weight_sigmas[0]
    assert first.weight_sigmas[1] is not second.weight_sigmas[1]
    assert first.deviations[0].bias is second.deviations[0].bias
    assert {id(p) for p in one.shared["x"]} >= {id(first.weight_sigmas[0]), id(first.bias_sigmas[0])}


def test_every_weight_has_a_deviation_and_is_counted_with_it() -> None:
    for model in (ModelConfig(fcnet_hiddens=[6, 5]), ModelConfig(fcnet_hiddens=[6], use_lstm=True, lstm_cell_size=3)):
        noisy = policy(model)
        assert sum(p.numel() for p in noisy.parameters()) == parameter_count(spec(model), KIND)


class Own(marl.Model):
    """Layers of a user."""

    def __init__(self, inputs: int, outputs: int, config: Any) -> None:
        super().__init__(inputs, outputs, config)
        self.layer = torch.nn.Linear(inputs, outputs)

    def forward(self, x: torch.Tensor, carry: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.layer(x), carry


def test_a_custom_model_is_refused_because_none_of_its_layers_would_be_noisy() -> None:
    marl.register_model("own_layers", Own)
    with pytest.raises(
        ConfigError, match=r"custom model 'own_layers' .* replaces the layers that would be noisy. Drop"
    ):
        policy(ModelConfig(custom_model="own_layers"))
