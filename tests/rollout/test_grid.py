"""Decisions that are still open when their episode is broken off or cannot be brought back."""

from __future__ import annotations

import numpy as np

from marl.rollout.worker import RolloutWorker
from tests.worlds import Scripted, Step, decisions, worker_for

# The manager m_0 decides once and waits; the worker w_1 decides in every step.
STEPS = [Step(["w_1"]), Step(["w_1"]), Step(["m_0", "w_1"], {"m_0": 4}), Step([], {}, ["__all__"])]


def two_copies() -> RolloutWorker:
    return worker_for(lambda _: Scripted(["m_0", "w_1"], STEPS, agents=["m_0", "w_1"]), copies=2)


def test_a_lane_that_is_forgotten_loses_its_open_decisions_and_no_others() -> None:
    worker = two_copies()
    worker.collect(2)  # steps in each copy: both managers wait
    grid = worker.grid
    assert (grid.open >= 0).tolist() == [[True, False], [True, False]]
    grid.forget(np.array([1]))
    assert grid.lost_decisions == 1
    assert (grid.open >= 0).tolist() == [[True, False], [False, False]]
    assert grid.start[1] == grid.context == 2


def test_a_cleared_grid_keeps_nothing() -> None:
    worker = two_copies()
    worker.collect(6)
    grid = worker.grid
    assert (grid.open >= 0).sum() == grid.context == 2
    grid.clear()
    assert grid.lost_decisions == 2
    assert (grid.open == -1).all()
    assert not grid.alive.any()
    assert not grid.start.any()
    assert grid.context == 0
    assert len(grid.columns["t"]) == 0


def test_every_decision_of_whole_episodes_is_in_the_batches() -> None:
    worker = two_copies()
    batches = [worker.collect(4).batch for _ in range(3)]  # steps in each copy: one episode each
    assert len(decisions(batches)) == 3 * 2 * (2 + 4)
    assert worker.grid.lost_decisions == 0
