"""Whole searches on Ray: trials side by side, schedulers, failures, functions, what comes out."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import pytest

import marl
from marl.errors import CheckpointError, ConfigError, ResourceError
from marl.runs.checkpoint import find_checkpoint
from marl.runs.files import RunFiles
from marl.runs.result import without_wall_clock
from marl.tune import grid_search
from tests.tune import functions
from tests.tune.searches import LRS, SMALL

pytestmark = [pytest.mark.slow, pytest.mark.ray, pytest.mark.usefixtures("ray_session")]


def function_search(function: Any, directory: Path, **more: Any) -> marl.tune.Tuning:
    keys = {"metric": "value", "resources_per_trial": {"cpu": 0.5}, "verbose": 0, **more}
    return marl.tune.run(function, local_dir=directory, **keys)


def test_a_grid_of_three_values_gives_three_runs_and_the_best_one_plays(tmp_path: Path) -> None:
    config = {**SMALL, "lr": grid_search(LRS), "evaluation": {"interval": 1, "episodes": 2}, "seed": 3}
    found = marl.tune.run("PPO", config=config, stop={"training_iteration": 2}, local_dir=tmp_path, verbose=0)
    assert [trial.params for trial in found.trials] == [{"lr": lr} for lr in LRS]
    assert [trial.status for trial in found.trials] == ["TERMINATED"] * 3
    for trial, lr in zip(found.trials, LRS, strict=True):
        assert f"_lr={lr}_" in trial.directory.name
        assert trial.directory.parent == found.directory
        assert [result["training_iteration"] for result in trial.results] == [1, 2]
        assert json.loads((trial.directory / "params.json").read_text())["algo"]["lr"] == lr
        assert trial.config["lr"] == lr
    assert found.best_trial.score == max(trial.score or 0 for trial in found.trials)
    assert found.best_config["lr"] == found.best_trial.params["lr"]
    assert found.best_checkpoint is not None
    assert find_checkpoint(found.best_checkpoint) == found.best_trial.directory / "checkpoints" / "best"
    # The same run without tuning, number for number.
    with marl.Trainer("ppo", config={**config, "lr": LRS[1]}) as trainer:
        alone = [without_wall_clock(trainer.train()) for _ in range(2)]
    tuned = [without_wall_clock(result) for result in found.trials[1].results]
    for field in ("episode_reward_mean", "policy_reward_mean", "episodes_total", "evaluation"):
        assert [result[field] for result in tuned] == [json.loads(json.dumps(result[field])) for result in alone]
    left = {path.name for path in found.directory.iterdir()} - {trial.directory.name for trial in found.trials}
    assert left == {"tune.json"}  # nothing of Ray Tune's own


def test_a_trial_has_ray_workers_of_its_own(tmp_path: Path) -> None:
    config = {**SMALL, "num_workers": 1, "env": "two_step_game"}
    found = marl.tune.run("ppo", config=config, stop={"training_iteration": 1}, local_dir=tmp_path, verbose=0)
    assert [trial.status for trial in found.trials] == ["TERMINATED"], found.trials[0].error
    assert found.trials[0].last_result["num_healthy_workers"] == 1


def test_four_trials_on_two_cpus_leave_two_pending(tmp_path: Path) -> None:
    found = marl.tune.run(
        functions.look_around,
        config={"number": grid_search([0, 1, 2, 3]), "together": 2},
        metric="running",
        local_dir=tmp_path,
        verbose=0,
    )
    assert [trial.status for trial in found.trials] == ["TERMINATED"] * 4
    first = found.trials[0].last_result
    assert (first["running"], first["pending"]) == (2, 2)
    assert max(trial.last_result["running"] for trial in found.trials) == 2


def test_asha_stops_the_weak_and_lets_the_strong_finish(tmp_path: Path) -> None:
    found = function_search(
        functions.climb,
        tmp_path,
        config={"slope": grid_search([3.0, 1.0, 5.0])},
        stop={"training_iteration": 9},
        scheduler="asha",
        max_concurrent_trials=1,  # one after the other, so that who is compared with whom does not depend on luck
    )
    assert [trial.status for trial in found.trials] == ["TERMINATED", "STOPPED", "TERMINATED"]
    assert [len(trial.results) for trial in found.trials] == [9, 1, 9]  # the first rung is at a ninth of the budget
    assert found.best_trial.params == {"slope": 5.0}
    assert found.best_trial.score == 45.0


def test_a_population_comes_to_the_same_copies_however_many_trials_run_at_the_same_time(tmp_path: Path) -> None:
    lrs = [1e-6, 1e-4, 0.1, 1e30]  # the last one fails
    config = {**SMALL, "lr": grid_search(lrs), "num_sgd_iter": 2, "checkpoint_freq": 1}
    found = []
    for together in (1, 2):
        one = marl.tune.run(
            "ppo",
            config=config,
            stop={"training_iteration": 5},
            scheduler="pbt",
            perturbation_interval=2,
            mutations={"lr": {"loguniform": [1e-6, 1.0]}},
            max_concurrent_trials=together,
            local_dir=tmp_path,
            verbose=0,
        )
        assert [trial.status for trial in one.trials] == ["TERMINATED"] * 3 + ["ERROR"]
        found.append(one)
    lines = [(one.directory / "generations.jsonl").read_text() for one in found]
    assert lines[0] == lines[1]
    assert [generation.failed for generation in found[0].generations] == [(3,), (3,)]
    assert any(generation.copies for generation in found[0].generations)
    assert "lr" in found[0].failed[0].error
    for one, other in zip(found[0].trials, found[1].trials, strict=True):
        assert [result["episode_reward_mean"] for result in one.results] == [
            result["episode_reward_mean"] for result in other.results
        ]
    left = {path.name for path in found[0].directory.iterdir()} - {one.directory.name for one in found[0].trials}
    assert left == {"tune.json", "generations.jsonl", "schedule.yaml"}


def test_a_process_that_dies_takes_one_trial_out_of_its_population_and_the_others_go_on(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    config = {**SMALL, "env": functions.Trapdoor, "env_config": {"marker": str(marker)}, "checkpoint_freq": 1}
    found = marl.tune.run(
        "ppo",
        config=config,
        stop={"training_iteration": 3},
        scheduler="pbt",
        num_samples=3,
        perturbation_interval=1,
        mutations={"lr": {"loguniform": [1e-3, 1.0]}},
        max_concurrent_trials=1,  # so that the first one dies, and another process has to come for the others
        local_dir=tmp_path,
        verbose=0,
    )
    assert marker.exists()
    assert [trial.status for trial in found.trials] == ["ERROR", "TERMINATED", "TERMINATED"]
    assert found.failed[0].error.startswith("its process died without a word")
    assert [generation.failed for generation in found.generations] == [(0,), (0,)]
    assert [len(trial.results) for trial in found.trials[1:]] == [3, 3]


def test_a_failed_trial_is_told_and_does_not_touch_the_others_and_resuming_tries_it_again(tmp_path: Path) -> None:
    config = {"lucky": grid_search([True, False])}
    found = function_search(functions.stumble, tmp_path, config=config)
    assert [trial.status for trial in found.trials] == ["TERMINATED", "ERROR"]
    assert [trial.index for trial in found.failed] == [1]
    assert found.trials[1].error == "ValueError: bad luck"
    assert found.trials[0].score == 2.0
    before = (found.trials[0].directory / "result.json").stat().st_mtime_ns
    left = found.trials[0].directory / "run.lock"  # of a process that was killed
    gone = {"pid": 1, "hostname": platform.node(), "process_began": 0.0, "since": 0.0, "token": "gone"}
    left.write_text(json.dumps(gone))
    again = function_search(functions.stumble, tmp_path, config=config, resume=found.directory)
    assert not left.exists()
    assert [trial.directory for trial in again.trials] == [trial.directory for trial in found.trials]
    assert [trial.status for trial in again.trials] == ["TERMINATED", "ERROR"]
    assert (again.trials[0].directory / "result.json").stat().st_mtime_ns == before  # it had ended, and was left alone
    assert [len(trial.results) for trial in again.trials] == [2, 1]
    with pytest.raises(CheckpointError, match="is another search"):
        function_search(functions.stumble, tmp_path, config={"lucky": True}, resume=found.directory)


def test_a_failed_trial_may_be_started_again(tmp_path: Path) -> None:
    found = function_search(functions.stumble_once, tmp_path, max_failures=1)
    assert [trial.status for trial in found.trials] == ["TERMINATED"], found.trials[0].error
    assert [result["value"] for result in found.trials[0].results] == [1.0, 2.0]


def test_a_function_runs_a_curriculum_and_reports_it(tmp_path: Path) -> None:
    found = function_search(
        functions.curriculum, tmp_path, config={"num_workers": 1}, metric="episode_reward_max", stop={"phase": 3}
    )
    assert [trial.status for trial in found.trials] == ["TERMINATED"], found.trials[0].error
    results = found.trials[0].results
    assert [result["phase"] for result in results] == sorted(result["phase"] for result in results)
    assert results[-1]["phase"] == 3
    assert results[-1]["episode_reward_max"] == 12.0  # four steps that pay 3 each
    assert RunFiles(found.trials[0].directory).results() == results


def test_what_never_fits_and_wrong_arguments_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match="asks for 6 CPU, but Ray has 2"):
        marl.tune.run("ppo", config={**SMALL, "num_workers": 5}, stop={"training_iteration": 1}, local_dir=tmp_path)
    with pytest.raises(ConfigError, match="Did you mean 'num_samples'"):
        function_search(functions.climb, tmp_path, num_sample=2)
    with pytest.raises(ConfigError, match="verbose is 7"):
        function_search(functions.climb, tmp_path, verbose=7)
    assert list(tmp_path.iterdir()) == []
