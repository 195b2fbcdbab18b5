"""What is decided, and refused, before any trial starts; and what tune.json keeps of it."""

from __future__ import annotations

import json
import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from marl.cli.tune import closing_lines
from marl.errors import CheckpointError, ConfigError, UserError
from marl.runs.saved import PLACES_OF_NEW_RUNS, check_given_again
from marl.scenario.load import parse_set
from marl.tune.config import TuneConfig, tune_config
from marl.tune.journal import ERROR, INTERRUPTED, PENDING, RUNNING, STOPPED, TERMINATED, Journal, read_journal
from marl.tune.objective import Halving, Objective, make_halving
from marl.tune.outcome import outcome_of
from marl.tune.plan import as_before, new_experiment, plan_functions, plan_scenarios
from tests.forgeries import write_sealed
from tests.tune.searches import journal_of, plan_of, small


def test_three_values_are_three_trials_with_the_value_in_their_name() -> None:
    plan = plan_scenarios(small(), TuneConfig(), "here")
    names = [str(trial.directory) for trial in plan.trials]
    for index, (name, value) in enumerate(zip(names, ("0.001", "0.01", "0.1"), strict=True)):
        assert re.fullmatch(rf"PPO_two_step_game_\w{{5}}_{index:05d}_lr={value}_[\d_-]+", name)
    assert [trial.config["lr"] for trial in plan.trials] == [0.001, 0.01, 0.1]


def test_a_stop_field_may_be_written_with_slashes() -> None:
    keys = small(stop={"policy_reward_mean/default_policy": 7.5, "training_iteration": 3})
    assert plan_scenarios(keys, TuneConfig(), "here").stop == {
        "policy_reward_mean.default_policy": 7.5,
        "training_iteration": 3,
    }


def test_trials_are_compared_by_what_the_scenario_is_evaluated_by() -> None:
    def objective(evaluation: dict[str, Any], **options: Any) -> Objective:
        return plan_scenarios(small(evaluation=evaluation), TuneConfig(**options), "here").objective

    assert objective({"interval": 0}) == Objective("episode_reward_mean", "max", keeps_best=False)
    assert objective({"interval": 1}) == Objective("evaluation.episode_reward_mean", "max", keeps_best=True)
    chosen = objective({"interval": 1}, metric="episode_len_mean", mode="min")
    assert chosen == Objective("episode_len_mean", "min", keeps_best=False)
    kuhn = {"env": "kuhn_poker", "exploitability": {"interval": 1}, "stop": {"training_iteration": 1}, "algo": "ppo"}
    assert plan_scenarios(kuhn, TuneConfig(metric="exploitability/nash_conv"), "here").objective.mode == "min"


@pytest.mark.parametrize(
    ("changes", "options", "part"),
    [
        ({"stop": {}}, {}, "when should a trial stop"),
        ({"stop": {"reward": 3}}, {}, "no result has a field 'reward'"),
        ({"lr": {"grid_search": [0.1, -1.0]}}, {}, "trial with lr=-1.0"),
        ({"fcnet_hidens": [8]}, {}, "fcnet_hiddens"),
        ({"env": "two_stepgame"}, {}, "two_step_game"),
        ({}, {"metric": "rewards"}, "metric: no result has a field 'rewards'"),
        ({}, {"metric": "evaluation.episode_reward_mean"}, "evaluation.interval is 0"),
        ({"stop": {"episode_reward_mean": 5}}, {"scheduler": "asha"}, "asha has to know how long a trial may be"),
        ({}, {"scheduler": "asha", "grace_period": 4}, "trials end at 3"),
        ({}, {"scheduler": "asha", "time_attr": "timesteps_total"}, "stop has no timesteps_total"),
        ({"num_workers": 2}, {"resources_per_trial": {"extra_cpu": 1}}, "Give at least 2"),
    ],
)
def test_mistakes_are_told_before_any_trial_starts(changes: dict[str, Any], options: dict[str, Any], part: str) -> None:
    with pytest.raises(UserError, match=re.escape(part)):
        plan_scenarios(small(**changes), TuneConfig(**options), "here")


@pytest.mark.parametrize(
    ("keys", "part"),
    [
        ({"num_sample": 3}, "Did you mean 'num_samples'?"),
        ({"scheduler": "pbt"}, "scheduler"),
        ({"grace_period": 3}, "grace_period: 3 needs scheduler: asha, but scheduler is fifo"),
        ({"resources_per_trial": {"cpus": 1}}, "unknown resource 'cpus'"),
        ({"num_samples": 0}, "num_samples"),
    ],
)
def test_wrong_options_are_told_by_name(keys: dict[str, Any], part: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(part)):
        tune_config(keys, "here")


