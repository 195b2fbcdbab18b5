"""What learners with a replay share: their loop, turns, and transitions of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from marl.algos.config import ReplayConfig
from marl.algos.joint_view import JointActionView, JointFeatures, JointView, VisibleAgents, joint_rows
from marl.algos.learner import LearnerSpec
from marl.algos.maddpg.actor_critic import DeterministicActorCritic
from marl.algos.off_policy import ActorCriticLearner, OffPolicyLearner, Report, UpdateRatio, in_turns
from marl.algos.presets import ALGOS
from marl.algos.team_rows import single_rows, team_rows
from marl.algos.transitions import JointObs, Transitions
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.training.trainer import Trainer
from tests.algos.updates import ENV, small_run
from tests.algos.zoo import TURNS
from tests.small_envs import Scripted, worker_for

CPU = torch.device("cpu")


# -- the loop ----------------------------------------------------------------------------------------------------------


def test_every_preset_with_a_replay_goes_through_one_loop() -> None:
    with_replay = [name for name in ALGOS if issubclass(ALGOS[name].family.config, ReplayConfig)]
    learns = {name: ALGOS[name].family.learner_class().learn for name in with_replay}
    assert learns.pop("nfsp") is not OffPolicyLearner.learn  # an imitator around a dqn learner, which goes through it
    assert set(learns.values()) == {OffPolicyLearner.learn}
    assert set(learns) >= {"dqn", "qmix", "vdn", "apex", "ddpg", "td3", "maddpg", "apex_ddpg", "sac"}


@pytest.mark.parametrize("algo", ["qmix", "ddpg", "sac"])
def test_a_learner_without_trained_policies_neither_counts_nor_remembers(algo: str) -> None:
    with small_run(algo) as trainer:
        (learner,) = trainer.learners
        learner.set_trained([])
        assert learner.learn(trainer.workers.collect(8).batch) == {}
        assert set(learner.timesteps.values()) == {0}
        totals = {name: state["total"] for name, state in learner.replay_state().items()}
        assert totals == dict.fromkeys(totals, 0)


def test_updates_are_made_in_turns_and_whoever_is_due_more_often_ends_alone() -> None:
    assert list(in_turns({"a": 1, "b": 3, "c": 0})) == ["a", "b", "b", "b"]
    assert list(in_turns({"a": 2, "b": 2})) == ["a", "b", "a", "b"]
    assert list(in_turns({})) == []


def test_fractions_of_updates_are_carried_over_and_steps_before_the_start_pay_for_none() -> None:
    ratio = UpdateRatio(ReplayConfig(learning_starts=10, updates_per_step=0.3))
    assert [ratio.due(5, 5, rows=9), ratio.due(5, 9, rows=9)] == [0, 0]
    assert ratio.due(5, 15, rows=0) == 0
    assert [ratio.due(5, 15 + 5 * i, rows=9) for i in range(4)] == [1, 2, 1, 2]


class Guess(ActorCriticLearner[DeterministicActorCritic]):
    """Critics that learn what the next step pays, and nothing else: all that is left to write is one update."""

    like = "ddpg"

    @classmethod
    def build(cls, spec: LearnerSpec) -> Guess:
        return cls(spec, {name: DeterministicActorCritic(name, spec) for name in spec.policies})

    def _train(self, ac: DeterministicActorCritic) -> Report:
        rows = ac.sample(self.rng)
        t = ac.transitions(rows)
        errors: Tensor = ac.critics(ac.view(t.now, ac.view.played(t))).squeeze(1) - t.rewards
        loss = errors.square().mean()
        norm = self.descend(loss, ac.optimisers["critic"], ac.step_sizes(self.timesteps[ac.name])["critic"], None)
        self.count_errors(ac, rows, errors.detach().abs())
        self.count_update(len(rows))
        return {"critic": {"critic_loss": loss.detach(), "critic_grad_norm": norm}}


def test_an_algorithm_of_the_users_own_writes_one_update_and_has_the_rest() -> None:
    keys: dict[str, Any] = {
        "env": ENV, "fcnet_hiddens": [32], "num_envs_per_worker": 4, "timesteps_per_iteration": 32, "learning_starts": 16,
        "updates_per_step": 1, "train_batch_size": 64, "lr": 0.01, "prioritized_replay": True, "full_td_error": True,
        "critic_sees": "all", "evaluation": {"interval": 0}, "seed": 1,
    }  # fmt: skip
    with Trainer(f"{__name__}:Guess", config=keys) as trainer:
        before = trainer.get_weights()
        told = [trainer.train()["info"]["learner"]["default_policy"] for _ in range(5)]
        (learner,) = trainer.learners
        after = trainer.get_weights()
        assert set(learner.state_dict()["pupils"]["default_policy"]) >= {"critics", "debt"}
    losses = [float(row["learner_stats"]["critic_loss"]) for row in told]
    assert losses[-1] < 0.7 * losses[0]
    assert learner.counters["num_steps_trained"] == 64 * learner.counters["num_updates"] > 0
    assert len(told[-1]["td_error"]) == 64
    replay = learner.actor_critics["default_policy"].replay  # type: ignore[attr-defined]
    likely = replay.priorities.tree[replay.priorities.size :][: len(replay)]
    assert len(set(likely.tolist())) > 10  # rows are drawn again by their errors
    for name, array in before["default_policy"].items():  # its exploration is annealed, nothing else moves
        assert "exploration" in name or np.array_equal(array, after["default_policy"][name])


# -- transitions -------------------------------------------------------------------------------------------------------


def turns() -> MultiAgentBatch:
    return worker_for(lambda _: Scripted(["a_0"], TURNS, agents=["a_0", "a_1"])).collect(5).batch


def replayed(kind: str) -> tuple[SampleBatch, Transitions]:
    """Rows as a replay hands them out, and the same as tensors."""
    batch = turns()
    if kind == "around an agent":
        view = JointActionView(VisibleAgents(batch.task, "all", batch.task.kinds[0], range(2)))
        rows = joint_rows(batch, "p", view.visible, 0.5).with_columns(weights=np.arange(5.0))
        return rows, view.transitions(rows)
    rows = team_rows(batch, [0, 1], 0.5) if kind == "of a team" else single_rows(batch, "p", 0, 0.5)
    return rows, Transitions.of(rows, CPU)


def columns_of(joint: JointObs) -> dict[str, Any]:
    named = {"obs": joint.obs[0], "legal": joint.legal[0], "present": joint.present, "policy": joint.policy}
    return {name: column.tolist() for name, column in named.items()}


KINDS = ["around an agent", "of a team", "of teams of one"]


@pytest.mark.parametrize("kind", KINDS)
def test_transitions_hold_what_stood_in_the_rows_before_and_after(kind: str) -> None:
    rows, seen = replayed(kind)
    for when, joint in (("", seen.now), ("new_", seen.next)):
        names = {
            "obs": f"{when}obs.0",
            "legal": f"{when}legal.0",
            "present": f"{when}present",
            "policy": f"{when}policy",
        }
        assert columns_of(joint) == {name: rows[column].tolist() for name, column in names.items()}
        assert joint.state.shape == (len(rows), 0)
    assert columns_of(seen.now) != columns_of(seen.next)
    assert seen.actions[0].tolist() == rows["actions.0"].tolist()
    plain = {"rewards": seen.rewards, "elapsed": seen.elapsed, "terminateds": seen.terminated}
    assert {name: column.tolist() for name, column in plain.items()} == {name: rows[name].tolist() for name in plain}
    expected = [0, 1, 2, 3, 4] if kind == "around an agent" else [1.0] * len(rows)  # ones where nothing was drawn
    assert seen.weights.tolist() == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_part_of_transitions_is_that_of_a_part_of_the_rows(kind: str) -> None:
    rows, seen = replayed(kind)
    part = seen.part(slice(1, 3))
    if "agent_index.0" not in rows:
        rows = rows.with_columns(**{"agent_index.0": np.array([[0, 1]] * len(rows))})
    again = Transitions.of(rows.rows(slice(1, 3)), CPU)
    assert len(part) == len(part.now) == 2
    for mine, theirs in ((part.now, again.now), (part.next, again.next)):
        assert columns_of(mine) == columns_of(theirs)
        assert mine.agent_index[0].tolist() == theirs.agent_index[0].tolist()
        assert mine.seat.tolist() == theirs.seat.tolist()
    assert (part.rewards.tolist(), part.actions[0].tolist()) == (again.rewards.tolist(), again.actions[0].tolist())


# -- one view for all --------------------------------------------------------------------------------------------------


def test_a_joint_view_takes_arrays_and_tensors_alike_and_puts_each_action_behind_its_agent() -> None:
    batch = turns()
    view, obs, present = JointFeatures(batch.task, [0, 1]), batch.obs[0][:, 0], batch.present[:, 0]
    seen = view({0: obs}, present)
    assert torch.equal(seen, view({0: torch.from_numpy(obs)}, torch.from_numpy(present)))
    acting = JointView(batch.task, {0: 2}, actions=True)
    actions = torch.arange(2 * 3 * len(obs), dtype=torch.float32).view(len(obs), 2, 3) + 1
    both = acting({0: obs}, present, {0: actions}).view(len(obs), 2, -1)
    assert torch.equal(both[:, :, :2].reshape(len(obs), -1), seen)
    assert torch.equal(both[:, :, 2:], actions * torch.from_numpy(present)[:, :, None])
    assert (acting.size, view.size) == (2 * (2 + 3), 2 * 2)
