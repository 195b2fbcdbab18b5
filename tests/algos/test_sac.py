"""Soft actor-critic: its arithmetic by hand, what its learner computes, and its optimum where that is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from marl import Trainer
from marl.algos.sac.actor_critic import SoftActorCritic
from marl.algos.sac.losses import critic_loss, expected_soft_value, smallest, soft_value, temperature_loss
from marl.algos.sac.values import Moment, SummedValues
from marl.algos.transitions import Transitions
from marl.data.batch import SampleBatch
from tests.algos.paydays import LEARN, Payday, learner_of, pupil_of, trainer

TWO = {"policies": {"p0": {}, "p1": {}}, "policy_mapping_fn": {"agent_0": "p0", "agent_1": "p1"}}


def t(*values: float) -> Tensor:
    return torch.tensor(values)


def chances(run: Trainer, legal: list[bool] | None = None) -> list[float]:
    policy = pupil_of(run).actor
    mask = torch.ones(1, 0, dtype=torch.bool) if legal is None else torch.tensor([legal])
    with torch.no_grad():
        logits = policy(torch.full((1, 3), 0.5), torch.zeros(1, dtype=torch.long), mask)
    return [float(p) for p in logits.softmax(1)[0]]


# -- arithmetic --------------------------------------------------------------------------------------------------------


def test_the_soft_value_of_a_drawn_action_takes_the_smaller_critic_and_pays_for_surprise() -> None:
    values = torch.tensor([[1.0, 5.0], [2.0, 3.0]])
    assert soft_value(values, t(-2.0, 1.0), t(0.5)).tolist() == [1.0 + 1.0, 3.0 - 0.5]


def test_the_expected_soft_value_equals_a_slow_sum_over_actions() -> None:
    torch.manual_seed(0)
    values, logs, alpha = torch.randn(2, 7, 4), torch.randn(7, 4).log_softmax(1), 0.3
    for row in range(7):
        slow = 0.0
        for action in range(4):
            smaller = min(float(values[0, row, action]), float(values[1, row, action]))
            slow += math.exp(float(logs[row, action])) * (smaller - alpha * float(logs[row, action]))
        assert float(expected_soft_value(values, logs, t(alpha))[0][row]) == pytest.approx(slow, abs=1e-5)


def test_critics_are_judged_apart_by_half_weighted_squares_and_the_target_stays_where_it_is() -> None:
    chosen, target = torch.tensor([[1.0, 2.0], [0.0, 4.0]], requires_grad=True), t(3.0, 3.0).requires_grad_()
    loss, slopes = critic_loss(chosen, target, t(1.0, 0.5))
    assert loss.item() == pytest.approx(0.5 * ((4 + 0.5) / 2 + (9 + 0.5) / 2))
    loss.backward()
    assert target.grad is None
    assert torch.equal(slopes, chosen.grad)


@pytest.mark.parametrize(("entropy", "sign"), [(2.0, 1.0), (0.5, -1.0)])
def test_the_temperature_falls_above_the_target_entropy_and_rises_below_it(entropy: float, sign: float) -> None:
    loss, slope = temperature_loss(t(math.log(0.2)), t(entropy, entropy), t(1.0))
    assert float(slope) == pytest.approx(0.2 * (entropy - 1.0))  # alpha * (H - target)
    assert float(slope) * sign > 0
    assert float(loss) == float(slope)  # d alpha / d log alpha = alpha


def test_the_smaller_critic_alone_is_climbed_and_equal_ones_share_the_slope() -> None:
    values = torch.tensor([[1.0, 5.0, 2.0], [2.0, 3.0, 2.0]])
    assert smallest(values).tolist() == [[1.0, 0.0, 0.5], [0.0, 1.0, 0.5]]


# -- what the learner computes -----------------------------------------------------------------------------------------


def moments(
    run: Trainer, name: str = "default_policy"
) -> tuple[SoftActorCritic, SampleBatch, Transitions, Moment, Moment]:
    learner, pupil = learner_of(run), pupil_of(run, name)
    rows = pupil.sample(learner.rng)
    seen = pupil.transitions(rows)
    return pupil, rows, seen, learner._moment(pupil, seen.now), learner._moment(pupil, seen.next)


def test_the_value_of_a_box_moment_is_that_of_the_drawn_action_by_hand() -> None:
    with trainer("Pendulum-v1") as run:
        run.train()
        pupil, _, seen, _, after = moments(run)
        value, entropy = pupil.soft(pupil.target_critics, after, t(0.3))
        for row in range(5):
            obs = seen.next.obs[0][row]  # [1, 3]
            params = pupil.actor(obs, torch.zeros(1, dtype=torch.long), torch.ones(1, 0, dtype=torch.bool))
            action = torch.tanh(params[:, :1] + after.noise[row] * params[:, 1:].exp())
            logp = torch.distributions.Normal(params[:, :1], params[:, 1:].exp()).log_prob(torch.atanh(action))
            logp = logp - torch.log(1 - action.square())
            asked = [float(net(torch.cat([obs, action], 1)).detach()) for net in pupil.target_critics.nets]
            assert float(value[row].detach()) == pytest.approx(min(asked) - 0.3 * float(logp.detach()), abs=1e-3)
            assert float(entropy[row].detach()) == pytest.approx(-float(logp.detach()), abs=1e-3)


def test_a_joint_critic_of_choices_knows_what_the_others_do_but_not_the_own_action() -> None:
    with trainer("two_step_game", critic_sees="all", **TWO) as run:
        run.train()
        pupil, rows, seen, _, _ = moments(run, "p0")
        soft = pupil.soft
        assert isinstance(soft, SummedValues)
        base = pupil.soft.chosen(pupil.critics, seen)

        def with_action(seat: int, action: int) -> Tensor:
            played = rows["actions.0"].copy()
            played[:, seat] = action
            other = pupil.transitions(rows.with_columns(**{"actions.0": played}))
            return pupil.critics(soft.seen(other))  # type: ignore[no-any-return]

        assert torch.equal(with_action(0, 0), with_action(0, 1))
        assert not torch.allclose(with_action(1, 0), with_action(1, 1))
        # What was played is picked out of the values of all own actions.
        every = pupil.critics(soft.seen(seen))
        for row in range(len(rows)):
            assert base[:, row].tolist() == every[:, row, int(rows["actions.0"][row, 0])].tolist()


def test_what_others_do_is_drawn_from_their_present_policies() -> None:
    with trainer("two_step_game", critic_sees="all", **TWO) as run:
        run.train()
        with torch.no_grad():
            list(run.policies["p1"].parameters())[-1].copy_(t(-50.0, 50.0))
        _, rows, _, before, after = moments(run, "p0")
        assert len(set(rows["actions.0"][:, 1].tolist())) == 2  # both were played
        assert (before.others[0][:, 1] == t(0.0, 1.0)).all()
        alive = torch.from_numpy(rows["new_present"][:, 1])
        assert (after.others[0][alive][:, 1] == t(0.0, 1.0)).all()
        assert (after.others[0][~alive] == 0).all()  # the game is over: nobody does anything


@pytest.mark.parametrize("env", ["Pendulum-v1", "two_step_game"])
def test_a_permuted_batch_gives_the_same_losses(env: str) -> None:
    with trainer(env, critic_sees="all" if env == "two_step_game" else "own") as run:
        run.train()
        pupil, rows, seen, before, _ = moments(run)
        order = np.random.default_rng(0).permutation(len(rows))
        others = {k: actions[order] for k, actions in before.others.items()}
        permuted = pupil.transitions(rows.rows(order))
        mixed = Moment(permuted.now, others, before.noise[order])
        for part, moment in ((seen, before), (permuted, mixed)):
            value, entropy = pupil.soft(pupil.critics, moment, pupil.alpha)
            chosen = pupil.soft.chosen(pupil.critics, part)
            numbers = [float(x.detach().mean()) for x in (value, entropy, chosen)]
            if moment is before:
                expected = numbers
        assert numbers == pytest.approx(expected, abs=1e-5)


def test_targets_follow_the_critics_by_tau() -> None:
    with trainer("Pendulum-v1", tau=0.25, timesteps_per_iteration=40, learning_starts=40, updates_per_step=0.1) as run:
        pupil = pupil_of(run)
        start = [p.detach().clone() for p in pupil.target_critics.parameters()]
        run.train()  # 40 steps, of which the last round of 10 pays for one update
        assert learner_of(run).counters["num_updates"] == 1
        for old, now, critic in zip(start, pupil.target_critics.parameters(), pupil.critics.parameters(), strict=True):
            assert torch.allclose(now, old + 0.25 * (critic.detach() - old), atol=1e-6)


def test_the_target_entropy_is_minus_one_per_coordinate_or_a_share_of_what_is_legal() -> None:
    with trainer("Pendulum-v1") as run:
        run.train()
        pupil, _, seen, _, _ = moments(run)
        assert pupil.soft.target_entropy(seen.now, pupil.config).item() == -1.0
    env = lambda _: Payday({"a_0": [0.0, 0.0, 0.0]}, legal=[1, 0, 1])  # noqa: E731
    with trainer(env, target_entropy_share=0.5) as run:
        run.train()
        pupil, _, seen, _, _ = moments(run)
        assert pupil.soft.target_entropy(seen.now, pupil.config).tolist() == pytest.approx([0.5 * math.log(2)] * 32)
    with trainer(env, target_entropy=0.25) as run:
        run.train()
        pupil, _, seen, _, _ = moments(run)
        assert pupil.soft.target_entropy(seen.now, pupil.config).item() == 0.25


def test_what_an_illegal_action_is_worth_changes_nothing() -> None:
    with trainer(lambda _: Payday({"a_0": [0.0, 1.0, 2.0]}, legal=[1, 0, 1])) as run:
        run.train()
        pupil, _, _, before, _ = moments(run)
        value, _ = pupil.soft(pupil.critics, before, t(0.5))
        with torch.no_grad():
            for net in pupil.critics.nets:
                list(net.parameters())[-1][1] = 1e6
        again, entropy = pupil.soft(pupil.critics, before, t(0.5))
        assert torch.equal(value, again)
        assert (entropy <= math.log(2) + 1e-6).all()
        again.sum().backward()
        assert all(torch.isfinite(p.grad).all() for p in pupil.actor.parameters() if p.grad is not None)


# -- optima that are known ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("legal", [None, [1, 0, 1]], ids=["all legal", "masked"])
@pytest.mark.slow
def test_with_a_fixed_temperature_the_policy_becomes_the_softmax_of_rewards(legal: list[int] | None) -> None:
    pay = [0.0, 0.5, 1.0]
    with trainer(lambda _: Payday({"a_0": pay}, legal), alpha_lr=0, initial_alpha=0.5, **LEARN) as run:
        run.train()
        weights = [math.exp(r / 0.5) if legal is None or legal[a] else 0.0 for a, r in enumerate(pay)]
        expected = [w / sum(weights) for w in weights]
        assert chances(run, None if legal is None else [bool(x) for x in legal]) == pytest.approx(expected, abs=0.05)
        assert float(pupil_of(run).alpha) == pytest.approx(0.5)


@pytest.mark.slow
def test_the_automatic_temperature_holds_the_entropy_at_its_target() -> None:
    with trainer(lambda _: Payday({"a_0": [0.0, 0.5, 1.0]}), target_entropy_share=0.6, alpha_lr=0.03, **LEARN) as run:
        run.train()
        p = chances(run)
        assert -sum(x * math.log(x) for x in p) == pytest.approx(0.6 * math.log(3), abs=0.08)
        assert p[0] < p[1] < p[2]


@pytest.mark.slow
def test_a_squashed_actor_finds_the_best_coordinate() -> None:
    with trainer(lambda _: Payday({"a_0": None}), **LEARN) as run:
        run.train()
        mean, _ = pupil_of(run).actor(
            torch.full((1, 2), 0.5), torch.zeros(1, dtype=torch.long), torch.ones(1, 0, dtype=torch.bool)
        )[0]
        assert 2 * math.tanh(float(mean.detach())) == pytest.approx(0.5, abs=0.1)  # the Box is -2..2
