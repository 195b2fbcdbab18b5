"""``marl run FILE --seeds 0..2 --stacked``: what it prints, what it leaves, Ctrl-C, a kill, and going on."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from gymnasium.envs.classic_control import CartPoleEnv

from marl.runs.directories import state_of
from marl.runs.notes import read_notes
from marl.runs.stacks import unfinished_stack
from tests import processes
from tests.command import marl
from tests.training.test_stacked import KEYS, same, weights

CALLBACKS = "tests.training.own_callbacks:"


class FewCopies(CartPoleEnv):
    """An env of which a process can have so many copies."""

    left = 7

    def __init__(self) -> None:
        super().__init__()
        FewCopies.left -= 1
        if FewCopies.left < 0:
            raise RuntimeError("no more copies")


def scenario(directory: Path, **changes: Any) -> Path:
    keys = {key: value for key, value in KEYS.items() if key != "stacked"}
    file = directory / "small.yaml"
    file.write_text(yaml.safe_dump({**keys, **changes}))
    return file


def runs_in(directory: Path) -> list[Path]:
    return sorted((directory / "small").iterdir())


def test_every_seed_has_a_complete_run_directory(tmp_path: Path) -> None:
    file = scenario(tmp_path, stop={"training_iteration": 2}, evaluation={"interval": 1, "episodes": 2})
    done = marl("run", file, "--seeds", "0,3", "--stacked", "--local-dir", tmp_path, "--quiet")
    assert (done.code, done.err) == (0, "")
    runs = runs_in(tmp_path)
    assert done.out.splitlines() == [f"results: {run}" for run in runs]
    for run, seed in zip(runs, (0, 3), strict=True):
        params = json.loads((run / "params.json").read_text())
        assert (params["seed"], params["stacked"]) == (seed, True)
        assert len((run / "result.json").read_text().splitlines()) == 2
        assert state_of(run, {}) == ("finished", "")
        for name in (
            "params.yaml",
            "progress.csv",
            "learning_curve.png",
            "checkpoints/best",
            "checkpoints/checkpoint_000002",
        ):
            assert (run / name).exists(), name
    resumed = marl("run", "--resume", runs[1], "--stop-iters", 3, "--quiet")
    assert resumed.code == 0
    assert json.loads((runs[1] / "params.json").read_text())["stacked"] is True


def test_json_lines_tell_the_seed(tmp_path: Path) -> None:
    file = scenario(tmp_path, stop={"training_iteration": 2}, evaluation={"interval": 0})
    done = marl("run", file, "--seeds", "0..1", "--stacked", "--local-dir", tmp_path, "--json")
    found = [(json.loads(line)["seed"], json.loads(line)["training_iteration"]) for line in done.out.splitlines()]
    assert found == [(0, 1), (1, 1), (0, 2), (1, 2)]
    assert done.err.splitlines()[-1].startswith("results: ")


def test_after_ctrl_c_the_same_command_goes_on_exactly(tmp_path: Path) -> None:
    file = scenario(tmp_path, callbacks=f"{CALLBACKS}StopsAtTwo")
    stopped, straight = tmp_path / "stopped", tmp_path / "straight"
    stopped.mkdir()
    (stopped / "armed").touch()
    command = ("run", file, "--seeds", "0..1", "--stacked")
    done = marl(*command, "--local-dir", stopped)
    assert done.code == 130
    assert "stopping all seeds after this iteration" in done.out
    runs = runs_in(stopped)
    for run in runs:
        assert state_of(run, {}) == ("stopped", "")
        assert len((run / "result.json").read_text().splitlines()) in (1, 2)  # who had not begun the second does not
        assert f"marl run --resume {run}" in done.out
    again = marl(*command, "--local-dir", stopped)
    assert again.code == 0
    assert "they go on" in again.out
    assert runs_in(stopped) == runs
    assert marl(*command, "--local-dir", straight, "--quiet").code == 0
    for run, other in zip(runs, runs_in(straight), strict=True):
        assert same(weights(run), weights(other))


def test_runs_go_on_that_are_of_the_same_command_and_not_all_finished(tmp_path: Path) -> None:
    wanted = {seed: {"env": "kuhn", "seed": seed, "stacked": True} for seed in (0, 1)}
    for stack, state in (("aaaaa", "stopped"), ("bbbbb", "stopped")):
        for seed, params in wanted.items():
            run = tmp_path / f"PPO_kuhn_{stack}_{seed:05d}_seed={seed}"
            run.mkdir()
            (run / "params.json").write_text(json.dumps(params))
            (run / "state.json").write_text(json.dumps({"state": state}))
    newest = {seed: tmp_path / f"PPO_kuhn_bbbbb_{seed:05d}_seed={seed}" for seed in wanted}
    assert unfinished_stack(tmp_path, wanted) == newest
    assert unfinished_stack(tmp_path, {0: wanted[0]}) == {0: newest[0]}
    assert unfinished_stack(tmp_path, {**wanted, 2: {**wanted[0], "seed": 2}}) == {}
    assert unfinished_stack(tmp_path, {seed: {**params, "gamma": 0.9} for seed, params in wanted.items()}) == {}
    (newest[0] / "state.json").write_text(json.dumps({"state": "finished"}))
    assert unfinished_stack(tmp_path, wanted) == newest
    (newest[1] / "state.json").write_text(json.dumps({"state": "finished"}))
    assert unfinished_stack(tmp_path, wanted) == {}  # the same command begins anew
    assert unfinished_stack(tmp_path / "nowhere", wanted) == {}


def test_a_seed_that_fails_is_told_at_the_end_and_its_warnings_stay_its_own(tmp_path: Path) -> None:
    file = scenario(tmp_path, callbacks=f"{CALLBACKS}FailsForSeedOne", stop={"training_iteration": 3})
    done = marl("run", file, "--seeds", "0..2", "--stacked", "--local-dir", tmp_path)
    assert done.code == 2
    assert len(done.errors) == 1
    assert "division by zero" in done.errors[0]
    assert "seed 1: failed, CallbackError: " in done.out
    zero, one, two = runs_in(tmp_path)
    assert [state_of(run, {})[0] for run in (zero, one, two)] == ["finished", "failed", "finished"]
    assert [len(run.joinpath("result.json").read_text().splitlines()) for run in (zero, one, two)] == [3, 1, 3]
    assert "seed 1 is unlucky" in str(read_notes(one))
    assert "unlucky" not in str(read_notes(zero)) + str(read_notes(two))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--stacked"], "Add --seeds, such as 0..9"),
        (["--seed", "1", "--stacked"], "Add --seeds, such as 0..9"),
        (["--seeds", "0..1", "--stacked", "--num-workers", "2"], "stacked: true needs num_workers: 0"),
        (["--seeds", "0..1", "--stacked", "--set", "algo=dqn"], "learns by dqn, whose updates cannot be stacked"),
        (["--seeds", "0..1", "--stacked", "--resume", "x"], "cannot be given with --seeds"),
    ],
)
def test_what_cannot_be_stacked_is_one_sentence_and_nothing_is_written(
    arguments: list[str], told: str, tmp_path: Path
) -> None:
    file = tmp_path / "small.yaml"
    file.write_text("env: two_step_game\nstop: {training_iteration: 1}\n")
    done = marl("run", file, *arguments, "--local-dir", tmp_path)
    assert done.code == 2
    assert len(done.errors) == 1
    assert told in done.errors[0]
    assert [path.name for path in tmp_path.iterdir()] == ["small.yaml"]


@pytest.mark.slow
def test_a_killed_stack_goes_on_exactly_by_the_same_command(tmp_path: Path) -> None:
    file = scenario(tmp_path, stop={"training_iteration": 30}, evaluation={"interval": 0}, checkpoint_freq=3)
    command = ("run", str(file), "--seeds", "0..2", "--stacked", "--quiet", "--local-dir")
    process = processes.start(*command, str(tmp_path / "killed"), env=dict(os.environ))
    while not list(tmp_path.glob("killed/small/*_00002_*/checkpoints/checkpoint_000006")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    runs = runs_in(tmp_path / "killed")
    assert marl(*command, tmp_path / "killed").code == 0
    assert runs_in(tmp_path / "killed") == runs
    assert marl(*command, tmp_path / "straight").code == 0
    for run, other in zip(runs, runs_in(tmp_path / "straight"), strict=True):
        assert len((run / "result.json").read_text().splitlines()) == 30
        assert same(weights(run, 30), weights(other, 30))


def test_a_command_that_fails_before_its_first_iteration_leaves_no_directories(tmp_path: Path) -> None:
    file = scenario(tmp_path, env=f"{__name__}:FewCopies")
    done = marl("run", file, "--seeds", "0..4", "--stacked", "--local-dir", tmp_path)
    assert done.code == 2
    assert "no more copies" in done.errors[0]
    assert runs_in(tmp_path) == []
