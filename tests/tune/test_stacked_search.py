"""``marl tune FILE --stacked``: a search in one process, in which trials of other learning rates and seeds learn together."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from marl.errors import ConfigError
from marl.runs.checkpoint import find_checkpoint, read_part
from marl.scenario.load import compose
from marl.training.trainer import Trainer
from marl.tune.config import TuneConfig
from marl.tune.journal import Journal
from marl.tune.plan import plan_scenarios
from marl.tune.search import grid_search
from marl.tune.stacked import play_stacked, stacks_of
from marl.tune.sweep import run, search_scenario
from tests.command import marl
from tests.training.own_callbacks import StopsInEvaluation
from tests.tune.searches import SMALL, small


def test_trials_that_differ_in_rates_and_seeds_alone_are_one_stack() -> None:
    keys = small(fcnet_hiddens=grid_search([[8], [16]]))
    options = TuneConfig(num_samples=2, stacked=True)
    plan = plan_scenarios(keys, options, "here")
    found = [[trial.index for trial in stack] for stack in stacks_of(plan, plan.trials)]
    assert sorted(map(len, found)) == [6, 6]
    for stack in stacks_of(plan, plan.trials):
        assert len({str(trial.params["fcnet_hiddens"]) for trial in stack}) == 1
    few = plan_scenarios(keys, TuneConfig(num_samples=2, stacked=True, max_concurrent_trials=4), "here")
    assert sorted(map(len, stacks_of(few, few.trials))) == [2, 2, 4, 4]


def test_a_trial_of_a_stacked_search_learns_what_a_stacked_run_learns(tmp_path: Path) -> None:
    found = search_scenario(small(), TuneConfig(stacked=True), "here", "s", tmp_path, verbose=0)
    assert [trial.status for trial in found.trials] == ["TERMINATED"] * 3
    assert [len(trial.results) for trial in found.trials] == [3, 3, 3]
    for trial in found.trials:
        assert (trial.directory / "learning_curve.png").exists()
    last = found.trials[2]
    with Trainer(scenario=compose({**small(), "lr": last.params["lr"], "stacked": True})) as alone:
        for _ in range(3):
            alone.train()
        for name, array in read_part(find_checkpoint(last.directory), "policies")["default_policy"].items():
            assert np.array_equal(array, alone.get_weights()["default_policy"][name])


def test_after_ctrl_c_a_stacked_search_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_scenarios(small(checkpoint_freq=1), TuneConfig(stacked=True), "here")
    journal = Journal(tmp_path, {"trainable": "scenario", "keys": small(checkpoint_freq=1)}, plan)
    journal.write()
    note = Journal.note

    def press(self: Journal, index: int, status: str, error: str = "") -> None:
        note(self, index, status, error)
        if (index, status) == (2, "RUNNING"):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Journal, "note", press)
    play_stacked(journal, verbose=1)
    monkeypatch.undo()
    assert capsys.readouterr().out.count("stopping all trials after this iteration; press Ctrl-C again to stop") == 1
    assert set(journal.status) == {"INTERRUPTED"}
    assert journal.interrupted
    found = search_scenario(small(checkpoint_freq=1), TuneConfig(stacked=True), "here", "s", None, tmp_path, verbose=0)
    assert [len(trial.results) for trial in found.trials] == [3, 3, 3]
    assert not found.interrupted


def test_ctrl_c_in_an_evaluation_breaks_off_those_of_all_trials_and_they_are_made_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watched = "tests.training.own_callbacks:StopsInEvaluation"
    keys = {**small(stop={"training_iteration": 2}), "evaluation": {"interval": 1, "episodes": 2}, "callbacks": watched}
    options = TuneConfig(stacked=True)
    straight = search_scenario(keys, options, "here", "s", tmp_path, verbose=0)
    monkeypatch.setattr(StopsInEvaluation, "armed", True)
    monkeypatch.setattr(StopsInEvaluation, "begun", ())
    found = search_scenario(keys, options, "here", "s", tmp_path, verbose=1)
    assert StopsInEvaluation.begun == (0,)  # nobody waits for those of the other two trials
    assert "stopping; evaluations are broken off, and made when the search goes on" in capsys.readouterr().out
    assert [trial.status for trial in found.trials] == ["INTERRUPTED"] * 3
    assert [len(trial.results) for trial in found.trials] == [0, 0, 0]  # no iteration is over
    again = search_scenario(keys, options, "here", "s", None, found.directory, verbose=0)
    for trial, other in zip(again.trials, straight.trials, strict=True):
        assert [one["evaluation"] for one in trial.results] == [one["evaluation"] for one in other.results]
        for name, array in read_part(find_checkpoint(trial.directory), "policies")["default_policy"].items():
            assert np.array_equal(
                array, read_part(find_checkpoint(other.directory), "policies")["default_policy"][name]
            )


def test_a_trial_that_fails_does_not_take_the_others_down(tmp_path: Path) -> None:
    file = tmp_path / "search.yaml"
    file.write_text(yaml.safe_dump({**SMALL, "stop": {"training_iteration": 2}}))
    done = marl("tune", file, "--set", "lr={grid_search: [0.001, 1.0e+30]}", "--stacked", "--local-dir", tmp_path)
    assert done.code == 1
    assert "trial 00001 failed: the " in done.out
    assert "best trial: 00000" in done.out
    assert done.out.splitlines()[-1].startswith("results: ")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"scheduler": "asha"}, "stacked: true needs scheduler: fifo, pbt or schedule"),
        ({"max_failures": 1}, "stacked: true needs max_failures: 0"),
        ({"resources_per_trial": {"cpu": 1}}, "stacked: true needs no resources_per_trial"),
        ({"num_cpus": 2}, "starts no Ray"),
    ],
)
def test_what_a_search_in_one_process_cannot_do_is_refused(options: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        run("ppo", config=small(), local_dir=tmp_path, stacked=True, **options)
    assert told in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_functions_and_algorithms_that_do_not_stack_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="training function of your own"):
        run(lambda config, reporter: None, config={}, local_dir=tmp_path, stacked=True)
    dqn = {"env": "two_step_game", "lr": grid_search([0.1, 0.2]), "stop": {"training_iteration": 1}}
    with pytest.raises(ConfigError, match="learns by dqn, whose updates cannot be stacked"):
        run("dqn", config=dqn, local_dir=tmp_path, stacked=True)
    assert not list(tmp_path.iterdir())
