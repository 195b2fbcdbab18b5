"""Runs can be listed, found by name, and moved."""

from __future__ import annotations

import io
import json
import os
import platform
import shutil
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console
from typer.testing import CliRunner

from marl import Trainer
from marl.analysis.runs import list_runs, runs_table, summarise
from marl.cli.app import app
from marl.errors import CheckpointError, ConfigError, TrainingError
from marl.runs.checkpoint import find_checkpoint
from marl.runs.directories import find_runs, named_run, told_state, trial_id

SMALL: dict[str, Any] = {
    "env": "two_step_game", "train_batch_size": 32, "sgd_minibatch_size": 32, "num_sgd_iter": 1, "fcnet_hiddens": [8],
    "evaluation": {"interval": 2, "episodes": 2}, "checkpoint_freq": 0,
}  # fmt: skip


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MARL_RESULTS_DIR", str(tmp_path / "results"))
    return tmp_path / "results"


def trained(name: str = "small", **keys: Any) -> Path:
    with Trainer("ppo", config={**SMALL, "name": name, "stop": {"timesteps_total": 96}, **keys}) as trainer:
        trainer.run()
        assert trainer.store.directory is not None
        return trainer.store.directory


def state_file(run: Path, **told: Any) -> None:
    process = {"pid": os.getpid(), "hostname": platform.node(), "process_began": psutil.Process().create_time()}
    (run / "state.json").write_text(json.dumps({"error": "", **process, **told}))


def test_a_finished_run_is_listed_with_goal_progress_and_best_result(results: Path) -> None:
    run = trained(goal={"evaluation.episode_reward_mean": -5.0, "episode_reward_mean": 100.0}, seed=3)
    (found,) = list_runs(results)
    assert found.directory == str(run)
    assert (found.experiment, found.algo, found.env, found.seed) == ("small", "ppo", "two_step_game", 3)
    assert (found.state, found.progress, found.timesteps, found.iterations) == ("finished", 1.0, 96, 3)
    lines = [json.loads(line) for line in (run / "result.json").read_text().splitlines()]
    assert found.reward == lines[-1]["episode_reward_mean"]
    assert found.best == max(line["evaluation"]["episode_reward_mean"] for line in lines if "evaluation" in line)
    assert found.best_of == "evaluation.episode_reward_mean"
    assert found.goal_met is False  # one of both is missed
    assert found.id == trial_id(run) == lines[-1]["trial_id"]


def test_a_run_without_evaluations_or_results_is_listed_too(results: Path) -> None:
    run = trained(evaluation={"interval": 0}, stop={"timesteps_total": 64})
    lines = [json.loads(line) for line in (run / "result.json").read_text().splitlines()]
    found = summarise(run)
    assert found is not None
    assert found.best == max(line["episode_reward_mean"] for line in lines)
    assert found.best_of == "episode_reward_mean"
    assert found.goal_met is None
    for name in ("result.json", "progress.csv", "state.json"):
        (run / name).unlink()
    empty = summarise(run)
    assert empty is not None
    assert (empty.state, empty.progress, empty.best, empty.reward) == ("stopped", 0.0, None, None)


def test_the_state_of_a_run_is_told_by_its_file_and_by_its_process(results: Path) -> None:
    run = trained()

    def state() -> tuple[str, str]:
        found = summarise(run)
        assert found is not None
        return found.state, found.error

    assert state() == ("finished", "")
    state_file(run, state="running")
    assert state() == ("running", "")
    state_file(run, state="running", process_began=1.0)  # the number of the process was used again
    assert state()[0] == "failed"
    state_file(run, state="running", pid=2**22 + 1)
    assert state()[0] == "failed"
    assert "its process is gone" in state()[1]
    state_file(run, state="running", pid=2**22 + 1, hostname="another machine")
    assert state()[0] == "running"
    (run / "state.json").write_text("{")
    assert state() == ("finished", "")  # its last result says so


