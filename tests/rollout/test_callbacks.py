"""Hooks on workers: when they are called, what they see, and what they may change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from marl.callbacks.callbacks import Callbacks
from marl.data.batch import MultiAgentBatch
from marl.data.tree import pack, unpack
from marl.errors import CallbackError
from marl.rollout.worker import RolloutWorker
from tests.small_envs import Scripted, Step, decisions, worker_for

PAIR = ("a_0", "a_1")


def duet(_: Any = None) -> Scripted:
    """Two agents; episodes of three steps that pay a_0 1, 2, 3 and a_1 nothing."""
    return Scripted(
        PAIR, [Step(PAIR, {"a_0": 1.0}), Step(PAIR, {"a_0": 2.0}), Step((), {"a_0": 3.0}, terminated=PAIR)], PAIR
    )


def slow(_: Any = None) -> Scripted:
    """a_0 is asked in steps 0 and 3 of five, a_1 in all of them."""
    steps = [
        Step(("a_1",), {"a_0": 1.0, "a_1": 1.0}),
        Step(("a_1",), {"a_0": 2.0, "a_1": 1.0}),
        Step(PAIR, {"a_0": 4.0, "a_1": 1.0}),
        Step(("a_1",), {"a_0": 8.0, "a_1": 1.0}),
        Step((), {"a_0": 16.0, "a_1": 1.0}, terminated=PAIR),
    ]
    return Scripted(PAIR, steps, PAIR)


def relay(_: Any = None) -> Scripted:
    """car_9 drives all five steps; the other seat is that of car_0, then of car_1, then of car_2."""
    steps = [
        Step(("car_9",), {"car_0": 1.0}, terminated=["car_0"]),
        Step(("car_9", "car_1")),
        Step(("car_9",), {"car_1": 5.0}, terminated=["car_1"]),
        Step(("car_9", "car_2")),
        Step((), {"car_2": 9.0}, terminated=["car_2", "car_9"]),
    ]
    return Scripted(("car_0", "car_9"), steps, patterns={"car_*": 2})


class Diary(Callbacks):
    """Writes down every call."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def on_episode_start(self, *, episode: Any, env_index: int, **_: Any) -> None:
        self.calls.append(("start", env_index, episode.episode_id))

    def on_episode_step(self, *, episode: Any, env_index: int, **_: Any) -> None:
        self.calls.append(("step", env_index, episode.length))

    def on_episode_end(self, *, episode: Any, env_index: int, **_: Any) -> None:
        self.calls.append(("end", env_index, episode.length, episode.total_reward))

    def on_sample_end(self, *, samples: Any, **_: Any) -> None:
        self.calls.append(("sample", samples.count))


def test_hooks_of_an_episode_come_in_order_once_per_step() -> None:
    diary = Diary()
    worker = worker_for(duet, callbacks=diary)
    worker.collect(4)
    assert diary.calls == [
        ("start", 0, 0), ("step", 0, 1), ("step", 0, 2), ("step", 0, 3), ("end", 0, 3, 6.0),
        ("start", 0, 1), ("step", 0, 1), ("sample", 4),
    ]  # fmt: skip


def test_every_copy_has_its_own_episodes_and_a_sample_is_as_large_as_the_fragment() -> None:
    diary = Diary()
    worker = worker_for(duet, copies=2, callbacks=diary)
    worker.collect(3)
    assert [call for call in diary.calls if call[0] != "step"] == [
        ("start", 0, 0), ("start", 1, 1), ("end", 0, 3, 6.0), ("end", 1, 3, 6.0), ("start", 0, 2), ("start", 1, 3),
        ("sample", 6),
    ]  # fmt: skip


def test_a_player_without_hooks_of_episodes_has_nobody_to_call() -> None:
    plain, sampled = worker_for(duet), worker_for(duet, callbacks={"on_sample_end": lambda samples: None})
    for worker in (plain, sampled):
        episodes = list(worker.runner.episodes)
        worker.collect(7)
        assert worker.runner.callbacks is None
        assert worker.runner.episodes[0] is episodes[0]  # not even an object per episode


