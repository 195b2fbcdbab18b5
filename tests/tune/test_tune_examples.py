"""The examples of tuning run and show what they say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from examples import custom_train_fn, tune_grid_search
from tests.processes import ROOT
from tests.processes import run as marl

pytestmark = [pytest.mark.slow, pytest.mark.ray, pytest.mark.usefixtures("ray_session")]


def test_every_step_size_is_tried_and_the_best_one_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = tune_grid_search.main(5, str(tmp_path))
    assert [(trial.params["lr"], trial.status) for trial in found.trials] == [
        (lr, "TERMINATED") for lr in (0.01, 0.001, 0.0001)
    ]
    assert found.best_trial.score == max(trial.score or -1e9 for trial in found.trials)
    assert capsys.readouterr().out.splitlines()[-1].endswith(str(found.best_checkpoint))


def test_the_second_phase_goes_on_where_the_first_one_ended(tmp_path: Path) -> None:
    found = custom_train_fn.main(2, str(tmp_path))
    for trial in found.trials:
        assert trial.status == "TERMINATED", trial.error
        assert [(r["phase"], r["training_iteration"]) for r in trial.results] == [(1, 1), (1, 2), (2, 3), (2, 4)]
        assert trial.checkpoint == trial.directory / "checkpoints" / "checkpoint_000004"


def test_the_search_of_the_readme_tries_two_step_sizes_twice(tmp_path: Path) -> None:
    keys = yaml.safe_load((ROOT / "examples" / "search.yaml").read_text())
    done = marl("tune", ROOT / "examples" / "search.yaml", "--local-dir", tmp_path, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [trial["status"] for trial in told["trials"]] == ["TERMINATED"] * 4
    assert [trial["params"]["lr"] for trial in told["trials"]] == [0.01, 0.001] * keys["tune"]["num_samples"]
