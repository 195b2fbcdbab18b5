"""Recorded episodes: what goes in comes out, whoever wrote it, and a wrong env is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import marl
from marl.data.batch import MultiAgentBatch
from marl.data.task import AgentType, Task
from marl.envs.registry import make_batched_env
from marl.errors import DataError
from marl.offline.manifest import MANIFEST
from marl.offline.recording import Recorder
from marl.offline.trajectories import Trajectories, _check_numbers, _shapes, all_legal, read_episodes, read_trajectories
from tests.small_envs import Scripted, Step, decisions, worker_for


def turns(**_: Any) -> Scripted:
    """agent_0 moves in steps 0 and 2 and is truncated, agent_1 in step 1 and terminates with the reward 3."""
    return Scripted(
        ["agent_0"],
        [
            Step(["agent_1"], {"agent_0": 1.0}),
            Step(["agent_0"], {"agent_1": 3.0}, terminated=["agent_1"], last=[]),
            Step([], {"agent_0": 5.0}, truncated=["agent_0"]),
        ],
        agents=["agent_0", "agent_1"],
    )


def recorded(
    folder: Path, env: Any, rounds: list[int], copies: int = 2, per_file: int = 1000
) -> tuple[Task, list[Any]]:
    """Play rounds of so many steps into the folder; gives the task and the workers' batches."""
    worker = worker_for(env, copies)
    recorder = Recorder(folder, worker.spec.task, "turns", ["p"], normalized=True, per_file=per_file)
    batches = []
    for steps in rounds:
        batches.append(worker.collect(steps).batch)
        recorder.add(batches[-1])
    recorder.close()
    return worker.spec.task, batches


def read(folder: Path, task: Task) -> Trajectories:
    return read_trajectories(sorted(folder.glob("*.npz")), task, normalize_actions=True)


def everything(data: Trajectories) -> MultiAgentBatch:
    return data.batch(np.arange(len(data)), ["p"], np.zeros((len(data), data.task.num_seats), np.int64))