def test_hooks_see_what_agents_saw_and_did_last() -> None:
    found: list[Any] = []

    def look(episode: Any, base_env: Any) -> None:
        told = base_env.sub_env(0).seen[-1] if base_env.sub_env(0).seen else {}
        found.append(
            (
                episode.last_observation_for("a_1").tolist(),
                episode.last_raw_obs_for("a_1").tolist(),
                [episode.last_action_for(agent) for agent in PAIR] == [told.get(agent) for agent in PAIR],
                dict(episode.last_info_for("a_1")),
                dict(episode.policies),
            )
        )

    worker = worker_for(duet, callbacks={"on_episode_start": look, "on_episode_step": look})
    worker.collect(2)
    policies = {"a_0": "p", "a_1": "p"}
    assert found == [
        ([1.0, 0.0], [1.0, 0.0], True, {}, policies),
        ([1.0, 1.0], [1.0, 1.0], True, {}, policies),
        ([1.0, 2.0], [1.0, 2.0], True, {}, policies),
    ]


def test_the_last_action_stays_while_an_agent_is_not_asked() -> None:
    actions: list[Any] = []
    worker = worker_for(
        slow, callbacks={"on_episode_step": lambda episode: actions.append(episode.last_action_for("a_0"))}
    )
    worker.collect(5)
    env = worker.runner.env.sub_env(0)
    first, fourth = env.seen[0]["a_0"], env.seen[3]["a_0"]  # type: ignore[attr-defined]
    assert actions == [first, first, first, fourth, fourth]


@pytest.mark.parametrize("agent", [None, "b_7"])
def test_an_agent_that_is_not_there_is_refused_by_name(agent: str | None) -> None:
    worker = worker_for(duet, callbacks={"on_episode_start": lambda episode: episode.last_observation_for(agent)})
    with pytest.raises(CallbackError, match=f"has no agent {agent!r}. It has a_0, a_1"):
        worker.collect(1)


def test_what_ended_can_no_longer_be_asked() -> None:
    worker = worker_for(
        duet, callbacks={"on_postprocess_trajectory": lambda episode: episode.last_observation_for("a_0")}
    )
    with pytest.raises(CallbackError, match="episode 0 has ended"):
        worker.collect(3)


def rewriting(change: Callable[[Any], None]) -> dict[str, Any]:
    return {"on_postprocess_trajectory": lambda postprocessed_batch, agent_id: change((agent_id, postprocessed_batch))}


def collected(worker: RolloutWorker, fragments: list[int]) -> list[MultiAgentBatch]:
    return [worker.collect(steps).batch for steps in fragments]


@pytest.mark.parametrize("fragments", [[12], [1] * 12, [2, 3, 7], [5, 5, 2]])
@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("env", [duet, slow])
def test_every_decision_is_shown_once_however_it_is_cut(env: Any, complete: bool, fragments: list[int]) -> None:
    shown: list[Any] = []

    def show(agent_id: str, policy_id: str, postprocessed_batch: Any, episode: Any) -> None:
        assert policy_id == "p"
        for i in range(postprocessed_batch.count):
            row = {name: postprocessed_batch[name][i].tolist() for name in postprocessed_batch}
            assert row["eps_id"] == episode.episode_id
            shown.append((row["eps_id"], row["t"], int(agent_id[-1]), tuple(row["obs"]), row["elapsed"]))

    worker = worker_for(env, complete=complete, callbacks={"on_postprocess_trajectory": show})
    learned = decisions(collected(worker, fragments))
    assert sorted(shown) == [(row[0], row[1], row[2], row[3], row[9]) for row in learned]
    assert learned


def test_a_rewritten_reward_is_what_learners_fold() -> None:
    """a_0's first decision earns 1 + 2 + 4 in three steps. With 10 more it is worth 10 + 1 + 0.5 * 2 + 0.25 * 4 = 13."""

    def add(row: Any) -> None:
        row[1]["rewards"] = row[1]["rewards"] + 10.0

    rows = decisions(collected(worker_for(slow, callbacks=rewriting(add)), [2, 3]))
    paid = {(row[1], row[2]): row[5] for row in rows}
    assert paid[0, 0] == 13.0
    assert paid[3, 0] == 10.0 + 8.0 + 0.5 * 16.0
    assert [paid[step, 1] for step in range(5)] == [11.0] * 5


