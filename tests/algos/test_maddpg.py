"""Deterministic actor-critics: losses by hand, joint views, targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from marl.algos.joint_view import JointActionView, VisibleAgents, joint_rows
from marl.algos.maddpg.actor_critic import DeterministicActorCritic
from marl.algos.maddpg.learner import MaddpgLearner
from marl.algos.maddpg.losses import actor_loss, critic_loss, smoothed, td_target
from marl.algos.off_policy import TargetNetwork
from marl.data.batch import SampleBatch
from marl.data.task import AgentType, Task, number_seats
from marl.errors import UnknownPolicyError
from tests.algos.zoo import TURNS, Zoo, filled, learner_of, t
from tests.small_envs import Scripted, Step, worker_for

# -- losses ----------------------------------------------------------------------------------------------------------


def test_a_target_takes_the_smaller_twin_discounted_by_the_steps_that_passed() -> None:
    next_q = t([10.0, 6.0], [1.0, 2.0], [5.0, 5.0])
    target = td_target(t(1.0, 1.0, 1.0), next_q, t(3, 1, 1), t(False, False, True), 0.5)
    assert target.tolist() == [1 + 0.125 * 6, 1 + 0.5 * 1, 1.0]


def test_target_noise_is_cut_and_bounded_coordinates_stay_in_their_box() -> None:
    actions, noise = t([0.0, 0.9, 0.9]), t([2.0, 0.3, 0.3])
    moved = smoothed(actions, noise, 0.5, t(True, True, False))
    assert moved.tolist()[0] == pytest.approx([0.5, 1.0, 1.2])
    assert smoothed(-actions, -noise, 0.5, t(True, True, True)).tolist()[0] == pytest.approx([-0.5, -1.0, -1.0])


def test_the_critic_loss_adds_up_over_critics_and_leaves_the_target_alone() -> None:
    q, target = t([1.0, 2.0], [0.0, 3.0]).requires_grad_(), t(3.0, 1.0).requires_grad_()
    loss, slopes = critic_loss(q, target, t(1.0, 0.5))
    assert loss.item() == pytest.approx((4 + 0.5 * 1) / 2 + (1 + 0.5 * 4) / 2)
    loss.backward()  # type: ignore[no-untyped-call]
    assert target.grad is None
    assert torch.equal(slopes, q.grad)  # type: ignore[arg-type]


def test_the_actor_loss_climbs_q_and_holds_outputs_small() -> None:
    q, outputs = t(2.0, 4.0).requires_grad_(), t([1.0, 3.0]).requires_grad_()
    loss, by_q, by_outputs = actor_loss(q, outputs, 0.1)
    assert loss.item() == pytest.approx(0.1 * 5 - 3)
    loss.backward()  # type: ignore[no-untyped-call]
    assert (by_q.tolist(), by_outputs.tolist()) == (q.grad.tolist(), outputs.grad.tolist())  # type: ignore[union-attr]


def test_a_follower_moves_by_tau_and_copies_buffers() -> None:
    copy, module = nn.BatchNorm1d(1), nn.BatchNorm1d(1)
    with torch.no_grad():
        module.weight.fill_(3.0)
        module.running_mean.fill_(7.0)  # type: ignore[union-attr]
    follower = TargetNetwork(copy, module)
    follower.move(0.1)
    assert copy.weight.item() == pytest.approx(1.2)
    follower.move(0.1)
    assert copy.weight.item() == pytest.approx(1.2 + 0.1 * 1.8)
    assert copy.running_mean.item() == 7.0  # type: ignore[union-attr]


# -- views -----------------------------------------------------------------------------------------------------------


def test_joint_rows_of_an_env_with_turns_show_who_decides_before_and_after() -> None:
    batch = worker_for(lambda _: Scripted(["a_0"], TURNS, agents=["a_0", "a_1"])).collect(5).batch
    view = JointActionView(VisibleAgents(batch.task, "all", batch.task.kinds[0], range(2)))
    rows = joint_rows(batch, "p", view.visible, gamma=0.5)
    assert list(zip(rows["t"], rows["seat"], rows["rewards"], rows["elapsed"], rows["terminateds"], strict=True)) == [
        (0, 0, 1 + 0.5 * 2 + 0.25 * 4, 3, False),
        (1, 1, 0.0, 2, False),
        (3, 0, 8.0, 1, True),
        (3, 1, 0.0, 1, False),
        (4, 1, 16.0, 1, True),
    ]
    assert rows["present"].tolist() == [[1, 0], [0, 1], [1, 1], [1, 1], [0, 1]]
    assert rows["new_present"].tolist() == [[1, 1], [1, 1], [0, 1], [0, 1], [0, 0]]
    one_hot = np.eye(3)[rows["actions.0"]]
    seen = view.transitions(rows)
    features = view(seen.now, view.played(seen))
    assert features[1].tolist() == [0] * 5 + [1, 1, *one_hot[1, 1], 0, 1]  # a_0 is absent, the own seat is the second
    assert features[2].tolist() == [0, 3, *one_hot[2, 0], 1, 3, *one_hot[2, 1], 1, 0]


def test_groups_of_different_width_leave_slots_empty() -> None:
    batch = worker_for(
        lambda _: Scripted(["a_0", "a_1", "a_2"], [Step([], {}, ["__all__"])], agents=["a_0", "a_1", "a_2"])
    )
    grid = batch.collect(1).batch
    grid.task = Task(grid.task.kinds, 0, {"pair": (0, 2), "one": (1,)})
    sight = VisibleAgents(grid.task, "group", grid.task.kinds[0], range(3))
    assert sight.columns[0].tolist() == [[0, 2], [1, -1], [0, 2]]
    assert sight.own.tolist() == [0, 0, 1]
    rows = joint_rows(grid, "p", sight, 1.0)
    assert rows["present"].tolist() == [[True, True], [True, False], [True, True]]
    assert rows["obs.0"][:, :, 0].tolist() == [[0, 2], [1, 0], [0, 2]]


def test_an_agent_that_the_policy_was_not_expected_to_play_is_named() -> None:
    names = ["a_0", "a_1", "a_2"]
    grid = worker_for(lambda _: Scripted(names, [Step([], {}, ["__all__"])], agents=names)).collect(1).batch
    sight = VisibleAgents(grid.task, "all", grid.task.kinds[0], {0, 2})
    with pytest.raises(UnknownPolicyError, match=r"agent 'a_1' to policy 'p'.*only played a_0, a_2.*by patterns"):
        joint_rows(grid, "p", sight, 1.0)


def test_only_the_own_action_is_replaced() -> None:
    kinds = number_seats([AgentType("a", ("a_0", "a_1"), spaces.Discrete(2), spaces.Discrete(2))])
    view = JointActionView(VisibleAgents(Task(kinds), "all", kinds[0], range(2)))
    rows = {"seat": np.array([0, 1]), "actions.0": np.array([[0, 0], [0, 0]])}
    for column in ("obs.0", "new_obs.0", "legal.0", "new_legal.0", "present", "new_present", "policy", "new_policy"):
        rows[column] = np.zeros((2, 2, 1)) if "." in column else np.ones((2, 2), int)
    seen = view.transitions(SampleBatch({**rows, **dict.fromkeys(("rewards", "elapsed", "terminateds"), np.ones(2))}))
    replaced = view.with_own(seen.now, view.played(seen), t([0.2, 0.8], [0.3, 0.7]))[0]
    assert torch.allclose(replaced, t([[0.2, 0.8], [1.0, 0.0]], [[1.0, 0.0], [0.3, 0.7]]))


@pytest.mark.parametrize(("sees", "others"), [("own", False), ("all", True)])
def test_a_critic_that_sees_all_depends_on_what_opponents_do(sees: str, others: bool) -> None:
    with filled("maddpg", Zoo, policy_mapping_fn="per_agent", critic_sees=sees) as trainer:
        pupil = learner_of(trainer).actor_critics["wolf"]
        rows, view = pupil.transitions(pupil.sample(np.random.default_rng(0))), pupil.view
        actions = {k: part.requires_grad_() for k, part in view.played(rows).items()}
        pupil.critics(view(rows.now, actions)).sum().backward()
        assert len(trainer.learners) == (1 if others else 3)
        k = [kind.name for kind in trainer.setup.task.kinds].index("sheep")
        assert (k in actions) is others
        if others:
            grad = actions[k].grad
            assert grad is not None
            assert grad.abs().max() > 0


def slow_target(
    learner: MaddpgLearner, pupil: DeterministicActorCritic, rows: Any, task: Task, names: list[str]
) -> list[float]:
    """The target, row by row and agent by agent."""
    found = []
    for i in range(len(rows)):
        parts, slot = [], 0
        for k, table in pupil.view.visible.columns.items():
            kind = task.kinds[k]
            width = kind.columns.options + len(kind.columns.numbers)
            for n in range(table.shape[1]):
                obs = torch.from_numpy(rows[f"new_obs.{k}"][i, n][None])
                features = pupil.view.joint.features[str(k)](obs, torch.zeros(1, dtype=torch.long))[0]
                if rows["new_present"][i, slot]:
                    actor = learner.actor_critics[names[rows["new_policy"][i, slot]]].target_actor
                    encoded = actor.greedy(actor(obs, torch.tensor([0])), torch.ones(1, 0, dtype=torch.bool))[0]
                    options = kind.columns.options
                    noise = torch.from_numpy(rows[f"new_noise.{k}"][i, n]).clamp(-0.5, 0.5)
                    encoded = torch.cat([encoded[:options], (encoded[options:] + noise).clamp(-1, 1)])
                    parts += [features, encoded]
                else:
                    parts.append(torch.zeros(len(features) + width))
                slot += 1
        seat = torch.zeros(pupil.actor.kind.size)
        seat[rows["seat"][i]] = 1.0
        q = pupil.target_critics(torch.cat([*parts, seat])[None]).min().item()
        value = 0.0 if rows["terminateds"][i] else 0.9 ** int(rows["elapsed"][i]) * q
        found.append(float(rows["rewards"][i]) + value)
    return found


def test_targets_ask_every_present_agents_target_actor() -> None:
    with filled("td3", Zoo, policy_mapping_fn="per_agent", critic_sees="all", gamma=0.9, n_step=2) as trainer:
        learner = learner_of(trainer)
        for pupil in learner.actor_critics.values():
            rows = pupil.sample(np.random.default_rng(1))
            with torch.no_grad():
                slow = slow_target(learner, pupil, rows, trainer.setup.task, list(trainer.policies))
            seen = pupil.transitions(rows)
            target = learner._target(pupil, seen, learner._next_actions(pupil, seen))
            assert target.tolist() == pytest.approx(slow, abs=1e-4)
            assert rows["new_present"].all() == (pupil.name == "mixed")  # it is there every other step only


def test_opponents_that_learn_elsewhere_are_asked_as_they_are() -> None:
    keys = {"policies": {"wolf": {}, "rest": {"scripted": "random"}, "mixed": {"scripted": "random"}}}
    mapping = {"wolf": "wolf", "sheep": "rest", "mixed": "mixed"}
    with filled("maddpg", Zoo, **keys, policy_mapping_fn=mapping) as trainer:
        learner = learner_of(trainer)
        pupil = learner.actor_critics["wolf"]
        seen = pupil.transitions(pupil.sample(np.random.default_rng(0)))
        decided = pupil.view.decided(seen.next, learner.action_fns)
        k = [kind.name for kind in trainer.setup.task.kinds].index("sheep")
        chosen = decided[k].sum(dim=0)[0]
        assert (chosen > 0).all()  # a random sheep plays everything


def test_a_permuted_batch_has_the_same_losses() -> None:
    with filled("td3", Zoo, policy_mapping_fn="per_agent", critic_sees="all") as trainer:
        learner = learner_of(trainer)
        for pupil in learner.actor_critics.values():
            rows = pupil.sample(np.random.default_rng(2))
            permuted = rows.rows(np.random.default_rng(3).permutation(len(rows)))
            losses = []
            for part in map(pupil.transitions, (rows, permuted)):
                seen = pupil.view(part.now, pupil.view.played(part))
                target = learner._target(pupil, part, learner._next_actions(pupil, part))
                critic, _ = critic_loss(pupil.critics(seen), target, part.weights)
                obs, index, legal = pupil.view.own(part.now)
                actor = learner._actor_loss(pupil, part, seen, pupil.actor(obs, index).detach(), legal)
                losses.append([critic.item(), actor.loss.item()])
            assert losses[0] == pytest.approx(losses[1], rel=1e-5, abs=1e-5)
