"""What joint views hold, by hand."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from gymnasium import spaces

from marl.algos.joint_view import JointFeatures, action_fn_of, columns_by_kind, seats_in_order
from marl.algos.team_rows import _between
from marl.data.task import AgentType, Task, number_seats
from marl.policies.policy import Inputs
from marl.policies.scripted import FixedPolicy, RandomPolicy

BOX = spaces.Box(-3, 3, (2,), np.float32)
KINDS = number_seats(
    [
        AgentType("see", ("a", "b"), spaces.Box(-9, 9, (2,)), spaces.Discrete(2)),
        AgentType("count", ("c", "d"), spaces.Discrete(3), BOX),
    ]
)


def test_observations_stand_side_by_side_and_absent_agents_are_zeros() -> None:
    view = JointFeatures(Task(KINDS), [3, 0, 2])
    assert view.by_kind == columns_by_kind(Task(KINDS), [3, 0, 2]) == {0: [0], 1: [1, 0]}
    assert seats_in_order(Task(KINDS), [3, 0, 2]) == [0, 3, 2]
    assert view.size == 2 + 3 + 3
    obs = {0: np.array([[[1.0, 2.0]], [[3.0, 4.0]]], np.float32), 1: np.array([[[2], [0]], [[1], [1]]])}
    shown = np.array([[True, True, False], [False, False, True]])  # of a, d, c
    assert view(obs, shown).tolist() == [[1, 2, 0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0, 1, 0]]


def test_actions_of_others_are_read_in_the_units_of_learning() -> None:
    """A rule speaks the env's units (-3..3), a network -1..1; critics see the second."""
    seen = Inputs(np.zeros((1, 1), np.int64), np.ones((1, 0), bool), np.zeros(1, np.int64))
    rule = FixedPolicy(KINDS[1], [1.5, -3.0])
    fresh = partial(np.random.default_rng, 0)
    assert rule.env_units
    decided = action_fn_of(rule, fresh)(seen)
    torch.testing.assert_close(decided, torch.tensor([[0.5, -1.0]]))
    rule.env_units = False
    torch.testing.assert_close(action_fn_of(rule, fresh)(seen), torch.tensor([[1.5, -3.0]]))
    choice = RandomPolicy(KINDS[0])
    row = Inputs(np.zeros((1, 2), np.float32), np.ones((1, 0), bool), np.zeros(1, np.int64))
    assert sorted(action_fn_of(choice, fresh)(row)[0].tolist()) == [0.0, 1.0]


def test_what_was_paid_between_two_rows_includes_both() -> None:
    paid = np.array([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0], [8.0, 80.0]], np.float32)  # [T, E]
    t, e, done = np.array([0, 1, 3]), np.array([0, 1, 0]), np.array([2, 1, 3])
    assert _between(paid, t, e, done).tolist() == [1 + 2 + 4, 20, 8]