def test_shown_rewards_are_all_that_was_paid_during_a_decision_and_returns_stay_the_envs() -> None:
    shown: list[Any] = []

    def take(row: Any) -> None:
        shown.append((row[0], row[1]["rewards"].tolist()))
        row[1]["rewards"][:] = 0.0

    worker = worker_for(slow, callbacks=rewriting(take))
    rollout = worker.collect(5)
    assert shown == [("a_0", [7.0, 24.0]), ("a_1", [1.0] * 5)]
    assert [row[5] for row in decisions([rollout.batch]) if row[2] == 1] == [0.0] * 5
    assert rollout.episodes.rewards.tolist() == [36.0]


def test_observations_and_actions_are_written_back_to_their_own_rows() -> None:
    def shift(row: Any) -> None:
        agent, batch = row
        if agent == "a_0":
            batch["obs"][:] += 100.0
            batch["new_obs"][:] -= 100.0
            batch["actions"][:] = 2

    plain = decisions(collected(worker_for(slow), [4, 6]))
    changed = decisions(collected(worker_for(slow, callbacks=rewriting(shift)), [4, 6]))
    for before, after in zip(plain, changed, strict=True):
        up, down = (100.0, -100.0) if before[2] == 0 else (0.0, 0.0)
        assert after[3] == tuple(x + up for x in before[3])
        assert after[6] == tuple(x + down for x in before[6])
        assert after[4] == (2 if before[2] == 0 else before[4])
        assert after[5] == before[5]


def test_originals_are_those_of_everybody_before_any_change() -> None:
    others: list[Any] = []

    def look(agent_id: str, postprocessed_batch: Any, original_batches: Any) -> None:
        others.append({agent: rows["rewards"].tolist() for agent, rows in original_batches.items()})
        postprocessed_batch["rewards"] = -1.0
        with pytest.raises(ValueError, match="read-only"):
            original_batches[agent_id]["rewards"][:] = 0.0

    worker_for(duet, callbacks={"on_postprocess_trajectory": look}).collect(3)
    assert others == [{"a_0": [1.0, 2.0, 3.0], "a_1": [0.0, 0.0, 0.0]}] * 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda row: row[1]["terminateds"].fill(True), "read-only"),
        (lambda row: row[1].__setitem__("advantages", 1.0), "column 'advantages' of a trajectory cannot be set"),
        (lambda row: row[1].__setitem__("rewards", [1.0, 2.0]), r"of shape \(2,\), expected \(3,\)"),
        (lambda row: row[1].__setitem__("rewards", [7.0]), r"of shape \(1,\), expected \(3,\)"),
        (lambda row: row[1].__setitem__("rewards", np.nan), "made rewards of worker 0 NaN"),
    ],
    ids=["flags", "unknown", "shape", "one row", "nan"],
)
def test_changes_that_would_be_lost_or_hurt_are_refused(change: Any, message: str) -> None:
    with pytest.raises(CallbackError, match=message):
        worker_for(duet, callbacks=rewriting(change)).collect(3)


@pytest.mark.parametrize("fragments", [[5], [1] * 5, [3, 2]])
def test_agents_that_share_a_seat_one_after_the_other_are_told_apart(fragments: list[int]) -> None:
    shown: list[Any] = []
    worker = worker_for(relay, callbacks=rewriting(lambda row: shown.append((row[0], row[1]["rewards"].tolist()))))
    collected(worker, fragments)
    assert [one for one in shown if one[0] != "car_9"] == [("car_0", [1.0]), ("car_1", [5.0]), ("car_2", [9.0])]
    assert sum(len(rewards) for agent, rewards in shown if agent == "car_9") == 5


