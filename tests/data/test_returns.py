"""Advantages and folded rewards, worked out by hand and by slow loops."""

from __future__ import annotations

import numpy as np
import pytest

from marl.data.batch import MultiAgentBatch
from marl.data.returns import fold_rewards, gae
from marl.data.task import AgentType, Task, number_seats
from tests.small_envs import ACT, OBS


def grid(
    reward: list[float],
    active: list[int],
    elapsed: list[int],
    terminated: list[int] = (),
    truncated: list[int] = (),  # type: ignore[assignment]
) -> MultiAgentBatch:
    """One agent in one copy of the env."""
    rows = len(reward)
    column = (rows, 1, 1)
    kinds = number_seats([AgentType("agent", ("a_0",), OBS, ACT)])
    present = np.array(active, bool).reshape(column)
    asked_next = np.concatenate([present[1:], np.zeros((1, 1, 1), bool)])
    ended = [np.array(flags or [0] * rows, bool).reshape(column) for flags in (list(terminated), list(truncated))]
    return MultiAgentBatch(
        task=Task(kinds),
        policy_ids=("p",),
        obs=[np.zeros((rows, 1, 1, 2), np.float32)],
        new_obs=[np.zeros((rows, 1, 1, 2), np.float32)],
        actions=[np.zeros((rows, 1, 1), np.int64)],
        legal=[np.zeros((rows, 1, 1, 0), bool)],
        new_legal=[np.zeros((rows, 1, 1, 0), bool)],
        rewards=np.array(reward, np.float32).reshape(column),
        terminateds=ended[0],
        truncateds=ended[1],
        present=present,
        new_present=asked_next & ~ended[0] & ~ended[1],
        alive=present,
        new_alive=present,
        active=present,
        elapsed=np.array(elapsed, np.int64).reshape(column),
        policy_index=np.zeros(column, np.int64),
        new_policy_index=np.zeros(column, np.int64),
        action_logp=np.zeros(column, np.float32),
        state=np.zeros((rows, 1, 0), np.float32),
        new_state=np.zeros((rows, 1, 0), np.float32),
        t=np.arange(rows)[:, None],
        eps_id=np.zeros((rows, 1), np.int64),
    )


def column(values: list[float]) -> np.ndarray:  # type: ignore[type-arg]
    return np.array(values, np.float32).reshape(-1, 1, 1)


def test_gae_gives_a_manager_the_reward_earned_between_its_decisions() -> None:
    batch = grid([1.0, 0.0, 0.0, 2.0], [1, 0, 0, 1], [3, 0, 0, 1], terminated=[0, 0, 0, 1])
    zeros = column([0.0] * 4)
    folded = fold_rewards(batch, 0.5)
    advantage = gae(batch, zeros, zeros, folded, gamma=0.5, trace=1.0)[:, 0, 0]
    assert advantage[[0, 3]] == pytest.approx([1.0 + 0.5**3 * 2.0, 2.0])


def test_rewards_between_two_decisions_are_folded_with_gamma() -> None:
    batch = grid([1.0, 2.0, 4.0, 8.0], [1, 0, 0, 1], [3, 0, 0, 1], terminated=[0, 0, 0, 1])
    assert fold_rewards(batch, 0.5)[[0, 3], 0, 0].tolist() == [1 + 0.5 * 2 + 0.25 * 4, 8.0]


def test_a_truncated_row_bootstraps_and_a_terminated_row_does_not() -> None:
    ones = column([1.0, 1.0])
    for flags, expected in (({"truncated": [0, 1]}, 1 + 0.9 * 1 - 1), ({"terminated": [0, 1]}, 1 - 1)):
        batch = grid([1.0, 1.0], [1, 1], [1, 1], **flags)  # type: ignore[arg-type]
        advantage = gae(batch, ones, ones, batch.rewards, gamma=0.9, trace=0.0)
        assert advantage[1, 0, 0] == pytest.approx(expected)


def test_an_advantage_does_not_look_into_the_next_life_of_its_seat() -> None:
    batch = grid([1.0, 100.0], [1, 1], [1, 1], terminated=[1, 0])
    zeros = column([0.0, 0.0])
    assert gae(batch, zeros, zeros, batch.rewards, gamma=1.0, trace=1.0)[0, 0, 0] == 1.0


def test_gae_equals_a_slow_loop_over_decisions() -> None:
    rng = np.random.default_rng(0)
    rows = 30
    decides = rng.random(rows) < 0.4
    decides[0] = True
    at = np.flatnonzero(decides)
    elapsed = np.zeros(rows, np.int64)
    elapsed[at] = np.diff([*at, rows])
    terminated = np.zeros(rows, bool)
    terminated[-1] = True
    batch = grid(rng.normal(size=rows).tolist(), decides.tolist(), elapsed.tolist(), terminated.tolist())
    values, next_values = rng.normal(size=(2, rows)).astype(np.float32)
    got = gae(batch, column(values), column(next_values), fold_rewards(batch, 0.9), 0.9, 0.8)[at, 0, 0]
    expected, running = [], 0.0
    for i in reversed(range(len(at))):
        t, k = at[i], elapsed[at[i]]
        earned = sum(0.9**j * float(batch.rewards[t + j, 0, 0]) for j in range(k))
        last = i == len(at) - 1
        delta = earned + (0 if last else 0.9**k * next_values[t]) - values[t]
        running = delta + (0 if last else 0.9**k * 0.8 * running)
        expected.append(running)
    assert got == pytest.approx(expected[::-1], abs=1e-5)