def test_halving_spends_the_budget_in_rungs_by_default() -> None:
    stop = {"timesteps_total": 900.0, "training_iteration": 50.0}
    assert make_halving(TuneConfig(scheduler="asha"), stop) == Halving("timesteps_total", 900.0, 100.0, 3.0)
    chosen = TuneConfig(scheduler="asha", time_attr="training_iteration", grace_period=5, reduction_factor=2)
    assert make_halving(chosen, stop) == Halving("training_iteration", 50.0, 5.0, 2.0)
    assert make_halving(TuneConfig(), stop) is None


def test_a_function_gets_seeds_only_if_it_has_one() -> None:
    def train(config: dict[str, Any]) -> None: ...

    options = TuneConfig(num_samples=2)
    assert [t.config for t in plan_functions(train, {"a": 1}, {}, options).trials] == [{"a": 1}, {"a": 1}]
    seeded = plan_functions(train, {"seed": 5}, {}, options)
    assert [t.config for t in seeded.trials] == [{"seed": 5}, {"seed": 6}]


def test_every_search_has_a_folder_of_its_own(tmp_path: Path) -> None:
    folders = [new_experiment(tmp_path, "a game") for _ in range(3)]
    assert len(set(folders)) == 3
    assert all(folder.is_dir() and folder.parent == tmp_path for folder in folders)
    assert folders[0].name.startswith("a_game_tune_")


def test_a_search_below_a_link_to_nowhere_is_refused_instead_of_trying_names_for_ever(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match=r"cannot create a folder in .*link: File exists"):
        new_experiment(tmp_path / "link", "a game")


def test_a_journal_that_is_recalled_opens_what_had_not_ended(tmp_path: Path) -> None:
    plan = plan_of([{"lr": value} for value in range(6)])
    journal = journal_of(tmp_path, plan)
    for index, status in enumerate([TERMINATED, STOPPED, ERROR, RUNNING, PENDING, INTERRUPTED]):
        journal.note(index, status, "why" if status == ERROR else "")
    stored = read_journal(tmp_path)
    (tmp_path / "again").mkdir()
    again = journal_of(tmp_path / "again", plan)
    again.recall(stored)
    assert [trial.index for trial in again.open_trials] == [2, 3, 4, 5]
    stored["stop"] = {
        "training_iteration": 5
    }  # now trials run longer: regular ends are open again, stopped ones are not
    again.recall(stored)
    assert [trial.index for trial in again.open_trials] == [0, 2, 3, 4, 5]


def test_another_search_is_not_gone_on_with(tmp_path: Path) -> None:
    stored = json.loads(json.dumps([{"params": {"lr": 0.1}, "trial_id": "x_00000", "directory": "OLD"}]))
    same = plan_of([{"lr": 0.1}])
    assert as_before(same.trials, stored, tmp_path)[0].directory == Path("OLD")
    with pytest.raises(CheckpointError, match="is another search"):
        as_before(plan_of([{"lr": 0.2}]).trials, stored, tmp_path)


def test_a_folder_without_a_search_and_a_damaged_one_are_told(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"holds no tune\.json"):
        read_journal(tmp_path)
    inner = tmp_path / "inner"
    inner.mkdir()
    journal = journal_of(inner, plan_of([{"lr": 1}]))
    with pytest.raises(CheckpointError, match=f"Did you mean {re.escape(str(inner))}"):
        read_journal(tmp_path)
    file = inner / "tune.json"
    good = file.read_text()
    for bad in ("{", "[]", '{"version": 1, "trials": []}', good.replace('"version": 2', '"version": 3')):
        file.write_text(bad)
        with pytest.raises(CheckpointError, match=r"tune\.json is"):
            read_journal(inner)
    write_sealed(file, json.loads(good.replace("TRIAL_0", "../../elsewhere")))
    with pytest.raises(CheckpointError, match="no name of a run directory"):
        read_journal(inner)
    journal.write()
    assert read_journal(inner)["trials"][0]["params"] == {"lr": 1}


def test_the_command_to_go_on_gives_places_again_and_can_be_typed(tmp_path: Path) -> None:
    keys = {
        "env": "openspiel:efg_game",
        "env_config": {"filename": {"grid_search": ["/a b.efg", "/c.efg"]}, "rounds": 3},
        "load": {"default_policy": "/runs/one"},
        "output": "/out put",
    }
    directory = tmp_path / "my search"
    directory.mkdir()
    journal = Journal(directory, {"trainable": "scenario", "keys": keys}, plan_of([{"lr": 1}]))
    journal.note(0, INTERRUPTED)
    (line,) = [line for line in closing_lines(outcome_of(journal)) if "Go on with" in line]
    words = shlex.split(line.partition("Go on with: ")[2])
    assert words[:4] == ["marl", "tune", "--resume", str(directory)]
    sets = [word for before, word in pairwise(words) if before == "--set"]
    given = dict(parse_set(text) for text in sets)
    check_given_again(keys, given, directory, PLACES_OF_NEW_RUNS)
    assert given == {
        "output": "/out put",
        "load": {"default_policy": "/runs/one"},
        "env_config.filename": {"grid_search": ["/a b.efg", "/c.efg"]},
    }