class Angles(Callbacks):
    """Notes numbers in every way."""

    def on_episode_start(self, *, episode: Any, **_: Any) -> None:
        episode.user_data["seen"] = []

    def on_episode_step(self, *, episode: Any, **_: Any) -> None:
        episode.user_data["seen"].append(episode.last_observation_for("a_0")[1])

    def on_episode_end(self, *, episode: Any, worker: Any, **_: Any) -> None:
        episode.custom_metrics["mean_seen"] = np.mean(episode.user_data["seen"])
        episode.custom_metrics["worker"] = worker.index
        episode.custom_metrics["evaluated"] = episode.evaluating
        episode.hist_data["seen"] = episode.user_data["seen"]

    def on_postprocess_trajectory(self, *, episode: Any, **_: Any) -> None:
        episode.custom_metrics["fragments"] = episode.custom_metrics.get("fragments", 0) + 1


def test_notes_of_an_episode_come_with_its_numbers() -> None:
    """Seen are steps 1, 2 and 3. The episode lies in two fragments, in each of which two agents are shown."""
    worker = worker_for(duet, callbacks=Angles)
    assert worker.collect(2).episodes.remarks == []
    (remark,) = worker.collect(2).episodes.remarks
    assert remark["custom_metrics"] == {"mean_seen": 2.0, "worker": 0.0, "evaluated": 0.0, "fragments": 4.0}
    assert remark["hist_data"]["seen"].tolist() == [1.0, 2.0, 3.0]


def test_evaluations_call_hooks_for_the_episodes_that_count_and_for_no_other() -> None:
    diary = Diary()
    worker = worker_for(duet, copies=4, callbacks=diary)
    assert len(worker.evaluate([1, 2, 3, 4, 5])) == 5
    assert [call[0] for call in diary.calls].count("start") == 5
    assert [call[0] for call in diary.calls].count("end") == 5
    assert [call[0] for call in diary.calls].count("step") == 15


def test_evaluated_episodes_know_it_and_bring_their_notes() -> None:
    remarks = worker_for(duet, callbacks=Angles).evaluate([1, 2, 3]).remarks
    assert [remark["custom_metrics"]["evaluated"] for remark in remarks] == [1.0] * 3


@pytest.mark.parametrize("env", [duet, slow, relay])
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_notes_survive_a_restart_in_the_middle_of_an_episode(env: Any, steps: int) -> None:
    def notes(worker: RolloutWorker) -> Any:
        return [remark["hist_data"]["r"].tolist() for remark in worker.collect(7).episodes.remarks]

    def add(episode: Any, base_env: Any) -> None:
        names = [base_env.agent_at(0, seat) for seat in range(len(base_env.seat_names))]
        acted = episode.last_action_for(names[0])
        episode.hist_data.setdefault("r", []).extend([episode.total_reward, -1 if acted is None else acted])

    shown: list[Any] = []
    hooks = {
        "on_episode_step": add,
        "on_postprocess_trajectory": lambda agent_id, postprocessed_batch: shown.append(
            (agent_id, postprocessed_batch["t"].tolist())
        ),
    }
    straight = worker_for(env, callbacks=hooks)
    straight.collect(steps)
    state = unpack(*pack(straight.state_dict()))
    shown.clear()
    expected, trajectories = notes(straight), list(shown)
    again = worker_for(env, callbacks=hooks)
    again.load_state_dict(state)
    shown.clear()
    assert notes(again) == expected
    assert shown == trajectories


@pytest.mark.parametrize("env", [duet, relay])
def test_hooks_may_join_a_run_in_the_middle_of_its_episodes(env: Any) -> None:
    plain = worker_for(env)
    plain.collect(2)
    ends: list[int] = []
    hooks = {
        "on_episode_end": lambda episode: ends.append(episode.length),
        "on_postprocess_trajectory": lambda agent_id, episode: None,
    }
    joined = worker_for(env, callbacks=hooks)
    joined.load_state_dict(unpack(*pack(plain.state_dict())))
    joined.collect(3)
    assert ends == [3 if env is duet else 5]
