"""One process at a time writes to a run directory."""

from __future__ import annotations

import errno
import json
import math
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from marl.analysis.runs import list_runs
from marl.errors import ConfigError, RunLockedError, UserError
from marl.runs.checkpoint import find_checkpoint
from marl.runs.lock import LOCK, check_unlocked, holder_of, take_lock
from marl.training.trainer import Trainer
from marl.tune import trial
from marl.tune.objective import Objective
from marl.tune.trial import RunningTrial
from tests.training.test_odd_envs import PPO

ROOT = Path(__file__).parents[2]
HOLD = """
import sys
from pathlib import Path
from marl.runs.lock import take_lock
lock = take_lock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.readline()
"""


@contextmanager
def held_by_another_process(directory: Path) -> Iterator[subprocess.Popen[str]]:
    directory.mkdir(parents=True, exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.wait()


def forge(directory: Path, **changes: Any) -> None:
    """A lock of this process, with changes."""
    mine = psutil.Process()
    told = {
        "pid": mine.pid,
        "hostname": platform.node(),
        "process_began": mine.create_time(),
        "since": 1e9,
        "token": "x",
    }
    (directory / LOCK).write_text(json.dumps({**told, **changes}))


def test_a_run_that_another_process_writes_is_refused_with_its_number_host_and_since_when(tmp_path: Path) -> None:
    with held_by_another_process(tmp_path) as other:
        words = (
            rf"process {other.pid} on host '{platform.node()}' has been writing to it since 20\d\d-.*kill {other.pid}"
        )
        with pytest.raises(RunLockedError, match=words):
            take_lock(tmp_path)
        with pytest.raises(RunLockedError, match=words):
            Trainer("ppo", env="CartPole-v1", config=PPO, directory=tmp_path)
        with pytest.raises(RunLockedError, match=words):
            Trainer("ppo", env="CartPole-v1", config=PPO).store.open(tmp_path)
        assert [entry.name for entry in tmp_path.iterdir()] == [LOCK]  # nothing was written beside it


def test_a_lock_ends_with_its_process_also_by_kill_9(tmp_path: Path) -> None:
    with held_by_another_process(tmp_path) as other:
        other.send_signal(signal.SIGKILL)
        while (
            psutil.Process(other.pid).status() != psutil.STATUS_ZOMBIE
        ):  # dead, but nobody has asked for its exit code
            time.sleep(0.01)
        assert holder_of(tmp_path) is not None
        lock = take_lock(tmp_path)
    lock.release()
    with held_by_another_process(tmp_path) as other:
        assert other.stdin is not None
        other.stdin.write("end\n")
        other.stdin.flush()
        other.wait(10)
        assert list(tmp_path.iterdir()) == []  # an orderly end leaves nothing


def test_a_number_that_was_given_to_another_process_does_not_count(tmp_path: Path) -> None:
    forge(tmp_path, pid=os.getppid(), process_began=psutil.Process(os.getppid()).create_time())
    with pytest.raises(RunLockedError):
        check_unlocked(tmp_path)
    forge(tmp_path, pid=os.getppid(), process_began=psutil.Process(os.getppid()).create_time() - 1000)
    take_lock(tmp_path).release()
    forge(tmp_path, pid=2**22 + 1)
    take_lock(tmp_path).release()
    assert not (tmp_path / LOCK).exists()


def test_a_lock_of_another_host_is_respected_and_the_remedy_is_named(tmp_path: Path) -> None:
    forge(tmp_path, hostname="elsewhere", pid=2**22 + 1)
    with pytest.raises(RunLockedError, match=rf"on host 'elsewhere'.*cannot be seen.*delete {tmp_path / LOCK}"):
        take_lock(tmp_path)
    assert holder_of(tmp_path) is not None


@pytest.mark.parametrize("time_of", ["since", "process_began"])
@pytest.mark.parametrize("told", [math.nan, math.inf, "nan", "-inf"])
def test_a_lock_with_a_time_that_never_was_is_one_that_nobody_can_read(
    tmp_path: Path, time_of: str, told: object
) -> None:
    forge(tmp_path, hostname="elsewhere", **{time_of: told})
    with pytest.raises(RunLockedError, match=r"does not say who holds it.*delete it"):
        take_lock(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"pid": 1}', '{"pid": "a"}', "[" * 100_000])
def test_a_lock_that_nobody_can_read_is_told_with_the_remedy(tmp_path: Path, content: str) -> None:
    (tmp_path / LOCK).write_text(content)
    with pytest.raises(RunLockedError, match=r"does not say who holds it.*delete it"):
        take_lock(tmp_path)


def test_a_pipe_or_a_folder_in_its_place_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / LOCK)
    with pytest.raises(RunLockedError, match="no ordinary file"):
        take_lock(tmp_path)
    (tmp_path / "sub" / LOCK).mkdir(parents=True)
    with pytest.raises(RunLockedError, match="no ordinary file"):
        take_lock(tmp_path / "sub")


def test_a_file_in_place_of_the_directory_is_told_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(ConfigError, match=r"cannot write into the run directory .*another place"):
        take_lock(tmp_path / "run")


