"""Every activation by name: in all keys that take one, with first weights of its own scale, and in exported policies."""

from __future__ import annotations

import importlib
import math
import re
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

import marl
from marl.errors import ConfigError
from marl.play.onnx_export.activations import OPERATIONS
from marl.policies.config import ACTIVATION_COST, ActivationName, ModelConfig
from marl.policies.mlp import ACTIVATIONS, MLP
from marl.policies.networks import seeded
from marl.policies.vision import ConvEncoder
from marl.scenario.load import compose

NAMES = get_args(ActivationName)
KEYS = ("fcnet_activation", "post_fcnet_activation", "conv_activation")


def normal_mean_square(name: str) -> float:
    """E[f(z)^2] for normal z, by a sum over a fine grid."""
    z = torch.linspace(-12, 12, 200_001, dtype=torch.float64)
    density = torch.exp(-z.square() / 2) / math.sqrt(2 * math.pi)
    return float((ACTIVATIONS[name].traced(z).square() * density).sum() * (z[1] - z[0]))


def test_each_name_that_a_key_takes_has_its_function_its_graph_and_its_cost() -> None:
    assert set(NAMES) == set(ACTIVATIONS) == set(OPERATIONS)
    for key in KEYS:
        assert ModelConfig.model_fields[key].annotation == ActivationName
    told = [entry.split()[0] for entry in ACTIVATION_COST.split(", ")]
    assert told == [name for name in NAMES if name != "tanh"]
    assert ACTIVATION_COST in str(ModelConfig.model_fields["fcnet_activation"].description)


def test_the_page_and_the_key_tell_the_same_costs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| [\d.]+ \| [\d.]+ \| ([\d.]+) \| [\d.]+ \|$", page, re.MULTILINE)
    assert [name for name, _ in rows] == list(NAMES)
    assert ", ".join(f"{name} {cost}" for name, cost in rows if name != "tanh") == ACTIVATION_COST


@pytest.mark.parametrize("name", [name for name in NAMES if name != "tanh"])
def test_first_weights_keep_the_mean_square_of_what_passes_through(name: str) -> None:
    assert ACTIVATIONS[name].gain == pytest.approx(normal_mean_square(name) ** -0.5, abs=1e-4)
    net = MLP([64] * 4, [name] * 3, seeded(0))
    for weight in net.weights:
        torch.testing.assert_close(weight @ weight.T, ACTIVATIONS[name].gain ** 2 * torch.eye(64), atol=1e-5, rtol=1e-5)
    # Inputs for which the first layer gives normal numbers: so do the layers behind it.
    out = net(torch.randn(4096, 64, generator=seeded(1)) / ACTIVATIONS[name].gain)
    assert float(out.detach().square().mean()) == pytest.approx(normal_mean_square(name), rel=0.1)


def test_the_first_weights_of_tanh_are_those_of_every_ppo() -> None:
    assert ACTIVATIONS["tanh"].gain == ACTIVATIONS["relu"].gain == math.sqrt(2)


@pytest.mark.parametrize("name", NAMES)
def test_a_vision_net_is_one_function_with_gradients_and_without(name: str) -> None:
    net = ConvEncoder((9, 9, 2), [(3, 4, 2), (2, 2, 1)], name, seeded(0))
    pixels = torch.rand(5, 162, generator=seeded(1))
    learning = net(pixels)
    with torch.inference_mode():
        acting = net(pixels)
    torch.testing.assert_close(learning, acting, rtol=0, atol=1e-6)
    gain = ACTIVATIONS[name].gain
    first = net.weights[0].flatten(1)
    torch.testing.assert_close(first @ first.T, gain**2 * torch.eye(3), atol=1e-5, rtol=1e-5)
    (gradient,) = torch.autograd.grad(learning.sum(), net.weights[0])
    with torch.no_grad():
        net.weights[0][0, 0, 0, 0] += 1e-2
        difference = (net(pixels).sum() - learning.sum()) / 1e-2
    assert float(gradient[0, 0, 0, 0]) == pytest.approx(float(difference), rel=0.05)


def test_rllibs_name_for_silu_is_understood_and_written_as_ours() -> None:
    model = ModelConfig(**dict.fromkeys(KEYS, "swish"))
    assert [getattr(model, key) for key in KEYS] == ["silu"] * 3


@pytest.mark.parametrize("wrong", ["sigmoid", "linear", None, 3])
def test_what_is_no_activation_is_refused_with_those_there_are(wrong: Any) -> None:
    with pytest.raises(ConfigError, match=r"fcnet_activation.*'tanh', 'relu', 'silu', 'gelu' or 'elu'"):
        compose({"env": "matrix_game", "algo": "ppo", "model": {"fcnet_activation": wrong}}, "test")


@pytest.mark.parametrize("name", ["silu", "gelu", "elu"])
@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_a_policy_trains_and_plays_the_same_after_its_export(algo: str, name: str, tmp_path: Path) -> None:
    keys: dict[str, Any] = {
        "env": "CartPole-v1", "fcnet_hiddens": [8], "fcnet_activation": name, "evaluation": {"interval": 0},
        "train_batch_size": 32, "log_sys_usage": False,
        **({"sgd_minibatch_size": 16, "num_sgd_iter": 2} if algo == "ppo" else {"learning_starts": 16, "timesteps_per_iteration": 64}),
    }  # fmt: skip
    obs = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    with marl.Trainer(algo, config=keys) as trainer:
        before = {name: array.copy() for name, array in trainer.get_weights()["default_policy"].items()}
        trainer.train()
        after = trainer.get_weights()["default_policy"]
        assert any(not np.array_equal(before[name], after[name]) for name in before)
        folder = trainer.export_model(tmp_path)[0]
        expected = [trainer.compute_action(row, explore=False) for row in obs]
    player = marl.load_policy(folder)
    assert [player.compute_action(row, explore=False) for row in obs] == expected


def test_measured_costs_are_written_into_the_key_and_into_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(__file__).parents[2]
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    activations = importlib.import_module("activations")
    files = []
    for source in (activations.CONFIG, activations.PAGE):
        files.append(tmp_path / source.name)
        files[-1].write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    places = activations.places()
    costs = {name: {place: i + j / 10 for j, place in enumerate(places)} for i, name in enumerate(NAMES)}
    activations.write(costs, *files)
    assert 'ACTIVATION_COST = "relu 1.20, silu 2.20, gelu 3.20, elu 4.20"\n' in files[0].read_text(encoding="utf-8")
    assert "| `silu` | 2.00 | 2.10 | 2.20 | 2.30 |\n" in files[1].read_text(encoding="utf-8")
