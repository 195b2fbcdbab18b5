"""A policy's own decisions as teams of one, and when a team's decision is closed, row by row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from marl.algos.central_critic.critic import CriticView
from marl.algos.team_rows import Gaps, _closing_rows, _newest, _Play, columns_of_one, single_rows, team_rows
from marl.data.batch import MultiAgentBatch
from marl.data.task import AgentType, Task, number_seats
from marl.policies.build import build_policies
from marl.policies.config import PolicySpec
from tests.small_envs import ACT, OBS, Scripted, Step, worker_for

PAIR = ("a_0", "a_1")
# a_0 decides in the steps 0 and 3, a_1 in all of them; a_1 is cut off, a_0 ends.
SLOW = [
    Step(("a_1",), {"a_0": 1.0, "a_1": 1.0}),
    Step(("a_1",), {"a_0": 2.0, "a_1": 1.0}),
    Step(PAIR, {"a_0": 4.0, "a_1": 1.0}),
    Step(("a_1",), {"a_0": 8.0, "a_1": 1.0}),
    Step((), {"a_0": 16.0, "a_1": 1.0}, terminated=["a_0"], truncated=["a_1"]),
]


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
def test_rows_of_one_hold_discounted_rewards_and_memories_see_all_that_was_paid(gamma: float) -> None:
    batch = worker_for(lambda _: Scripted(PAIR, SLOW, PAIR), policies=("p",)).collect(5).batch
    assert "member_rewards" not in single_rows(batch, "p", 0, gamma)
    batch.carry = [np.arange(20, dtype=np.float32).reshape(5, 1, 2, 2)]
    rows = single_rows(batch, "p", 0, gamma)
    order = np.lexsort((rows["t"], rows["seat"]))
    expected = [  # seat, t, steps, discounted, all that was paid, its life ended, its value goes on
        (0, 0, 3, 1 + 2 * gamma + 4 * gamma**2, 7.0, False, True),
        (0, 3, 2, 8 + 16 * gamma, 24.0, True, False),
        *[(1, t, 1, 1.0, 1.0, t == 4, True) for t in range(5)],
    ]
    names = ("seat", "t", "elapsed", "rewards", "member_rewards", "fell", "new_present")
    columns = [rows[name].reshape(-1)[order].tolist() for name in names]
    assert list(zip(*columns, strict=True)) == expected
    assert rows["ended"][order].tolist() == [False, True, False, False, False, False, True]
    assert rows["present"].all()
    assert rows["policy"].tolist() == rows["new_policy"].tolist() == [[0]] * 7
    carried = rows["carry.0"][order, 0].tolist()
    assert carried == [batch.carry[0][t, 0, seat].tolist() for seat, t, *_ in expected]
    assert rows["obs.0"][order, 0].tolist() == [[seat, t] for seat, t, *_ in expected]
    assert rows["new_obs.0"][order, 0].tolist() == [[seat, t + steps] for seat, t, steps, *_ in expected]
    assert rows["agent_index.0"][order, 0].tolist() == [seat for seat, *_ in expected]
    assert rows["actions.0"][order, 0].tolist() == [int(batch.actions[0][t, 0, seat]) for seat, t, *_ in expected]


def test_a_custom_loss_sees_plain_columns_of_the_same_rows() -> None:
    batch = worker_for(lambda _: Scripted(PAIR, SLOW, PAIR)).collect(5).batch
    rows = single_rows(batch, "p", 0, 0.5).with_columns(weights=np.arange(7.0))
    seen = columns_of_one(rows, 0)
    assert seen["obs"].shape == seen["new_obs"].shape == (7, 2)
    assert seen["actions"].shape == seen["agent_index"].shape == (7,)
    for name in ("obs", "actions", "new_obs"):
        assert np.array_equal(seen[name], rows[f"{name}.0"][:, 0])
    for name in ("rewards", "elapsed", "terminateds", "weights", "t", "eps_id"):
        assert np.array_equal(seen[name], rows[name])


def random_play(rng: np.random.Generator) -> _Play:
    """Flags of two members in three copies, drawn at random but possible: who was asked decides in the next row."""
    batch = worker_for(lambda _: Scripted(PAIR, SLOW, PAIR), copies=3).collect(5).batch
    shape = (6, 3, 2)
    ended = rng.random(shape) < 0.3
    asked = (rng.random(shape) < 0.4) & ~ended
    present = np.concatenate([rng.random((1, 3, 2)) < 0.6, asked[:-1]])
    batch.over = rng.random((6, 3)) < 0.15
    valued = ended & (rng.random(shape) < 0.3)
    return _Play(batch, [0, 1], 0.5, present, asked, ended, valued, np.zeros((6, 3), bool), np.zeros((6, 3)))


def closed_one_by_one(play: _Play, env_id: int) -> tuple[list[int], int]:
    """The rule for one copy, row by row."""
    closing, waiting, open_ = [-1] * 6, -1, set()
    for row in range(6):
        for member in range(2):
            if play.present[row, env_id, member]:
                waiting = row
                open_.add(member)
            if play.asked[row, env_id, member] or play.ended[row, env_id, member] or play.batch.over[row, env_id]:
                open_.discard(member)
        goes_on_elsewhere = play.valued[row, env_id].any() and not open_
        if waiting >= 0 and (play.asked[row, env_id].any() or play.batch.over[row, env_id] or goes_on_elsewhere):
            closing[waiting], waiting = row, -1
    return closing, waiting if not open_ else -1


def test_a_teams_decisions_close_in_the_rows_that_a_loop_over_one_lane_finds() -> None:
    rng = np.random.default_rng(0)
    for _ in range(40):
        play = random_play(rng)
        closing, stranded = _closing_rows(play)
        for env_id in range(3):
            assert (closing[:, env_id].tolist(), int(stranded[env_id])) == closed_one_by_one(play, env_id)


def test_a_team_that_is_asked_in_every_row_closes_every_decision_in_its_own_row() -> None:
    play = random_play(np.random.default_rng(1))
    everybody = np.ones((6, 3, 2), bool)
    present = everybody.copy()
    present[2, 1] = False  # nobody decides in this row
    closing, stranded = _closing_rows(
        _Play(play.batch, [0, 1], 0.5, present, everybody, ~everybody, ~everybody, play.left_blind, play.paid)
    )
    assert closing.tolist() == [[row, -1 if row == 2 else row, row] for row in range(6)]
    assert stranded.tolist() == [-1, -1, -1]


def test_the_newest_end_of_a_member_is_looked_at_lane_by_lane() -> None:
    rng = np.random.default_rng(2)
    happens = rng.random((7, 3, 2)) < 0.25
    what = happens & (rng.random((7, 3, 2)) < 0.5)
    found = _newest(happens, what)
    for env_id in range(3):
        newest = False
        for row in range(7):
            if happens[row, env_id].any():
                newest = bool(what[row, env_id].any())
            assert found[row, env_id] == newest


class Open(Scripted):
    """Says with every step whether the episode is over, so it may go on without anybody."""

    def step(self, actions: Any) -> Any:
        result = super().step(actions)
        return result._replace(terminated={"__all__": False, **result.terminated})


GAP = [
    Step(["a_1"], {"a_0": 1.0}, ["a_0"]),
    Step([], {"a_0": 2.0, "a_1": 3.0}, ["a_1"]),
    Step([], {"a_1": 4.0}),
    Step(["a_0"], {"a_0": 5.0}),
    Step([], {"a_1": 6.0}, ["__all__"]),
]


@pytest.mark.parametrize("cuts", [[10], [1] * 10, [2, 1, 3, 4], [3, 7], [4, 4, 2]])
def test_memories_are_told_what_each_member_was_paid_while_the_team_was_empty(cuts: list[int]) -> None:
    worker, gaps, found = worker_for(lambda _: Open(["a_0"], GAP, PAIR)), Gaps(), []
    for steps in cuts:
        batch = worker.collect(steps).batch
        batch.carry = [np.stack([batch.t, batch.t + 0.5], axis=2)[..., None].astype(np.float32)]
        rows = team_rows(batch, [0, 1], 0.5, gaps)
        names = ("eps_id", "t", "rewards", "elapsed", "member_rewards", "fell", "carry.0")
        found += [tuple(rows[name][i].tolist() for name in names) for i in range(len(rows))]
    expected = [
        (0, 1.0, 1, [1.0, 0.0], [True, False], [[0.0], [0.5]]),
        (1, 5.0 + 0.5 * 4.0 + 0.25 * 5.0, 3, [2.0 + 5.0, 3.0 + 4.0], [False, True], [[1.0], [1.5]]),
        (4, 6.0, 1, [0.0, 6.0], [True, False], [[4.0], [4.5]]),
    ]
    assert [row[1:] for row in sorted(found)] == expected * 2
    assert [row[0] for row in sorted(found)] == [0, 0, 0, 1, 1, 1]


def in_two_kinds(batch: MultiAgentBatch) -> MultiAgentBatch:
    """The same play, but the agents are of different kinds, and only the second remembers something."""
    kinds = number_seats([AgentType(name, (name,), OBS, ACT) for name in PAIR])
    parts = {
        name: [getattr(batch, name)[0][:, :, :1], getattr(batch, name)[0][:, :, 1:]]
        for name in ("obs", "new_obs", "actions", "legal", "new_legal")
    }
    steps, copies = batch.t.shape
    carry = [np.zeros((steps, copies, 1, 0), np.float32), np.arange(steps * copies * 1.0).reshape(steps, copies, 1, 1)]
    return replace(batch, task=Task(kinds), carry=carry, **parts)


def test_a_team_of_several_kinds_keeps_the_memories_of_those_that_have_one() -> None:
    batch = in_two_kinds(worker_for(lambda _: Scripted(PAIR, SLOW, PAIR)).collect(5).batch)
    rows = team_rows(batch, [1, 0], 0.5)
    assert rows["carry.0"].shape == (5, 1, 0)
    assert rows["carry.1"].reshape(-1).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert rows["member_rewards"].tolist() == [[1.0, 1.0], [2.0, 1.0], [4.0, 1.0], [8.0, 1.0], [16.0, 1.0]]
    assert rows["fell"].tolist() == [[False, False]] * 4 + [[True, True]]
    for k in range(2):
        assert rows[f"obs.{k}"][:, 0].tolist() == batch.obs[k][:, 0, 0].tolist()
        assert rows[f"actions.{k}"][:, 0].tolist() == batch.actions[k][:, 0, 0].tolist()
        assert rows[f"agent_index.{k}"].tolist() == [[0]] * 5
    assert rows["present"].tolist() == [[True, True], [False, True], [False, True], [True, True], [False, True]]


def test_a_critic_of_the_state_sees_the_state_before_a_decision_or_after_it_and_whose_decision_it_is() -> None:
    batch = worker_for(lambda _: Scripted(PAIR, SLOW, PAIR)).collect(5).batch
    states = np.arange(15, dtype=np.float32).reshape(5, 1, 3)
    batch = replace(batch, task=Task(batch.task.kinds, 3), state=states, new_state=states + 100)
    policy = build_policies({"p": PolicySpec("stochastic", 0)}, batch.task.kinds)["p"]
    view = CriticView(batch.task, "state", policy)
    assert view.size == 3 + 2
    t, e, a = np.array([0, 3]), np.array([0, 0]), np.array([1, 0])
    assert view(batch, t, e, a, False).tolist() == [[0, 1, 2, 0, 1], [9, 10, 11, 1, 0]]
    assert view(batch, t, e, a, True).tolist() == [[100, 101, 102, 0, 1], [109, 110, 111, 1, 0]]
