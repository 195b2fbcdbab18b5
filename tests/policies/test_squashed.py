"""Squashed Gaussians and the policies that draw from them or from legal choices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import distributions as td

from marl.data.task import AgentType
from marl.errors import ConfigError, SpaceMismatchError
from marl.policies.build import build_policy
from marl.policies.config import ExplorationConfig, ModelConfig, PolicySpec
from marl.policies.policy import Decision, Inputs
from marl.policies.squashed import LOG_STD, SquashedGaussian, SquashedPolicy

OBS = spaces.Box(-1, 1, (3,), np.float32)
BOX = spaces.Box(-2.0, 2.0, (2,), np.float32)


def policy(action: Any, masked: bool = False, explore: ExplorationConfig | None = None, **model: Any) -> SquashedPolicy:
    kind = AgentType("agent", ("a_0", "a_1"), OBS, action, masked)
    spec = PolicySpec("squashed", 0, ModelConfig(fcnet_hiddens=[8], **model), explore, seed=4)
    built = build_policy(spec, kind)
    assert isinstance(built, SquashedPolicy)
    return built


def act(chosen: SquashedPolicy, rows: int, explore: bool = True, legal: Any = None) -> Decision:
    mask = np.ones((rows, 0), bool) if legal is None else np.tile(np.array(legal, bool), (rows, 1))
    obs = np.random.default_rng(0).normal(size=(rows, 3)).astype(np.float32)
    inputs = Inputs(obs, mask, np.zeros(rows, np.int64))
    return chosen.act(inputs, np.zeros((rows, 0), np.float32), np.random.default_rng(1), explore=explore)


def torchs(params: torch.Tensor) -> td.Distribution:
    mean, log_std = params.chunk(2, 1)
    return td.Independent(td.TransformedDistribution(td.Normal(mean, log_std.exp()), [td.TanhTransform()]), 1)


def test_the_log_probability_equals_that_of_torchs_transformed_distribution() -> None:
    torch.manual_seed(0)
    ours = SquashedGaussian([True, True])
    params, noise = torch.randn(50, 4, dtype=torch.float64), torch.randn(50, 2, dtype=torch.float64)
    actions, logp = ours.draw(params, noise)
    assert torch.allclose(logp, torchs(params).log_prob(actions), atol=1e-6)
    assert torch.allclose(ours.logp(params, actions), logp, atol=1e-6)
    mean, log_std = params.chunk(2, 1)
    assert torch.allclose(actions, torch.tanh(mean + noise * log_std.exp()))


@pytest.mark.parametrize("mean", [0.5, 20.0, -40.0])
def test_the_log_probability_stays_exact_where_tanh_is_rounded_to_one(mean: float) -> None:
    ours = SquashedGaussian([True])
    params = torch.tensor([[mean, 0.0]], requires_grad=True)
    actions, logp = ours.draw(params, torch.zeros(1, 1))
    # In doubles: log N(0; 0, 1) - log(1 - tanh(u)^2), where 1 - tanh(u)^2 = (2 / (e^u + e^-u))^2.
    expected = -0.5 * math.log(2 * math.pi) - 2 * math.log(2 / (math.exp(mean) + math.exp(-mean)))
    assert float(logp.detach()) == pytest.approx(expected, rel=1e-5)
    logp.sum().backward()
    assert params.grad is not None
    assert params.grad[0].tolist() == pytest.approx([2 * math.tanh(mean), -1.0], abs=1e-5)
    assert abs(float(actions.detach())) <= 1


def test_a_coordinate_without_two_bounds_is_not_squeezed() -> None:
    ours = SquashedGaussian([True, False])
    params, noise = torch.randn(20, 4), 3 * torch.randn(20, 2)
    actions, logp = ours.draw(params, noise)
    mean, log_std = params.chunk(2, 1)
    free = mean + noise * log_std.exp()
    assert torch.allclose(actions[:, 1], free[:, 1])
    normal = td.Normal(mean[:, 1], log_std[:, 1].exp()).log_prob(free[:, 1])
    first = SquashedGaussian([True]).draw(params[:, [0, 2]], noise[:, :1])[1]
    assert torch.allclose(logp, first + normal, atol=1e-4)


def test_acting_and_learning_agree_on_actions_and_log_probabilities() -> None:
    ours = SquashedGaussian([True, False])
    params = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
    actions, logp = ours.sample(params, np.random.default_rng(1), True)
    noise = torch.from_numpy(np.random.default_rng(1).standard_normal((100, 2), np.float32))
    drawn, drawn_logp = ours.draw(torch.from_numpy(params), noise)
    assert actions == pytest.approx(drawn.numpy(), abs=1e-5)
    assert logp == pytest.approx(drawn_logp.numpy(), abs=1e-4)
    greedy, _ = ours.sample(params, np.random.default_rng(2), False)
    assert greedy[:, 0] == pytest.approx(np.tanh(params[:, 0]))


def test_entropy_by_quadrature_is_the_mean_surprise_of_many_draws() -> None:
    torch.manual_seed(1)
    ours, params = SquashedGaussian([True, True]), torch.tensor([[0.3, -1.0, -0.5, 0.4]])
    _, logp = ours.draw(params.expand(200_000, -1), torch.randn(200_000, 2))
    assert float(ours.entropy(params)) == pytest.approx(-float(logp.mean()), abs=0.01)


def test_densities_of_the_random_start_are_those_of_an_even_and_a_normal_draw() -> None:
    actions, logp = SquashedGaussian([True, False]).uniform(50, np.random.default_rng(0))
    by_hand = [math.log(1 / 2) - 0.5 * x**2 - 0.5 * math.log(2 * math.pi) for x in actions[:, 1].tolist()]
    assert logp == pytest.approx(by_hand, rel=1e-5)
    assert np.abs(actions[:, 0]).max() <= 1.0 < np.abs(actions[:, 1]).max()


def test_squeezing_both_changes_nothing_in_the_kl_divergence() -> None:
    torch.manual_seed(2)
    ours, p, q = SquashedGaussian([True]), torch.tensor([[0.3, -0.5]]), torch.tensor([[-0.2, 0.1]])
    actions, logp = ours.draw(p.expand(200_000, -1), torch.randn(200_000, 1))
    estimate = (logp - ours.logp(q.expand(200_000, -1), actions)).mean()
    assert float(ours.kl(p, q)) == pytest.approx(float(estimate), abs=0.01)


def test_standard_deviations_stay_in_their_range_and_keep_a_gradient_at_its_ends() -> None:
    chosen = policy(BOX)
    with torch.no_grad():
        list(chosen.parameters())[-1].copy_(torch.tensor([0.0, 0.0, 3.0, -3.0]))
    obs = torch.zeros(1, 3)
    params = chosen(obs, torch.zeros(1, dtype=torch.long), torch.ones(1, 0, dtype=torch.bool))
    log_std = params[0, 2:]
    assert LOG_STD[0] < float(log_std[1].detach()) < float(log_std[0].detach()) < LOG_STD[1]
    log_std.sum().backward()
    bias = list(chosen.parameters())[-1]
    assert bias.grad is not None
    assert (bias.grad[2:] > 0).all()


def test_a_free_log_std_is_one_parameter_for_all_observations() -> None:
    chosen = policy(BOX, free_log_std=True)
    params = chosen(torch.randn(5, 3), torch.zeros(5, dtype=torch.long), torch.ones(5, 0, dtype=torch.bool))
    assert params.shape == (5, 4)
    assert torch.equal(params[0, 2:], params[4, 2:])
    assert params[:, 2:].detach().numpy() == pytest.approx(sum(LOG_STD) / 2)  # the middle of the range to begin with
    params[:, 2:].sum().backward()
    assert chosen.log_std is not None
    assert chosen.log_std.grad is not None


def test_illegal_choices_are_never_played() -> None:
    chosen = policy(spaces.Discrete(4), masked=True)
    legal = [True, False, True, False]
    assert set(act(chosen, 500, legal=legal).actions.tolist()) == {0, 2}
    assert set(act(chosen, 500, explore=False, legal=legal).actions.tolist()) <= {0, 2}
    start = policy(
        spaces.Discrete(4), masked=True, explore=ExplorationConfig(type="StochasticSampling", random_timesteps=10)
    )
    drawn = act(start, 4000, legal=legal)
    assert np.bincount(drawn.actions, minlength=4) / 4000 == pytest.approx([0.5, 0, 0.5, 0], abs=0.03)
    assert drawn.logp == pytest.approx(np.full(4000, math.log(0.5)), abs=1e-5)


def test_the_random_start_is_even_between_the_bounds_and_ends_on_time() -> None:
    chosen = policy(BOX, explore=ExplorationConfig(type="StochasticSampling", random_timesteps=100))
    drawn = act(chosen, 5000)
    counts, _ = np.histogram(drawn.actions, bins=4, range=(-1, 1))
    assert counts / 10_000 == pytest.approx([0.25] * 4, abs=0.02)
    assert drawn.logp == pytest.approx(np.full(5000, 2 * math.log(0.5)), abs=1e-5)
    chosen.anneal(100)
    assert act(chosen, 10).logp != pytest.approx(np.full(10, 2 * math.log(0.5)))


@pytest.mark.parametrize(
    ("action", "model", "error", "text"),
    [
        (spaces.MultiDiscrete([2, 3]), {}, SpaceMismatchError, "sac takes Box or Discrete actions"),
        (spaces.Tuple([spaces.Discrete(2), BOX]), {}, SpaceMismatchError, "sac takes Box or Discrete actions"),
        (BOX, {"use_lstm": True}, ConfigError, "recurrent model"),
        (BOX, {"use_gru": True}, ConfigError, "recurrent model"),
    ],
)
def test_what_it_cannot_be_is_refused_with_the_remedy(
    action: Any, model: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        policy(action, **model)
