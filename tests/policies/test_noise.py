"""Noise that drifts, and noise on weights: numbers against an independent computation, runs that go on exactly."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

import marl
from marl.data.task import AgentType
from marl.errors import SpaceMismatchError
from marl.policies.build import build_policy
from marl.policies.config import ExplorationConfig, ModelConfig, PolicySpec
from marl.policies.exploration import ParameterNoise
from marl.policies.policy import Inputs

OBS = spaces.Box(-1, 1, (3,), np.float32)
BOX, CHOICES = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(4)


def policy(acts: str, action: spaces.Space[Any], **explore: Any) -> Any:
    spec = PolicySpec(acts, 0, ModelConfig(fcnet_hiddens=[6]), ExplorationConfig(**explore))
    return build_policy(spec, AgentType("a", ("a", "b"), OBS, action))


def rows(n: int, lots: Any = ()) -> Inputs:
    obs = np.random.default_rng(5).uniform(-1, 1, (n, 3)).astype(np.float32)
    return Inputs(obs, np.ones((n, 0), bool), np.zeros(n, np.int64), np.asarray(lots, np.float64))


# -- Ornstein-Uhlenbeck ----------------------------------------------------------------------------------------------


def test_drifting_noise_is_the_recursion_worked_out_by_hand_and_begins_anew_with_an_episode() -> None:
    drifting = policy(
        "deterministic", BOX, type="OrnsteinUhlenbeckNoise", ou_theta=0.3, ou_sigma=0.1, initial_scale=0.5
    )
    assert drifting.carry_size == 2
    seen = rows(1)
    mean = drifting.act(seen, np.zeros((1, 2), np.float32), np.random.default_rng(0), explore=False).actions
    draws, x = np.random.default_rng(7), [0.0, 0.0]
    carry, rng = np.zeros((1, 2), np.float32), np.random.default_rng(7)
    for _ in range(5):
        decision = drifting.act(seen, carry, rng, explore=True)
        carry = decision.carry
        normal = draws.standard_normal((1, 2), np.float32)[0]
        x = [0.7 * old + 0.1 * float(new) for old, new in zip(x, normal, strict=True)]
        np.testing.assert_allclose(carry[0], x, rtol=1e-5, atol=1e-7)
        expected = np.clip(mean[0] + 0.5 * np.array(x), -1, 1)
        np.testing.assert_allclose(decision.actions[0], expected, rtol=1e-5, atol=1e-6)


def test_drifting_noise_has_the_variance_and_the_correlation_that_theory_says() -> None:
    drifting = policy("deterministic", BOX, type="OrnsteinUhlenbeckNoise", ou_theta=0.15, ou_sigma=0.2)
    carry, rng, path = np.zeros((1000, 2), np.float32), np.random.default_rng(0), []
    for _ in range(60):
        _, carry = drifting.exploration.noisy(np.zeros((1000, 2), np.float32), carry, rng)
        path.append(carry)
    # An autoregression of order one: variance sigma^2 / (1 - (1 - theta)^2), correlation 1 - theta.
    assert path[-1].var() == pytest.approx(0.2**2 / (1 - 0.85**2), rel=0.1)
    together = np.corrcoef(path[-2].ravel(), path[-1].ravel())[0, 1]
    assert together == pytest.approx(0.85, abs=0.03)


def test_greedy_play_has_no_noise_and_choices_take_none() -> None:
    drifting = policy("deterministic", BOX, type="OrnsteinUhlenbeckNoise")
    carry = np.zeros((2, 2), np.float32)
    first, second = (drifting.act(rows(2), carry, np.random.default_rng(i), explore=False) for i in (0, 1))
    assert np.array_equal(first.actions, second.actions)
    assert not first.carry.any()
    with pytest.raises(SpaceMismatchError, match="expected StochasticSampling or ParameterNoise"):
        policy("deterministic", CHOICES, type="OrnsteinUhlenbeckNoise")


# -- noise on weights ------------------------------------------------------------------------------------------------


def by_hand(net: Any, lot: float, stddev: float, obs: Any) -> Any:
    """The outputs of a copy whose weights got the noise of a lot, tensor by tensor."""
    noisy = copy.deepcopy(net.model)
    generator = torch.Generator().manual_seed(int(lot * 2**53))
    with torch.no_grad():
        for parameter in noisy.parameters():
            parameter += stddev * torch.randn(parameter.shape, generator=generator)
        return noisy(torch.from_numpy(obs), torch.zeros(len(obs), dtype=torch.long))


def test_every_episode_is_played_by_a_perturbation_of_its_own() -> None:
    noisy = policy("value", CHOICES, type="ParameterNoise", initial_stddev=0.7)
    before = noisy.get_weights()
    seen = rows(6, [0.2, 0.9, 0.2, 0.5, 0.9, 0.2])
    decision = noisy.act(seen, np.zeros((6, 0), np.float32), np.random.default_rng(0), explore=True)
    for i, lot in enumerate(seen.episode_uniform):
        values = by_hand(noisy, lot, 0.7, seen.obs[i : i + 1])
        assert decision.actions[i] == int(values.argmax())
    after = noisy.get_weights()
    assert all(np.array_equal(before[name], after[name]) for name in before)  # to the last bit


def test_deterministic_actions_come_from_noisy_weights_too() -> None:
    noisy = policy("deterministic", BOX, type="ParameterNoise", initial_stddev=0.3)
    seen = rows(2, [0.1, 0.8])
    actions = noisy.act(seen, np.zeros((2, 0), np.float32), np.random.default_rng(0), explore=True).actions
    for i, lot in enumerate((0.1, 0.8)):
        np.testing.assert_allclose(
            actions[i], by_hand(noisy, lot, 0.3, seen.obs[i : i + 1])[0].tanh(), rtol=1e-6, atol=1e-7
        )
    plain = noisy.act(seen, np.zeros((2, 0), np.float32), np.random.default_rng(0), explore=False).actions
    by_autograd = noisy.model(torch.from_numpy(seen.obs), torch.zeros(2, dtype=torch.long)).tanh().detach()
    np.testing.assert_allclose(plain, by_autograd, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(("stddev", "grows"), [(0.001, True), (20.0, False)])
@pytest.mark.parametrize(("acts", "action"), [("value", CHOICES), ("deterministic", BOX)])
def test_the_deviation_grows_while_play_is_near_and_shrinks_when_it_is_far(
    acts: str, action: Any, stddev: float, grows: bool
) -> None:
    noisy = policy(acts, action, type="ParameterNoise", initial_stddev=stddev)
    seen = rows(20)
    noisy.observe(seen.obs, seen.agent_index)
    factor = 1.01 if grows else 1 / 1.01
    assert noisy.exploration.now() == pytest.approx(stddev * factor, rel=1e-5)
    noisy.anneal(10**6)  # time does not move it
    assert noisy.exploration.now() == pytest.approx(stddev * factor, rel=1e-5)


def test_how_far_noisy_play_is_follows_the_formulas() -> None:
    values = policy("value", CHOICES, type="ParameterNoise")
    q, noisy = torch.tensor([[1.0, 2.0, 0.0, 0.5]]), torch.tensor([[0.0, 2.5, 0.0, 1.0]])
    p, r = (np.exp(x.numpy()[0]) / np.exp(x.numpy()[0]).sum() for x in (q, noisy))
    assert values.distance(q, noisy) == pytest.approx(float((p * np.log(p / r)).sum()), abs=1e-6)
    assert values.furthest(0.1) == pytest.approx(-np.log(0.9 + 0.1 / 4))
    moves = policy("deterministic", BOX, type="ParameterNoise")
    a, b = torch.tensor([[0.5, -1.0]]), torch.tensor([[0.1, -1.0]])
    expected = np.sqrt(((np.tanh(a.numpy()) - np.tanh(b.numpy())) ** 2).mean())
    assert moves.distance(a, b) == pytest.approx(float(expected), abs=1e-6)


@pytest.mark.parametrize("random_timesteps", [0, 100])
def test_a_random_start_comes_before(random_timesteps: int) -> None:
    noisy = policy("value", CHOICES, type="ParameterNoise", initial_stddev=1e-6, random_timesteps=random_timesteps)
    seen = rows(200, [0.5] * 200)
    one = Inputs(np.repeat(seen.obs[:1], 200, 0), seen.legal, seen.agent_index, seen.episode_uniform)
    actions = noisy.act(one, np.zeros((200, 0), np.float32), np.random.default_rng(0), explore=True).actions
    assert len(set(actions.tolist())) == (4 if random_timesteps else 1)
    noisy.anneal(100)
    assert noisy.exploration.chance_of_random() == 0.0


# -- runs ------------------------------------------------------------------------------------------------------------

PENDULUM = {"timesteps_per_iteration": 64, "learning_starts": 32, "train_batch_size": 16, "fcnet_hiddens": [8]}


@pytest.mark.parametrize(
    ("algo", "env", "kind"),
    [
        ("ddpg", "Pendulum-v1", "OrnsteinUhlenbeckNoise"),
        ("td3", "Pendulum-v1", "ParameterNoise"),
        ("dqn", "CartPole-v1", "ParameterNoise"),
    ],
)
def test_a_run_goes_on_exactly(algo: str, env: str, kind: str, tmp_path: Path) -> None:
    config = {**PENDULUM, "num_envs_per_worker": 2, "exploration_config": {"type": kind}, "evaluation": {"interval": 0}}
    with marl.Trainer(algo, env=env, config=config) as run:
        first = run.get_policy().exploration.now()  # type: ignore[union-attr, operator]
        run.train()
        checkpoint = run.save(tmp_path / "checkpoint")
        run.train()
        expected = run.get_policy().get_weights()
        if kind == "ParameterNoise":
            noise = run.get_policy().exploration
            assert isinstance(noise, ParameterNoise)
            assert noise.now() != first
    with marl.Trainer.from_checkpoint(checkpoint) as again:
        again.train()
        found = again.get_policy().get_weights()
    assert all(np.array_equal(expected[name], found[name]) for name in expected)