def test_a_run_that_ends_by_an_error_or_by_ctrl_c_says_so(tmp_path: Path) -> None:
    def state() -> Any:
        return json.loads((tmp_path / "state.json").read_text())

    with pytest.raises(TrainingError), told_state(tmp_path):
        assert state()["state"] == "running"
        raise TrainingError("the loss became nan.\nmore")
    assert (state()["state"], state()["error"]) == ("failed", "TrainingError: the loss became nan.")
    with pytest.raises(KeyboardInterrupt), told_state(tmp_path):
        raise KeyboardInterrupt
    assert state()["state"] == "stopped"
    with told_state(tmp_path) as ended:
        ended.append("stopped")
    assert state()["state"] == "stopped"


def test_a_run_is_found_by_its_name_its_id_and_its_experiment(results: Path) -> None:
    first, second, third = trained("one"), trained("two"), trained("two", seed=1)
    assert find_runs(results) == [first, second, third]
    assert find_runs(first) == [first]
    for name in (first.name, trial_id(first), "one", f"one/{first.name}"):
        assert named_run(name) == first
        assert find_checkpoint(Path(name)) == first / "checkpoints" / "checkpoint_000003"
    with pytest.raises(
        CheckpointError, match=f"'two' means 2 runs in .* Name one of them: {second.name}, {third.name}"
    ):
        named_run("two")
    with pytest.raises(CheckpointError, match=r"there is no run 'on'.*`marl runs` lists them"):
        named_run("on")
    with pytest.raises(CheckpointError, match=r"Did you mean 'two'"):
        named_run("twoo")


def test_trials_of_one_search_share_their_id_and_are_told_apart_by_their_number(results: Path) -> None:
    first, last = (f"PPO_two_step_game_e0872_0000{i}_lr=0.{i}_2026-11-16_02-30-00" for i in (0, 7))
    for name in (first, last):
        shutil.copytree(trained(), results / "search" / name)
    assert [run.id for run in list_runs(results / "search")] == ["e0872_00000", "e0872_00007"]
    assert named_run("e0872_00007") == results / "search" / last
    with pytest.raises(CheckpointError, match=r"'e0872' means 2 runs"):
        named_run("e0872")
    assert trial_id(Path("somewhere/else")) == ""


