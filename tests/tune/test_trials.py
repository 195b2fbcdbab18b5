"""One trial without Ray: a scenario's, and a training function's with its reporter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from marl.errors import ConfigError
from marl.runs.checkpoint import find_checkpoint
from marl.runs.files import RunFiles
from marl.runs.result import without_wall_clock
from marl.scenario.load import compose
from marl.training.trainer import Trainer
from marl.tune.objective import Objective
from marl.tune.outcome import TrialOutcome
from marl.tune.reporter import EndOfTrial, Reporter, call, check_function
from marl.tune.trial import RunningTrial, read_error, write_error
from tests.tune.searches import SMALL

KEYS = {**SMALL, "lr": 0.01, "stop": {"training_iteration": 4}}
REWARD = Objective("episode_reward_mean")


def begin(directory: Path, **changes: Any) -> RunningTrial:
    return RunningTrial({**KEYS, **changes}, directory, "abcde_00000", REWARD, "timesteps_total")


def numbers(directory: Path) -> list[dict[str, Any]]:
    found = [without_wall_clock(result) for result in RunFiles(directory).results()]
    return [json.loads(json.dumps({k: v for k, v in r.items() if k not in ("config", "info")})) for r in found]


def test_a_trial_is_the_same_run_as_without_tuning(tmp_path: Path) -> None:
    running = begin(tmp_path / "trial")
    told = [running.step() for _ in range(4)]
    running.close()
    with Trainer(scenario=compose(KEYS), directory=tmp_path / "plain") as trainer:
        results = [trainer.train() for _ in range(4)]
    assert [t["score"] for t in told] == [r["episode_reward_mean"] for r in results]
    assert [t["clock"] for t in told] == [64, 128, 192, 256]
    assert [t["done"] for t in told] == [False, False, False, True]
    assert numbers(tmp_path / "trial") == numbers(tmp_path / "plain")
    made = {path.name for path in (tmp_path / "trial").iterdir()}
    assert made >= {"params.json", "params.yaml", "result.json", "progress.csv", "learning_curve.png", "checkpoints"}
    assert find_checkpoint(tmp_path / "trial").name == "checkpoint_000004"
    assert RunFiles(tmp_path / "trial").results()[0]["trial_id"] == "abcde_00000"


def test_a_trial_that_was_killed_goes_on_at_its_checkpoint_as_if_nothing_had_happened(tmp_path: Path) -> None:
    killed = begin(tmp_path / "killed", checkpoint_freq=2)
    for _ in range(3):  # the third iteration comes after the last checkpoint
        killed.step()
    killed.trainer.stop()
    again = begin(tmp_path / "killed", checkpoint_freq=2)
    assert again.trainer.iteration == 2
    assert again.score == again.trainer.last_result["episode_reward_mean"]
    again.step()
    assert again.step()["done"]
    again.close()
    straight = begin(tmp_path / "straight", checkpoint_freq=2)
    for _ in range(4):
        straight.step()
    straight.close()
    assert numbers(tmp_path / "killed") == numbers(tmp_path / "straight")


def test_a_trial_that_had_ended_only_says_so(tmp_path: Path) -> None:
    first = begin(tmp_path / "x")
    for _ in range(4):
        first.step()
    first.close()
    again = begin(tmp_path / "x")
    assert again.step()["done"]
    again.close()
    assert len(RunFiles(tmp_path / "x").results()) == 4


def test_a_trial_without_a_checkpoint_begins_anew(tmp_path: Path) -> None:
    killed = begin(tmp_path / "x", checkpoint_freq=0)
    killed.step()
    killed.trainer.stop()
    again = begin(tmp_path / "x", checkpoint_freq=0)
    assert again.step()["shown"]["training_iteration"] == 1
    again.close()
    assert [r["training_iteration"] for r in RunFiles(tmp_path / "x").results()] == [1]


def test_between_evaluations_the_score_is_the_best_one_and_best_plays_it(tmp_path: Path) -> None:
    objective = Objective("evaluation.episode_reward_mean", keeps_best=True)
    keys = {**KEYS, "evaluation": {"interval": 2, "episodes": 2}}
    running = RunningTrial(keys, tmp_path / "x", "abcde_00000", objective, "training_iteration")
    told = [running.step() for _ in range(4)]
    running.close()
    outcome = TrialOutcome(0, "abcde_00000", tmp_path / "x", {}, keys, "TERMINATED", "", objective)
    evaluated = [r["evaluation"]["episode_reward_mean"] for r in outcome.results if "evaluation" in r]
    assert len(evaluated) == 2
    assert "score" not in told[0]
    assert told[1]["score"] == told[2]["score"] == evaluated[0]
    assert outcome.score == told[3]["score"] == max(evaluated)
    assert outcome.checkpoint == tmp_path / "x" / "checkpoints" / "best"


def test_the_score_is_the_newest_value_or_the_largest_where_best_is_kept_by_it() -> None:
    results = [{"x": 3.0}, {"x": 5.0}, {}, {"x": 4.0}, {"x": None}]
    newest, largest = Objective("x", "min"), Objective("x", keeps_best=True)
    assert newest.scored(results) == {"x": 4.0}
    assert largest.scored(results) == {"x": 5.0}
    assert newest.scored([{}]) is None
    scores: dict[str, float | None] = {"newest": None, "largest": None}
    for result in results:
        scores = {"newest": newest.after(scores["newest"], result), "largest": largest.after(scores["largest"], result)}
    assert scores == {"newest": 4.0, "largest": 5.0}


def test_an_error_is_left_where_it_is_found(tmp_path: Path) -> None:
    assert read_error(tmp_path).startswith("its process died")
    write_error(tmp_path, ConfigError("a sentence"))
    assert read_error(tmp_path) == "a sentence"
    write_error(tmp_path, ZeroDivisionError("division by zero"))
    assert read_error(tmp_path) == "ZeroDivisionError: division by zero"


# -- training functions ------------------------------------------------------------------------------------------------


def reporter(directory: Path, sent: list[dict[str, Any]], **stop: float) -> Reporter:
    return Reporter({"a": 1}, directory, "abcde_00000", Objective("value"), "training_iteration", stop, sent.append)


def test_a_reporter_fills_in_what_is_missing_writes_it_down_and_stops_at_any_field(tmp_path: Path) -> None:
    sent: list[dict[str, Any]] = []
    closed = []

    def train(config: dict[str, Any], report: Reporter) -> None:
        try:
            for step in range(100):
                report(value=config["a"] * step, inner={"depth": 2.0 * step})
        finally:
            closed.append(True)

    call(train, {"a": 1}, reporter(tmp_path, sent, **{"inner.depth": 4.0}))
    assert closed == [True]
    assert [told["score"] for told in sent] == [0.0, 1.0, 2.0]
    assert [told["clock"] for told in sent] == [1, 2, 3]
    results = RunFiles(tmp_path).results()
    assert [result["done"] for result in results] == [False, False, True]
    assert results[0]["config"] == {"a": 1}
    assert results[2]["time_total_s"] >= results[1]["time_total_s"] > 0
    assert json.loads((tmp_path / "params.json").read_text()) == {"a": 1}


def test_what_a_function_gives_back_is_its_last_result(tmp_path: Path) -> None:
    sent: list[dict[str, Any]] = []
    call(lambda config: {"value": 3 * config["a"]}, {"a": 2}, reporter(tmp_path, sent))
    assert [told["score"] for told in sent] == [6.0]


def test_done_ends_a_function(tmp_path: Path) -> None:
    with pytest.raises(EndOfTrial):
        reporter(tmp_path, [])(value=1.0, done=True)


def test_a_function_that_saves_can_go_on(tmp_path: Path) -> None:
    def train(config: dict[str, Any], report: Reporter) -> None:
        with Trainer("ppo", config={**SMALL, "lr": 0.01}) as trainer:
            if report.checkpoint is not None:
                trainer.restore(report.checkpoint)
            for _ in range(2):
                result = trainer.train()
                report(**result, value=result["training_iteration"])
                report.save(trainer)

    for _ in range(2):
        call(train, {}, reporter(tmp_path, []))
    assert [result["training_iteration"] for result in RunFiles(tmp_path).results()] == [1, 2, 3, 4]


def test_a_function_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"train\(config, reporter\)"):
        check_function(lambda: None)
    with pytest.raises(ConfigError, match=r"train\(config, reporter\)"):
        check_function(lambda a, b, c: None)
    check_function(lambda config: None)
    check_function(lambda config, reporter, more=1: None)
