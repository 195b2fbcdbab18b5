"""Episodes as text: one file per worker, an episode per line, read back as what was played."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marl.cli.play import replay
from marl.errors import ConfigError, DataError
from marl.offline.json_lines import read_traces, to_line, trace_files
from marl.offline.json_traces import TextFiles
from marl.offline.recording import Recorder
from marl.offline.trajectories import read_trajectories, recorded_files
from marl.offline.view import open_recording
from marl.play.playback import RolloutOptions, play
from marl.training.trainer import Trainer
from tests.data.test_trajectories import turns
from tests.small_envs import worker_for
from tests.training.trees import differences

SMALL = {"fcnet_hiddens": [8], "evaluation": {"interval": 0}, "sgd_minibatch_size": 32}
PPO = {**SMALL, "train_batch_size": 90, "rollout_fragment_length": 7, "num_envs_per_worker": 3}


def recorded(folder: Path, iterations: int = 3, env: str = "CartPole-v1", **keys: Any) -> Trainer:
    with Trainer("ppo", env=env, config={**PPO, "output": str(folder), **keys}) as trainer:
        for _ in range(iterations):
            trainer.train()
    return trainer


def texts(folder: Path) -> list[Any]:
    return [trace.rows for file in trace_files(folder) for trace in read_traces(file)]


def test_every_worker_has_files_of_its_own_that_say_what_was_earned(tmp_path: Path) -> None:
    trainer = recorded(tmp_path, output_format="json", num_workers=2, pool="in_process")
    names = [file.name for file in trace_files(tmp_path)]
    assert all(re.fullmatch(r"output-\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_worker-[12]_0\.json", name) for name in names)
    assert [name.split("_")[2] for name in names] == ["worker-1", "worker-2"]
    lines = [json.loads(line) for file in trace_files(tmp_path) for line in file.read_text().splitlines()]
    assert len(lines) == trainer.episodes_total
    assert sorted(line["returns"]["agent_0"] for line in lines) == sorted(trainer.recent.rewards.tolist())
    assert {line["policies"]["agent_0"] for line in lines} == {"default_policy"}
    assert all(line["length"] == len(line["columns"]["rewards"]) for line in lines)


@pytest.mark.parametrize("env", ["CartPole-v1", "traffic", "kuhn_poker", "Pendulum-v1"])
def test_text_and_arrays_hold_the_same_episodes(tmp_path: Path, env: str) -> None:
    keys: dict[str, Any] = {"horizon": 20, "iterations": 1}
    task = recorded(tmp_path / "npz", env=env, **keys).setup.task
    recorded(tmp_path / "json", env=env, output_format="json", **keys)
    one, other = (read_trajectories(recorded_files(tmp_path / name), task, True) for name in ("npz", "json"))
    assert len(one) > 0
    assert one.lengths.tolist() == other.lengths.tolist()
    for name, column in one.columns.items():
        assert column.dtype == other.columns[name].dtype, name
        np.testing.assert_array_equal(column, other.columns[name], name)


def test_text_can_be_learned_from(tmp_path: Path) -> None:
    recorded(tmp_path, output_format="json")
    for algo in ("marwil", "dqn"):
        keys = {**SMALL, "train_batch_size": 90} if algo == "marwil" else {"fcnet_hiddens": [8]}
        config = {**keys, "evaluation": {"interval": 0}, "input": str(tmp_path)}
        with Trainer(algo, env="CartPole-v1", config=config) as trainer:
            assert trainer.train()["timesteps_total"] >= 90
            assert f"learning from {len(texts(tmp_path))} recorded episodes" in trainer.notes[0]


def test_a_resumed_run_leaves_the_same_text_as_one_that_never_stopped(tmp_path: Path) -> None:
    def trainer(folder: str) -> Trainer:
        keys = {**PPO, "output": str(tmp_path / folder), "output_format": "json"}
        return Trainer("ppo", env="CartPole-v1", config=keys)

    with trainer("straight") as straight:
        for _ in range(4):
            straight.train()
    with trainer("stopped") as stopped:
        stopped.train(), stopped.train()
        stopped.save(tmp_path / "checkpoint")
        stopped.train()  # a kill loses this one
    with trainer("stopped") as resumed:
        resumed.restore(tmp_path / "checkpoint")
        resumed.train(), resumed.train()
    assert differences(texts(tmp_path / "straight"), texts(tmp_path / "stopped")) == []
    assert len(trace_files(tmp_path / "stopped")) == 1


def test_a_full_file_is_followed_by_the_next_one_and_resuming_drops_later_ones(tmp_path: Path) -> None:
    worker = worker_for(lambda config: turns(), 2)
    batches = [worker.collect(steps).batch for steps in (4, 8, 3)]

    def recorder() -> tuple[Recorder, TextFiles]:
        files = TextFiles(tmp_path, worker.spec.task.seat_names, ["p"], 1, 1, per_file=2)
        return Recorder(tmp_path, worker.spec.task, "turns", ["p"], normalized=True, files=files), files

    first, _ = recorder()
    first.add(batches[0])
    state = first.state_dict()
    assert [len(read_traces(file)) for file in trace_files(tmp_path)] == [1, 1]  # an episode of 3 steps in each copy
    for batch in batches[1:]:
        first.add(batch)
    first.close()
    names = [file.name.split("_")[-2:] for file in trace_files(tmp_path)]
    assert names == [[f"worker-{w}", f"{n}.json"] for w in (1, 2) for n in (0, 1, 2)]
    assert [len(read_traces(file)) for file in trace_files(tmp_path)] == [2, 2, 1] * 2
    before = texts(tmp_path)
    again, _ = recorder()
    again.load_state_dict(state)
    assert [len(read_traces(file)) for file in trace_files(tmp_path)] == [1, 1]
    for batch in batches[1:]:
        again.add(batch)
    again.close()
    assert differences(texts(tmp_path), before) == []


def test_numbers_are_short_and_lose_nothing() -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([[0.1, 1 / 3, 1e-30, 3e38], rng.normal(size=200)]).astype(np.float32)
    rows: dict[str, Any] = {
        "rewards": values[:, None],
        "alive": np.ones((204, 1), bool),
        "policy": np.zeros((204, 1), int),
    }
    line = to_line(rows, ["a"], ["p"], 0)
    assert b"[0.1]" in line
    assert np.array_equal(np.array(json.loads(line)["columns"]["rewards"], np.float32), rows["rewards"])


def test_a_half_written_last_line_is_left_out_and_a_broken_one_is_told(tmp_path: Path) -> None:
    recorded(tmp_path, 1, output_format="json", horizon=10)
    (path,) = trace_files(tmp_path)
    whole, count = path.read_bytes(), len(texts(tmp_path))
    path.write_bytes(whole[:-40])
    assert len(texts(tmp_path)) == count - 1
    path.write_bytes(whole[:50])
    with pytest.raises(DataError, match="its only line is not complete"):
        texts(tmp_path)
    path.write_bytes(b"{}\n" + whole)
    with pytest.raises(DataError, match="line 1: not a recorded episode"):
        texts(tmp_path)


def test_a_format_without_output_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"output_format: json needs output, but output is not given. Set output"):
        Trainer("ppo", env="CartPole-v1", config={**PPO, "output_format": "json"})


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
def test_ray_workers_leave_the_same_text(tmp_path: Path) -> None:
    for pool in ("ray", "in_process"):
        recorded(tmp_path / pool, output_format="json", num_workers=2, pool=pool)
    one, other = (trace_files(tmp_path / pool) for pool in ("ray", "in_process"))
    assert len(one) == len(other) == 2
    for a, b in zip(one, other, strict=True):
        assert a.read_bytes() == b.read_bytes()


# -- viewing -----------------------------------------------------------------------------------------------------------


def test_a_recorded_episode_is_told_step_by_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worker = worker_for(lambda config: turns(), 1)
    batch = worker.collect(6).batch
    for name, files in (
        ("json", TextFiles(tmp_path / "json", worker.spec.task.seat_names, ["p"], 1, 0)),
        ("npz", None),
    ):
        recorder = Recorder(tmp_path / name, worker.spec.task, "turns", ["p"], normalized=True, files=files)
        recorder.add(batch)
        recorder.close()
        replay(tmp_path / name, episode=1)
        shown = capsys.readouterr().out.splitlines()
        assert shown[0].startswith("env 'turns', episode 1")
        assert shown[0].endswith("agent_0 6  agent_1 3  (2 episodes are recorded)")
        assert [line for line in shown if line.startswith("step")] == ["step 0", "step 1", "step 2"]
        steps = "\n".join(shown).split("step ")
        assert "agent_0 (p)  saw [" in steps[1]
        assert "earned 1" in steps[1]
        assert "saw" not in steps[2].splitlines()[1]  # agent_0 waits while agent_1 moves
        assert steps[2].splitlines()[2].endswith("earned 3  terminated")
        assert steps[3].splitlines()[1].endswith("earned 5  truncated")
        replay(tmp_path / name, summary=True)
        assert capsys.readouterr().out.splitlines()[0] == "2 episodes of env 'turns', 6 env steps"
    replay(trace_files(tmp_path / "json")[0], steps=1)
    assert capsys.readouterr().out.splitlines()[-1] == "... and 2 more steps"
    replay(tmp_path / "json", as_json=True, steps=2)
    cut = json.loads(capsys.readouterr().out)
    assert (cut["episode"], cut["length"], {len(column) for column in cut["columns"].values()}) == (0, 3, {2})
    replay(tmp_path / "npz", as_json=True, episode=1)
    whole = json.loads(capsys.readouterr().out)
    assert {len(column) for column in whole["columns"].values()} == {3}
    replay(tmp_path / "json", as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["episodes"][1] == {"episode": 1, "worker": 0, "length": 3, "returns": {"agent_0": 6.0, "agent_1": 3.0}}


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no recording"):
        open_recording(tmp_path / "nothing")
    with pytest.raises(DataError, match="holds no recorded episodes"):
        open_recording(tmp_path)
    recorded(tmp_path / "data", 1, output_format="json", horizon=10)
    with pytest.raises(ConfigError, match="there is no episode 999"):
        list(open_recording(tmp_path / "data").told(999))
    with pytest.raises(ConfigError, match="--list and --episode"):
        replay(tmp_path / "data", episode=0, summary=True)
    with pytest.raises(ConfigError, match="--list and --steps"):
        replay(tmp_path / "data", steps=1, summary=True)


def test_a_file_that_is_no_recording_is_called_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("empty.yaml", "result.json"):
        Path(name).touch()
    with pytest.raises(DataError, match=r"empty.yaml is no recording: expected trajs_N.npz"):
        open_recording(Path("empty.yaml"))
    with pytest.raises(DataError, match=r"result.json is no recording: there is no trajectories.json beside it"):
        open_recording(Path("result.json"))


def test_one_episode_is_no_episodes(tmp_path: Path) -> None:
    worker = worker_for(lambda config: turns(), 1)
    recorder = Recorder(tmp_path, worker.spec.task, "turns", ["p"], normalized=True)
    recorder.add(worker.collect(3).batch)
    recorder.close()
    recording = open_recording(tmp_path)
    assert next(recording.listed()) == "1 episode of env 'turns', 3 env steps"
    told = list(recording.told(0, steps=2))
    assert told[0].endswith("(1 episode is recorded)")
    assert told[-1] == "... and 1 more step"


def test_a_rollout_saves_what_it_plays(tmp_path: Path) -> None:
    with Trainer("ppo", env="CartPole-v1", config=PPO) as trainer:
        checkpoint = Path(trainer.save(tmp_path / "run"))
    (tally,) = play(checkpoint, RolloutOptions(3, explore=(True,), save=tmp_path / "data"), say=lambda _: None)
    data = read_trajectories(recorded_files(tmp_path / "data"), trainer.setup.task, True)
    assert data.returns(np.arange(3)).sum(axis=1).tolist() == tally.stats.rewards.tolist()