def without_episode(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(row[1:] for row in rows)


@pytest.mark.parametrize("rounds", [[12], [1] * 12, [5, 7]], ids=["at once", "step by step", "in two"])
def test_reading_gives_every_decision_of_whole_episodes_as_it_was_played(tmp_path: Path, rounds: list[int]) -> None:
    task, batches = recorded(tmp_path, lambda config: turns(), rounds)
    data = read(tmp_path, task)
    assert data.lengths.tolist() == [3] * 8  # two copies, four episodes each
    assert without_episode(decisions([everything(data)])) == without_episode(decisions(batches))


def test_a_decision_lasts_until_its_agent_is_asked_again_or_ends(tmp_path: Path) -> None:
    task, _ = recorded(tmp_path, lambda config: turns(), [3], copies=1)
    batch = everything(read(tmp_path, task))
    assert batch.elapsed[:, 0].tolist() == [[2, 0], [0, 1], [1, 0]]
    assert batch.active[:, 0].tolist() == [[True, False], [False, True], [True, False]]


def test_an_agent_cut_off_without_a_last_observation_is_left_out(tmp_path: Path) -> None:
    def env(config: Any) -> Scripted:
        return Scripted(
            ["agent_0"], [Step(["agent_0"]), Step(truncated=["agent_0"], last=[])], agents=["agent_0"]
        )  # fmt: skip

    task, _ = recorded(tmp_path, env, [2], copies=1)
    assert everything(read(tmp_path, task)).elapsed[:, 0, 0].tolist() == [1, 0]


def test_an_episode_that_did_not_end_is_not_recorded(tmp_path: Path) -> None:
    task, _ = recorded(tmp_path, lambda config: turns(), [4], copies=1)  # the second episode has one step so far
    assert read(tmp_path, task).lengths.tolist() == [3]


def test_files_hold_so_many_episodes_and_the_last_one_the_rest(tmp_path: Path) -> None:
    recorded(tmp_path, lambda config: turns(), [15], copies=1, per_file=2)
    assert [len(read_episodes(tmp_path / f"trajs_{n}.npz")) for n in range(3)] == [2, 2, 1]
    assert not (tmp_path / "trajs_3.npz").exists()


def test_a_directory_with_recordings_is_not_written_over(tmp_path: Path) -> None:
    recorded(tmp_path, lambda config: turns(), [3])
    with pytest.raises(DataError, match="already holds recorded episodes"):
        recorded(tmp_path, lambda config: turns(), [3])


def test_a_recorder_that_goes_on_from_a_checkpoint_has_each_episode_once(tmp_path: Path) -> None:
    def recorder(folder: str) -> Recorder:
        return Recorder(tmp_path / folder, worker.spec.task, "turns", ["p"], normalized=True, per_file=2)

    worker = worker_for(lambda config: turns(), 2)
    batches = [worker.collect(steps).batch for steps in (4, 4, 5)]
    never_stopped, stopped, resumed = recorder("a"), recorder("b"), recorder("b")
    for batch in batches:
        never_stopped.add(batch)
    never_stopped.close()
    stopped.add(batches[0])
    state = stopped.state_dict()
    for batch in batches[1:]:  # these are lost by a kill, and come again
        stopped.add(batch)
    stopped.close()
    resumed.load_state_dict(state)
    for batch in batches[1:]:
        resumed.add(batch)
    resumed.close()
    for name in ("trajs_0.npz", "trajs_1.npz", "trajs_2.npz", "trajs_3.npz"):
        one, other = (read_episodes(tmp_path / folder / name) for folder in ("a", "b"))
        assert len(one) == len(other) == 2
        for a, b in zip(one, other, strict=True):
            for column in a:
                np.testing.assert_array_equal(a[column], b[column])


# -- the user's own data -----------------------------------------------------------------------------------------------


def cartpole(length: int, terminated: bool) -> dict[str, Any]:
    obs = np.arange(4 * (length + 1), dtype=np.float32).reshape(length + 1, 4) / 100
    return {"obs": obs, "actions": [0, 1] * (length // 2), "rewards": [1.0] * length, "terminated": terminated}


def test_hand_written_episodes_come_back_with_their_rows_and_flags(tmp_path: Path) -> None:
    assert marl.write_trajectories(tmp_path, "CartPole-v1", [cartpole(2, True), cartpole(4, False)]) == 2
    env = make_batched_env("CartPole-v1", 1, {})
    data = read(tmp_path, Task(env.kinds))
    rows = everything(data).for_policy("p")
    assert data.lengths.tolist() == [2, 4]
    np.testing.assert_allclose(rows["obs"][:, 0], [0, 0.04, 0, 0.04, 0.08, 0.12])
    np.testing.assert_allclose(rows["new_obs"][:, 0], [0.04, 0.08, 0.04, 0.08, 0.12, 0.16])
    assert rows["actions"].tolist() == [0, 1, 0, 1, 0, 1]
    assert rows["terminateds"].tolist() == [False, True, False, False, False, False]
    assert rows["truncateds"].tolist() == [False, False, False, False, False, True]
    assert data.returns(np.arange(2))[:, 0].tolist() == [2.0, 4.0]


def test_agents_that_take_turns_are_aligned_by_their_steps(tmp_path: Path) -> None:
    first = {
        "obs": [[0, 0], [0, 2], [0, 3]],
        "actions": [1, 2],
        "rewards": [1, 5],
        "terminated": False,
        "steps": [0, 2],
    }
    second = {"obs": [[1, 1]], "actions": [0], "rewards": [3], "steps": [1]}
    marl.write_trajectories(tmp_path / "own", lambda config: turns(), [{"agent_0": first, "agent_1": second}])
    task, batches = recorded(tmp_path / "played", lambda config: turns(), [3], copies=1)
    own, played = (everything(read(tmp_path / name, task)) for name in ("own", "played"))
    for column in ("rewards", "present", "new_present", "elapsed", "terminateds", "truncateds"):
        np.testing.assert_array_equal(getattr(own, column), getattr(played, column))
    assert [row[:3] + row[5:] for row in decisions([own])[:1]] == [row[:3] + row[5:] for row in decisions(batches)[:1]]


def test_coordinates_come_in_the_units_that_the_run_speaks(tmp_path: Path) -> None:
    episode = {"obs": np.zeros((2, 3), np.float32), "actions": [[1.0], [-2.0]], "rewards": [0, 0], "terminated": True}
    marl.write_trajectories(tmp_path, "Pendulum-v1", [episode])  # torques of -2..2
    task = Task(make_batched_env("Pendulum-v1", 1, {}).kinds)
    squeezed, env = (read_trajectories([tmp_path / "trajs_0.npz"], task, n) for n in (True, False))
    assert squeezed.columns["actions.0"].reshape(-1).tolist() == [0.5, -1.0]
    assert env.columns["actions.0"].reshape(-1).tolist() == [1.0, -2.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actions": [0, 2]}, r"episode 0, agent '.*': action 2 is none of Discrete\(2\)"),
        ({"rewards": [1.0]}, "2 actions need 2 rewards and 2 steps"),
        ({"obs": np.zeros((2, 4))}, r"2 actions need 3 observations \(the last one after them\), but there are 2"),
        ({"obs": np.zeros((3, 5))}, "the observation of agent .* has shape"),
        ({"steps": [3, 1]}, "each later than the one before"),
        ({"reward": [1, 1]}, "unknown column 'reward'. Did you mean 'rewards'"),
    ],
)
def test_an_episode_that_does_not_fit_is_refused_before_anything_is_written(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        marl.write_trajectories(tmp_path / "own", "CartPole-v1", [{**cartpole(2, False), **change}])
    assert not (tmp_path / "own").exists()


# -- wrong data --------------------------------------------------------------------------------------------------------


def test_episodes_of_another_env_are_refused(tmp_path: Path) -> None:
    marl.write_trajectories(tmp_path, "CartPole-v1", [cartpole(2, True)])
    with pytest.raises(DataError, match=r"holds episodes of env 'CartPole-v1', which differ from this run's in obs"):
        read(tmp_path, Task(make_batched_env("MountainCar-v0", 1, {}).kinds))


def test_an_action_that_its_mask_forbids_is_refused(tmp_path: Path) -> None:
    kind = AgentType("a", ("a_0",), spaces.Box(-1, 1, (1,)), spaces.MultiDiscrete([2, 3]), masked=True)
    legal = np.array([[1, 0, 0, 1, 1], [1, 1, 1, 0, 0]], bool)
    assert all_legal(kind, legal, np.array([[0, 2], [1, 0]]))
    assert not all_legal(kind, legal, np.array([[1, 2], [1, 0]]))
    assert not all_legal(kind, legal, np.array([[0, 2], [1, 1]]))
    task = Task((kind,))
    rows = {name: np.zeros((2, *shape)) for name, shape in _shapes(task, 0).items()}
    rows |= {"present": np.ones((2, 1), bool), "new_alive": np.zeros((2, 1), bool), "legal.0": legal[:, None]}
    _check_numbers(tmp_path, task, rows | {"actions.0": np.array([[[0, 2]], [[1, 0]]])})
    with pytest.raises(DataError, match="that the mask beside them forbids"):
        _check_numbers(tmp_path, task, rows | {"actions.0": np.array([[[0, 2]], [[1, 1]]])})
    absent = rows | {"present": np.array([[True], [False]]), "actions.0": np.array([[[0, 2]], [[1, 1]]])}
    _check_numbers(tmp_path, task, absent)


def test_damaged_files_and_numbers_are_refused(tmp_path: Path) -> None:
    marl.write_trajectories(tmp_path, "CartPole-v1", [cartpole(2, True)])
    task, path = Task(make_batched_env("CartPole-v1", 1, {}).kinds), tmp_path / "trajs_0.npz"
    whole = path.read_bytes()
    arrays = dict(np.load(path))
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="cannot be read as recorded episodes"):
        read(tmp_path, task)
    np.savez(path, **{**arrays, "obs.0": np.full_like(arrays["obs.0"], np.nan)})
    with pytest.raises(DataError, match=r"column 'obs.0' holds NaN or infinity"):
        read(tmp_path, task)
    np.savez(path, **{**arrays, "actions.0": arrays["actions.0"] + 2})
    with pytest.raises(DataError, match=r"actions outside of Discrete\(2\)"):
        read(tmp_path, task)
    np.savez(path, **{**arrays, "rewards": arrays["rewards"][:1]})
    with pytest.raises(DataError, match=r"column 'rewards' has shape \(1, 1\), expected \(2, 1\)"):
        read(tmp_path, task)
    path.write_bytes(whole)
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    (tmp_path / MANIFEST).write_text(json.dumps({**manifest, "version": 99}))
    with pytest.raises(DataError, match="has version 99; this marl reads version 1"):
        read(tmp_path, task)
    (tmp_path / MANIFEST).unlink()
    with pytest.raises(DataError, match=r"has no trajectories.json"):
        read(tmp_path, task)


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    marl.write_trajectories(tmp_path, "CartPole-v1", [cartpole(2, True)])
    path = tmp_path / "trajs_0.npz"
    np.savez(path, **{**dict(np.load(path)), "rewards": np.array([{}, {}], object)})
    with pytest.raises(DataError, match="cannot be read as recorded episodes"):
        read(tmp_path, Task(make_batched_env("CartPole-v1", 1, {}).kinds))


def test_2500_episodes_are_three_files_of_a_thousand_at_most(tmp_path: Path) -> None:
    worker = worker_for(lambda config: turns(), 10)
    recorder = Recorder(tmp_path, worker.spec.task, "turns", ["p"], normalized=True)
    recorder.add(worker.collect(250 * 3).batch)  # an episode has three steps
    recorder.close()
    assert [len(read_episodes(tmp_path / f"trajs_{n}.npz")) for n in range(3)] == [1000, 1000, 500]