def test_every_listed_id_names_its_run(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = trained()
    places = [
        results / "compare" / "a_vs_b" / "a" / "seed_0",
        results / "compare" / "a_vs_b" / "b" / "seed_0",
        results / "search" / "PPO_two_step_game_e0872_00000_lr=0.1_2026-11-16_02-30-00",
        results / "search" / "PPO_two_step_game_e0872_00001_lr=0.2_2026-11-16_02-30-00",
        results / "copies" / run.name,
        results / "alone",
    ]
    for place in places:
        shutil.copytree(run, place)
    for folder in (results, results / "compare", results / "compare" / "a_vs_b" / "a"):
        listed = {Path(one.directory): one.id for one in list_runs(folder)}
        assert {find_checkpoint(Path(name)).parents[1]: name for name in listed.values()} == listed
    assert {Path(one.directory): one.id for one in list_runs(results)} == {
        run: f"small/{run.name}",
        places[0]: "compare/a_vs_b/a/seed_0",
        places[1]: "compare/a_vs_b/b/seed_0",
        places[2]: "e0872_00000",
        places[3]: "e0872_00001",
        places[4]: f"copies/{run.name}",
        places[5]: "alone",
    }
    (only,) = list_runs(results / "compare" / "a_vs_b" / "a")  # not unique among all results, though it is here
    assert only.id == "compare/a_vs_b/a/seed_0"
    shutil.copytree(run, tmp_path / "elsewhere" / "seed_0")
    monkeypatch.chdir(tmp_path)
    (outside,) = list_runs(Path("elsewhere"))
    assert outside.id == "elsewhere/seed_0"
    assert find_checkpoint(Path(outside.id)).is_dir()


def test_the_table_is_complete_in_a_pipe_and_shortens_only_experiments_on_a_screen(results: Path) -> None:
    run = trained("an_experiment_with_a_name_that_is_much_longer_than_a_terminal_is_wide_and_goes_on")
    shutil.copytree(run, results / "compare" / "a_vs_b" / "a" / "seed_0")
    shutil.copytree(run, results / "compare" / "a_vs_b" / "b" / "seed_0")
    told = CliRunner().invoke(app, ["runs"], env={"COLUMNS": "40"}).stdout
    assert run.parent.name in told
    found = list_runs(results)
    for width in (40, 110):
        console = Console(width=1000, file=io.StringIO(), record=True)
        console.print(runs_table(found, width))
        lines = [line.rstrip() for line in console.export_text().splitlines()]
        assert {line.split()[0] for line in lines[1:]} == {one.id for one in found}
        assert {line.split()[4] for line in lines[1:]} == {"finished"}
        assert "an_experi" in lines[1]
        assert run.parent.name not in lines[1]
    assert max(map(len, lines)) <= 110


def test_a_name_goes_on_where_the_run_stopped(results: Path) -> None:
    run = trained()
    done = CliRunner().invoke(app, ["run", "--resume", trial_id(run), "--stop-timesteps", "160"])
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == f"results: {run}"
    steps = [json.loads(line)["timesteps_total"] for line in (run / "result.json").read_text().splitlines()]
    assert steps == [32, 64, 96, 128, 160]


def test_a_moved_run_goes_on_and_plays_as_if_it_had_stayed(results: Path, tmp_path: Path) -> None:
    run = trained()
    elsewhere = tmp_path / "other disk" / "renamed"
    shutil.copytree(run, elsewhere)
    for place in (run, elsewhere):
        done = CliRunner().invoke(app, ["run", "--resume", str(place), "--stop-timesteps", "160"])
        assert done.exit_code == 0, done.output
        assert done.stdout.splitlines()[-1] == f"results: {place}"
    shutil.move(run, tmp_path / "moved")
    rewards = [
        [json.loads(line)["hist_stats"]["episode_reward"] for line in (place / "result.json").read_text().splitlines()]
        for place in (tmp_path / "moved", elsewhere)
    ]
    assert rewards[0] == rewards[1]
    assert len(rewards[0]) == 5
    played = []
    for place in (tmp_path / "moved", elsewhere):
        told = CliRunner().invoke(app, ["rollout", str(place), "--episodes", "2"])
        assert told.exit_code == 0, told.output
        played.append([line for line in told.stdout.splitlines() if line.startswith("episode")])
    assert played[0] == played[1]
    assert len(played[0]) >= 2
    assert str(results) not in (elsewhere / "params.json").read_text()
    (found,) = list_runs(tmp_path / "other disk")
    assert (found.state, found.timesteps) == ("finished", 160)


def test_the_command_lists_runs_as_a_table_and_as_json(results: Path) -> None:
    run = trained(goal={"episode_reward_mean": -5.0})
    broken = run.parent / "broken"
    shutil.copytree(run, broken)
    state_file(broken, state="failed", error="TrainingError: the loss became nan.")
    told = CliRunner().invoke(app, ["runs"])
    assert told.exit_code == 0, told.output
    header, first, second, last = told.stdout.splitlines()
    assert header.split() == [
        "id",
        "experiment",
        "algo",
        "seed",
        "state",
        "progress",
        "env",
        "steps",
        "reward",
        "best",
        "goal",
    ]
    assert {first.split()[0], second.split()[0]} == {trial_id(run), "broken"}
    assert "finished" in told.stdout
    assert "met" in first
    assert last == "broken: TrainingError: the loss became nan."
    listed = json.loads(CliRunner().invoke(app, ["runs", str(results), "--json"]).stdout)
    assert {one["state"] for one in listed["runs"]} == {"finished", "failed"}
    (results / "nothing").mkdir()
    assert "no runs in" in CliRunner().invoke(app, ["runs", str(results / "nothing")]).stdout
    with pytest.raises(ConfigError, match="there is no folder"):
        list_runs(results / "nowhere")