def test_of_many_that_find_a_stale_lock_one_wins(tmp_path: Path) -> None:
    script = HOLD.replace("lock = ", "sys.stdin.readline()\nlock = ")
    forge(tmp_path, pid=2**22 + 1)
    start = [sys.executable, "-c", script, str(tmp_path)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    rivals = [subprocess.Popen(start, text=True, cwd=ROOT, **pipes) for _ in range(3)]
    for rival in rivals:
        assert rival.stdin is not None
        rival.stdin.write("go\n")
        rival.stdin.flush()
    timer = threading.Timer(60, lambda: [rival.kill() for rival in rivals])
    timer.start()
    losers = []
    while len(losers) < 2:
        time.sleep(0.05)
        losers = [rival for rival in rivals if rival.poll() is not None]
    timer.cancel()
    winner = next(rival for rival in rivals if rival not in losers)
    outputs = [rival.communicate() for rival in losers]
    assert all(f"process {winner.pid} on host" in err for _, err in outputs)
    assert winner.communicate("end\n")[0] == "held\n"


def test_a_trainer_holds_the_lock_until_it_is_stopped_and_readers_need_none(tmp_path: Path) -> None:
    run = tmp_path / "experiment" / "run"
    with Trainer("ppo", env="CartPole-v1", config=PPO, directory=run) as trainer:
        trainer.train()
        trainer.save()
        holder = holder_of(run)
        assert holder is not None
        assert holder.is_this_process
        assert list_runs(tmp_path)[0].state == "running"  # there is no state file: the lock says so
        Trainer.from_checkpoint(run).stop()
    assert holder_of(run) is None
    assert list_runs(tmp_path)[0].state == "stopped"
    with Trainer("ppo", env="CartPole-v1", config=PPO, directory=run) as second:
        second.restore(run)
        second.train()


def test_of_two_trainers_in_one_program_the_second_is_refused_until_the_first_is_stopped(tmp_path: Path) -> None:
    first = Trainer("ppo", env="CartPole-v1", config=PPO, directory=tmp_path)
    first.train()
    first.save()
    for _ in range(2):
        with pytest.raises(RunLockedError, match=r"another Trainer of this program writes there.*Call stop\(\)"):
            Trainer("ppo", env="CartPole-v1", config=PPO, directory=tmp_path)
    with Trainer("ppo", env="CartPole-v1", config=PPO) as elsewhere:
        with pytest.raises(RunLockedError, match="another Trainer of this program"):
            elsewhere.store.enter(tmp_path, find_checkpoint(tmp_path))
        with pytest.raises(RunLockedError, match="another Trainer of this program"):
            elsewhere.store.open(tmp_path)
    first.train()
    first.stop()
    with Trainer("ppo", env="CartPole-v1", config=PPO, directory=tmp_path) as second:
        second.restore(tmp_path)
        second.train()
        with pytest.raises(RunLockedError, match="another Trainer of this program"):
            first.train()
    lines = (tmp_path / "result.json").read_text().splitlines()
    assert [json.loads(line)["training_iteration"] for line in lines] == [1, 2]


def test_a_trainer_that_was_forgotten_is_in_nobodys_way(tmp_path: Path) -> None:
    forgotten = Trainer("ppo", env="CartPole-v1", config=PPO, directory=tmp_path)
    del forgotten
    Trainer("ppo", env="CartPole-v1", config=PPO, directory=tmp_path).stop()
    assert holder_of(tmp_path) is None


def test_a_lock_that_was_forgotten_goes_with_its_process(tmp_path: Path) -> None:
    script = HOLD.replace('print("held"', 'del lock; print("held"').replace("sys.stdin.readline()", "")
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, cwd=ROOT)
    assert list(tmp_path.iterdir()) == []


def test_a_trainer_that_could_not_open_its_directory_holds_no_lock(tmp_path: Path) -> None:
    (tmp_path / "params.json").mkdir()
    with pytest.raises(UserError) as refused:  # which keeps the frames, and so the trainer, alive
        Trainer("ppo", env="CartPole-v1", config=PPO, directory=tmp_path)
    assert holder_of(tmp_path) is None
    assert "params.json" in str(refused.value)


@pytest.mark.parametrize("reason", [errno.EACCES, errno.EROFS])
def test_a_read_only_directory_is_called_that_and_the_way_on_is_named(
    tmp_path: Path, reason: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: Path, *_: object, **__: object) -> int:
        raise OSError(reason, os.strerror(reason), str(file))

    monkeypatch.setattr(Path, "write_text", refuse)  # what the system does; root may write everywhere
    with pytest.raises(ConfigError) as refused:
        take_lock(tmp_path)
    said = str(refused.value)
    assert said.startswith(f"the run directory {tmp_path} is read-only for you")
    assert "--local-dir DIR" in said
    assert "tmp" not in said.replace(str(tmp_path), "")


def test_a_trial_waits_a_little_for_the_process_of_its_last_start(tmp_path: Path, monkeypatch: Any) -> None:
    keys = {**PPO, "env": "CartPole-v1", "algo": "ppo"}
    place = tmp_path / "trial"
    objective = Objective("episode_reward_mean")
    with held_by_another_process(place) as other:
        monkeypatch.setattr(trial, "PATIENCE", 0.2)
        with pytest.raises(RunLockedError, match=f"process {other.pid}"):
            RunningTrial(keys, place, "abcde_00000", objective, "timesteps_total")
        monkeypatch.setattr(trial, "PATIENCE", 20.0)
        threading.Timer(0.3, other.kill).start()
        running = RunningTrial(keys, place, "abcde_00000", objective, "timesteps_total")
    running.trainer.stop()
    assert holder_of(place) is None


def test_on_the_command_line_a_second_process_gets_code_2_and_the_first_goes_on(tmp_path: Path) -> None:
    with Trainer("ppo", env="CartPole-v1", config=PPO, directory=tmp_path) as trainer:
        trainer.train()
        trainer.save()
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        second = subprocess.run(
            [sys.executable, "-m", "marl.run", "--resume", str(tmp_path)],
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )
        assert second.returncode == 2
        assert second.stderr.startswith(f"error: {tmp_path} is in use: process {os.getpid()} on host")
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
        trainer.train()
