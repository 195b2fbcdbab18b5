"""Runs that the page would start are checked as the command line checks them, and follow files no further than allowed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from marl.errors import CheckpointError, ConfigError, RunLockedError
from marl.run import execute, raw_scenario
from marl.runs.lock import take_lock
from marl.watch.runs.check import check_resume, check_start, scenarios
from tests.watch.many_runs import params, write_run

OWN = "def make(config):\n    raise AssertionError\n"


def start(scenario: str | Path, *sets: str, **keys: Any) -> None:
    asked = {"scenario": str(scenario), "sets": list(sets), "seed": None, "allow": [], **keys}
    check_start(asked, lambda *_: None)


def test_a_shipped_scenario_with_changes_is_fine() -> None:
    start("two_step_game", "num_workers=0", "algo.lr=0.1", seed=3, stop_iters=5)
    assert "two_step_game" in [one["name"] for one in scenarios({}, lambda *_: None)]


@pytest.mark.parametrize(
    ("scenario", "sets"),
    [
        ("two_step_gamee", []),
        ("two_step_game", ["algo.lrr=0.1"]),
        ("two_step_game", ["algo.lr=fast"]),
        ("two_step_game", ["env=two_step"]),
        ("two_step_game", ["nothing"]),
        ("two_step_game", ["evaluation.interval=0"]),
    ],
)
def test_what_is_wrong_is_told_as_on_the_command_line(scenario: str, sets: list[str]) -> None:
    with pytest.raises(ConfigError) as typed:
        execute(raw_scenario(Path(scenario), None, sets), {}, None, None, False, None)
    with pytest.raises(ConfigError) as clicked:
        start(scenario, *sets)
    assert str(clicked.value) == str(typed.value)


def test_files_name_modules_only_where_they_are_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_module_of_a_stranger.py").write_text(OWN)
    file = tmp_path / "own.yaml"
    file.write_text("env: own_module_of_a_stranger:make\nalgo: ppo\nstop: {training_iteration: 1}\n")
    with pytest.raises(ConfigError, match="--allow own_module_of_a_stranger"):
        start(file)
    assert "own_module_of_a_stranger" not in sys.modules
    file.write_text(
        "imports: [own_module_of_a_stranger]\nenv: two_step_game\nalgo: ppo\nstop: {training_iteration: 1}\n"
    )
    with pytest.raises(ConfigError, match="--allow own_module_of_a_stranger"):
        start(file)
    assert "own_module_of_a_stranger" not in sys.modules
    start(file, allow=["own_module_of_a_stranger"])
    assert "own_module_of_a_stranger" in sys.modules


def test_a_run_that_is_in_use_or_has_no_checkpoint_is_not_resumed(tmp_path: Path) -> None:
    run = tmp_path / "one"
    write_run(run, params(), 3)
    asked = {"directory": str(run), "sets": [], "seed": None, "allow": []}
    with pytest.raises(CheckpointError):
        check_resume(asked, lambda *_: None)
    lock = take_lock(run)
    try:
        with pytest.raises(RunLockedError, match="in use"):
            check_resume(asked, lambda *_: None)
    finally:
        lock.release()
