"""Losses, mixers and schedules against numbers worked out by hand."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from marl.algos.central_critic.losses import (
    adapted_kl_coeff,
    clipped_loss,
    explained_variance,
    normalized,
    policy_gradient_loss,
    value_loss,
)
from marl.algos.config import OptimizerConfig, scheduled
from marl.algos.optimiser import FlatOptimiser
from marl.algos.qmix.losses import best_legal, td_loss, td_target
from marl.algos.qmix.mixers import MonotonicMixer, SumMixer
from marl.data.batch import SampleBatch
from marl.data.replay import Replay
from marl.errors import TrainingError
from marl.policies.distributions import Categorical, DiagGaussian
from marl.policies.networks import seeded


def t(*values: float) -> torch.Tensor:
    return torch.tensor(values)


def test_a_target_is_discounted_by_the_steps_that_passed_and_stops_at_termination() -> None:
    target = td_target(t(1.0, 1.0), t(10.0, 10.0), torch.tensor([3, 1]), torch.tensor([False, True]), 0.5)
    assert target.tolist() == [1 + 0.125 * 10, 1.0]


def test_the_td_loss_is_a_weighted_mean_square_without_gradient_through_the_target() -> None:
    chosen, target = t(1.0, 2.0).requires_grad_(), t(3.0, 3.0).requires_grad_()
    loss = td_loss(chosen, target, t(1.0, 0.5))
    assert loss.item() == pytest.approx((4 + 0.5) / 2)
    loss.backward()
    assert target.grad is None


def test_the_best_action_is_a_legal_one() -> None:
    values = torch.tensor([[5.0, 1.0, 2.0]])
    assert best_legal(values, torch.tensor([[False, True, True]])).tolist() == [2]
    assert best_legal(values, torch.zeros(1, 0, dtype=torch.bool)).tolist() == [0]


def test_the_sum_mixer_adds() -> None:
    assert SumMixer(2, 0, 0, seeded(0))(torch.tensor([[1.0, 2.0]]), torch.zeros(1, 0)).tolist() == [3.0]


def test_the_monotonic_mixer_never_falls_when_a_member_gains() -> None:
    mixer = MonotonicMixer(3, 4, 8, seeded(1))
    state, values = torch.randn(200, 4), torch.randn(200, 3, requires_grad=True)
    mixer(values, state).sum().backward()
    assert values.grad is not None
    assert (values.grad >= 0).all()
    assert (values.grad > 0).any()


def test_the_monotonic_mixer_equals_a_slow_loop_over_its_formula() -> None:
    mixer, state, q = MonotonicMixer(2, 3, 4, seeded(2)), torch.randn(3), [0.7, -1.3]
    w1, b1, w2 = mixer.w1(state).tolist(), mixer.b1(state).tolist(), mixer.w2(state).tolist()
    total = mixer.v(torch.relu(mixer.v_hidden(state))).item()
    for j in range(4):
        x = abs(w1[j]) * q[0] + abs(w1[4 + j]) * q[1] + b1[j]
        total += abs(w2[j]) * (x if x > 0 else math.exp(x) - 1)
    assert mixer(torch.tensor([q]), state[None]).item() == pytest.approx(total, abs=1e-5)


def test_each_members_own_best_action_is_part_of_the_best_joint_action() -> None:
    mixer, generator = MonotonicMixer(3, 5, 8, seeded(3)), seeded(4)
    for _ in range(50):
        values, state = torch.randn(3, 4, generator=generator), torch.randn(5, generator=generator)
        joint = list(itertools.product(range(4), repeat=3))
        chosen = torch.stack([values[[0, 1, 2], list(actions)] for actions in joint])
        mixed = mixer(chosen, state.expand(len(joint), -1))
        greedy = joint.index(tuple(values.argmax(1).tolist()))
        assert mixed[greedy].item() == pytest.approx(mixed.max().item(), abs=1e-6)


def test_n_step_outcomes_equal_a_slow_loop_over_the_decisions_that_followed() -> None:
    rng, gamma, n = np.random.default_rng(0), 0.9, 3
    replay, played = Replay(200), []
    for eps in range(20):
        count, stream, t = int(rng.integers(1, 8)), eps % 3, 0
        for i in range(count):
            lasts, last = int(rng.integers(1, 4)), i == count - 1
            row = (eps, t, lasts, float(rng.normal()), last and eps % 2 == 0, last)
            played.append(row)
            replay.add(_decision(*row), np.array([stream]))
            t += lasts
    rows = replay._outcomes(np.arange(len(played)), n, gamma)
    for at, (eps, t, *_) in enumerate(played):
        following = [row for row in played if row[0] == eps and row[1] >= t][:n]
        reward, discount, elapsed = 0.0, 1.0, 0
        for _, _, lasts, paid, _, _ in following:
            reward, discount, elapsed = reward + discount * paid, discount * gamma**lasts, elapsed + lasts
        assert rows["rewards"][at] == pytest.approx(reward, abs=1e-5)
        assert (rows["elapsed"][at], rows["new_obs"][at, 0]) == (elapsed, t + elapsed)
        assert rows["terminateds"][at] == following[-1][4]


def _decision(eps: int, t: int, lasts: int, paid: float, terminated: bool, ended: bool) -> SampleBatch:
    return SampleBatch(
        {
            "eps_id": np.array([eps]), "t": np.array([t]), "elapsed": np.array([lasts]),
            "rewards": np.array([paid], np.float32), "terminateds": np.array([terminated]), "ended": np.array([ended]),
            "new_obs": np.array([[t + lasts]], np.float32),
        }
    )  # fmt: skip


def test_the_clipped_loss_by_hand() -> None:
    old = torch.zeros(4)
    logp = t(1.5, 0.5, 1.5, 0.5).log()
    advantages = t(1.0, 1.0, -1.0, -1.0)
    # min(1.5, 1.2), min(0.5, 0.8), min(-1.5, -1.2), min(-0.5, -0.8)
    assert clipped_loss(logp, old, advantages, 0.2)[0].mean().item() == pytest.approx(-(1.2 + 0.5 - 1.5 - 0.8) / 4)


def test_a_ratio_that_has_moved_far_enough_is_pushed_no_further_but_may_come_back() -> None:
    logp = t(1.5, 0.5, 1.5, 0.5).log()
    _, slope = clipped_loss(logp, torch.zeros(4), t(1.0, 1.0, -1.0, -1.0), 0.2)
    # d(-r A) / d log r = -r A where the unclipped side is the smaller one, else 0.
    assert slope.tolist() == pytest.approx([0.0, -0.5, 1.5, 0.0])


def test_kl_divergences_by_hand() -> None:
    even, odd = t(0.5, 0.5).log()[None], t(0.25, 0.75).log()[None]
    assert Categorical(2).kl(even, odd).item() == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3))
    # N(0, 1) and N(1, 2): log 2 + (1 + 1) / (2 * 4) - 1 / 2
    narrow, wide = torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, math.log(2)]])
    assert DiagGaussian(1).kl(narrow, wide).item() == pytest.approx(math.log(2) + 0.25 - 0.5)


def test_policy_gradient_and_value_losses_by_hand() -> None:
    assert policy_gradient_loss(t(-1.0, -2.0), t(2.0, 1.0))[0].mean().item() == pytest.approx(2.0)
    assert value_loss(t(1.0, 3.0), t(0.0, 0.0), t(0.0, 0.0), None)[0].mean().item() == pytest.approx(5.0)
    # The second value moved by 3 from 0; clipped to 1 its error is 1, so the larger error 9 counts.
    assert value_loss(t(0.5, 3.0), t(0.0, 0.0), t(0.0, 0.0), 1.0)[0].mean().item() == pytest.approx((0.25 + 9.0) / 2)
    assert value_loss(t(3.0), t(3.0), t(0.0), 1.0)[0].item() == pytest.approx(4.0)


def test_normalised_advantages_have_mean_zero_and_deviation_one() -> None:
    out = normalized(t(1.0, 2.0, 3.0))
    assert out.mean().item() == pytest.approx(0, abs=1e-6)
    assert out.std(unbiased=False).item() == pytest.approx(1, abs=1e-5)
    assert normalized(t(5.0)).tolist() == [0.0]


def test_the_kl_weight_follows_its_target() -> None:
    assert [adapted_kl_coeff(1.0, kl, 0.01) for kl in (0.03, 0.01, 0.001)] == [1.5, 1.0, 0.5]


def test_explained_variance_is_one_for_a_perfect_critic_and_zero_for_the_mean() -> None:
    targets = t(1.0, 2.0, 6.0)
    assert explained_variance(targets, targets).item() == 1.0
    assert explained_variance(torch.full((3,), 3.0), targets).item() == pytest.approx(0.0)


def test_a_schedule_joins_its_points_by_straight_lines() -> None:
    points = [(10, 1.0), (20, 0.0), (40, 4.0)]
    assert [scheduled(points, 9.0, s) for s in (0, 10, 15, 20, 30, 99)] == [1.0, 1.0, 0.5, 0.0, 2.0, 4.0]
    assert scheduled(None, 9.0, 5) == 9.0


def test_the_flat_optimiser_equals_torchs_own_adam_with_clipping() -> None:
    nets = [torch.nn.Linear(3, 2) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    flat = FlatOptimiser(nets[0].parameters(), OptimizerConfig(), 0.01, "net")
    plain = torch.optim.Adam(nets[1].parameters(), 0.01, eps=1e-5)
    for step in range(5):
        x = torch.full((4, 3), float(step + 1))
        flat.zero()
        nets[0](x).square().sum().backward()
        norm = flat.step(0.5, 0.01)
        plain.zero_grad()
        nets[1](x).square().sum().backward()
        expected = torch.nn.utils.clip_grad_norm_(nets[1].parameters(), 0.5)
        plain.step()
        assert float(norm) == pytest.approx(float(expected), rel=1e-5)
    for a, b in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("kind", ["adam", "sgd", "rmsprop"])
def test_every_optimiser_goes_downhill(kind: str) -> None:
    net = torch.nn.Linear(2, 1)
    optimiser = FlatOptimiser(net.parameters(), OptimizerConfig(type=kind), 0.01, "net")  # type: ignore[arg-type]
    losses = []
    for _ in range(20):
        optimiser.zero()
        loss = net(torch.ones(1, 2)).square().sum() + 0.01
        loss.backward()
        optimiser.step(None, 0.01)
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_a_gradient_that_is_not_a_number_stops_before_the_weights_are_spoiled() -> None:
    net = torch.nn.Linear(1, 1)
    optimiser = FlatOptimiser(net.parameters(), OptimizerConfig(), 0.01, "policy 'x'")
    before = [p.clone() for p in net.parameters()]
    (net(torch.ones(1, 1)) * float("nan")).sum().backward()
    with pytest.raises(TrainingError, match="policy 'x' became nan"):
        optimiser.step(1.0, 0.01)
    assert all(torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))


def test_huber_errors_are_squared_inside_and_linear_outside() -> None:
    from marl.algos.qmix.losses import td_loss

    chosen, target = torch.tensor([0.5, 3.0, -4.0]), torch.zeros(3)
    weights = torch.tensor([1.0, 1.0, 0.5])
    # 0.25, 2 * 3 - 1 = 5, 0.5 * (2 * 4 - 1) = 3.5
    assert float(td_loss(chosen, target, weights, 1.0)) == pytest.approx((0.25 + 5 + 3.5) / 3)
    assert float(td_loss(chosen, target, weights)) == pytest.approx((0.25 + 9 + 8) / 3)


def test_rewards_are_shifted_for_every_step_and_then_scaled() -> None:
    from marl.algos.qmix.config import QmixConfig
    from marl.algos.qmix.teams import _as_learned
    from marl.data.batch import SampleBatch

    rows = SampleBatch({"rewards": np.array([1.0, -2.0], np.float32), "elapsed": np.array([1, 3])})
    learned = _as_learned(rows, QmixConfig(gamma=0.5, reward_shift=2.0, reward_scale=0.1))
    assert learned.tolist() == pytest.approx([0.3, (-2 + 2 * 1.75) * 0.1])


def test_a_mixer_with_hidden_hypernetworks_is_monotonic_too() -> None:
    from marl.algos.qmix.mixers import MonotonicMixer

    mixer = MonotonicMixer(3, 5, 8, torch.Generator().manual_seed(0), hyper=16)
    values = torch.randn(50, 3, requires_grad=True)
    mixer(values, torch.randn(50, 5)).sum().backward()
    assert values.grad is not None
    assert (values.grad >= 0).all()
    assert (values.grad > 0).any()
