"""Decisions that are still open when their episode is broken off or cannot be brought back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.rollout.config import RolloutConfig
from marl.rollout.worker import RolloutWorker
from tests.small_envs import OBS, Scripted, Step, decisions, worker_for

# The manager m_0 decides once and waits; the worker w_1 decides in every step.
STEPS = [Step(["w_1"]), Step(["w_1"]), Step(["m_0", "w_1"], {"m_0": 4}), Step([], {}, ["__all__"])]


def two_copies() -> RolloutWorker:
    return worker_for(lambda _: Scripted(["m_0", "w_1"], STEPS, agents=["m_0", "w_1"]), copies=2)


def test_a_lane_that_is_forgotten_loses_its_open_decisions_and_no_others() -> None:
    worker = two_copies()
    worker.collect(2)  # steps in each copy: both managers wait
    buffer = worker.buffer
    assert (buffer.open >= 0).tolist() == [[True, False], [True, False]]
    buffer.forget(np.array([1]))
    assert buffer.lost_decisions == 1
    assert (buffer.open >= 0).tolist() == [[True, False], [False, False]]
    assert buffer.start[1] == buffer.context == 2


def test_old_names_of_a_worker_lead_to_the_same_objects() -> None:
    worker = two_copies()
    assert worker.player is worker.runner
    assert worker.grid is worker.buffer


def test_a_cleared_grid_keeps_nothing() -> None:
    worker = two_copies()
    worker.collect(6)
    buffer = worker.buffer
    assert (buffer.open >= 0).sum() == buffer.context == 2
    buffer.clear()
    assert buffer.lost_decisions == 2
    assert (buffer.open == -1).all()
    assert not buffer.alive.any()
    assert not buffer.start.any()
    assert buffer.context == 0
    assert len(buffer.columns["t"]) == 0


class Masked(Scripted):
    """Allows agent ``i`` every action but the one that step and agent add up to."""

    def observation_space(self, agent: str) -> Any:
        return spaces.Dict({"observation": OBS, "action_mask": spaces.MultiBinary(3)})

    def _obs(self, agents: Any) -> dict[str, Any]:
        return {agent: {"observation": row, "action_mask": mask_of(row)} for agent, row in super()._obs(agents).items()}


def mask_of(row: Any) -> Any:
    return (np.arange(3) != int(row.sum()) % 3).astype(np.int8)


def test_masks_are_stored_with_the_decision_that_obeyed_them_and_with_its_outcome() -> None:
    worker = worker_for(lambda _: Masked(["m_0", "w_1"], STEPS, agents=["m_0", "w_1"]), copies=2)
    for _ in range(3):
        rows = worker.collect(3).batch.for_policy("p")
        assert [mask_of(obs).tolist() for obs in rows["obs"]] == rows["legal"].astype(int).tolist()
        assert rows["legal"][np.arange(len(rows)), rows["actions"]].all()
        open_ended = ~rows["terminateds"]
        assert open_ended.any()
        expected = [mask_of(obs).tolist() for obs in rows["new_obs"][open_ended]]
        assert expected == rows["new_legal"][open_ended].astype(int).tolist()


def test_no_seeds_are_no_episodes() -> None:
    stats = two_copies().evaluate([])
    assert len(stats.rewards) == len(stats.lengths) == 0


def test_every_decision_of_whole_episodes_is_in_the_batches() -> None:
    worker = two_copies()
    batches = [worker.collect(4).batch for _ in range(3)]  # steps in each copy: one episode each
    assert len(decisions(batches)) == 3 * 2 * (2 + 4)
    assert worker.buffer.lost_decisions == 0


def test_a_copy_is_told_where_it_lives() -> None:
    spec = two_copies().spec
    for config, index, remote in (({"num_workers": 2, "pool": "ray"}, 1, True), ({"num_workers": 2, "pool": "ray"}, 0, False),
                                  ({"num_workers": 2, "pool": "in_process"}, 1, False)):  # fmt: skip
        worker = RolloutWorker(replace(spec, env_config={"size": 3}, config=RolloutConfig(**config)), index)
        context = worker.context(1)
        assert (context.worker_index, context.vector_index, context.num_workers, context.remote) == (
            index,
            1,
            2,
            remote,
        )
        assert dict(context) == {"size": 3}


def test_to_stay_in_a_stage_breaks_nothing_off() -> None:
    worker = two_copies()
    worker.collect(2)
    assert worker.enter(0) == 0
    assert (worker.buffer.open >= 0).sum() == 2
