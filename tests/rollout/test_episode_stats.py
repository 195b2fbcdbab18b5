"""Returns of agents that come and go, and whose notes belong to whose episode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marl.callbacks.callbacks import Callbacks
from marl.rollout.worker import RolloutWorker
from tests.small_envs import Scripted, Step, worker_for


def relay(_: Any = None) -> Scripted:
    """car_9 drives all five steps; the other seat is that of car_0, then of car_1, which is paid once more after its end."""
    steps = [
        Step(("car_9",), {"car_0": 1.0, "car_9": 0.5}, terminated=["car_0"]),
        Step(("car_9", "car_1")),
        Step(("car_9",), {"car_1": 5.0}, terminated=["car_1"]),
        Step(("car_9",), {"car_9": 0.25}),
        Step((), {"car_1": 9.0}, terminated=["car_9"]),
    ]
    return Scripted(("car_0", "car_9"), steps, patterns={"car_*": 2})


class Notes(Callbacks):
    def on_episode_end(self, *, episode: Any, env_index: int, **_: Any) -> None:
        episode.custom_metrics["number"] = episode.episode_id
        episode.custom_metrics["copy"] = env_index
        episode.custom_metrics["paid"] = episode.total_reward


def test_returns_of_agents_that_share_a_seat_are_told_by_name_and_sum_up() -> None:
    stats = worker_for(relay, copies=2).collect(10).episodes
    assert stats.rewards.tolist() == [15.75] * 4
    assert stats.lengths.tolist() == [5] * 4
    paid: list[dict[str, float]] = [{} for _ in range(4)]
    for agent, episode, policy, earned in zip(stats.agent, stats.episode, stats.policy, stats.returns, strict=True):
        name = stats.agents[agent]
        assert policy == 0
        assert name not in paid[episode]
        paid[episode][name] = float(earned)
    assert paid == [{"car_0": 1.0, "car_1": 14.0, "car_9": 0.75}] * 4


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_every_episode_brings_its_own_notes_where_agents_come_and_go(copies: int) -> None:
    stats = worker_for(relay, copies=copies, callbacks=Notes).collect(10).episodes
    notes = [remark["custom_metrics"] for remark in stats.remarks]
    assert [note["number"] for note in notes] == list(range(2 * copies))
    assert [note["copy"] for note in notes] == [*range(copies)] * 2
    assert [note["paid"] for note in notes] == stats.rewards.tolist() == [15.75] * 2 * copies


@pytest.mark.parametrize(
    ("num_envs", "before", "episodes", "copies"),
    [
        (4, 4, 2, 4), (1, 9, 3, 4), (6, 9, 5, 6),  # an earlier, larger evaluation made the copies
        (1, 0, 2, 2), (5, 0, 4, 4), (4, 0, 4, 4), (4, 0, 5, 4), (2, 0, 7, 4), (5, 0, 7, 5),
    ],
)  # fmt: skip
def test_hooks_of_an_evaluation_are_called_for_the_episodes_that_count_alone(
    num_envs: int, before: int, episodes: int, copies: int
) -> None:
    calls: list[Any] = []
    hooks = {
        "on_episode_start": lambda episode, env_index: calls.append(("start", env_index)),
        "on_episode_step": lambda episode, env_index: calls.append(("step", env_index)),
        "on_episode_end": lambda episode, env_index: calls.append(("end", env_index)),
    }
    worker = worker_for(relay, copies=num_envs, callbacks=hooks)
    worker.evaluate(list(range(before)))
    calls.clear()
    stats = worker.evaluate(list(range(10, 10 + episodes)))
    copy_of = np.arange(episodes) % copies  # all episodes are as long, so they come round after round
    for kind, times in (("start", 1), ("step", 5), ("end", 1)):
        counted = [env_index for called, env_index in calls if called == kind]
        assert sorted(counted) == sorted(np.repeat(copy_of, times).tolist())
    assert len(stats) == episodes


def test_episodes_of_different_workers_never_have_the_same_number() -> None:
    spec = worker_for(relay, copies=3).spec
    numbers = [np.unique(RolloutWorker(spec, index).collect(50).batch.eps_id).tolist() for index in range(4)]
    for index, found in enumerate(numbers):
        assert found == [index * 2**40 + i for i in range(30)]  # ten episodes in each of three copies
