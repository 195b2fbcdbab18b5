"""Asynchronous successive halving on Ray's scheduler, fresh and after an interruption; Ray itself is not started."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ray.tune.schedulers import FIFOScheduler, TrialScheduler

from marl.runs.files import RunFiles
from marl.tune.journal import RUNNING, STOPPED, TERMINATED, Journal
from marl.tune.objective import Halving, Objective
from marl.tune.ray_trials import make_scheduler, past
from tests.tune.searches import journal_of, plan_of

HALVING = Halving("timesteps_total", 900, 100, 3)  # rungs at 100 and 300
STOP, CONTINUE = TrialScheduler.STOP, TrialScheduler.CONTINUE


def journal(directory: Path, trials: int, mode: str = "max") -> Journal:
    plan = plan_of([{"lr": value} for value in range(trials)], HALVING, Objective("episode_reward_mean", mode))
    return journal_of(directory, plan)


def add(scheduler: Any, index: int) -> Any:
    trial = SimpleNamespace(trial_id=f"t{index}", config={"trial": index})
    scheduler.on_trial_add(None, trial)
    return trial


def played(directory: Path, rewards: list[float], checkpoint: int | None = None) -> None:
    """A run directory with 100 env steps per iteration."""
    directory.mkdir()
    files = RunFiles(directory)
    for number, reward in enumerate(rewards, start=1):
        files.append(
            {"training_iteration": number, "timesteps_total": 100 * number, "episode_reward_mean": reward},
        )
    files.close()
    if checkpoint is not None:
        from marl.runs.checkpoint import write_checkpoint
        from marl.runs.manifest import checkpoint_name

        write_checkpoint(directory / "checkpoints" / checkpoint_name(checkpoint), {"run": {}})


def test_fifo_lets_everybody_finish(tmp_path: Path) -> None:
    assert type(make_scheduler(journal_of(tmp_path, plan_of([{}])))) is FIFOScheduler


def test_who_is_behind_at_a_rung_is_stopped_there(tmp_path: Path) -> None:
    book = journal(tmp_path, 3)
    scheduler = make_scheduler(book)
    first, second, third = (add(scheduler, index) for index in range(3))
    assert scheduler.on_trial_result(None, first, {"clock": 100, "score": 5.0}) == CONTINUE  # nobody to compare with
    assert scheduler.on_trial_result(None, second, {"clock": 50, "score": 1.0}) == CONTINUE  # before the first rung
    assert scheduler.on_trial_result(None, second, {"clock": 100, "score": 1.0}) == STOP
    assert scheduler.on_trial_result(None, third, {"clock": 100}) == CONTINUE  # not evaluated yet
    assert scheduler.on_trial_result(None, third, {"clock": 150, "score": 9.0}) == CONTINUE
    assert scheduler.on_trial_result(None, third, {"clock": 900, "score": 9.0}) == STOP  # its budget is spent
    assert book.halted == {1}


def test_where_less_is_better_the_larger_one_is_behind(tmp_path: Path) -> None:
    scheduler = make_scheduler(journal(tmp_path, 2, mode="min"))
    first, second = add(scheduler, 0), add(scheduler, 1)
    scheduler.on_trial_result(None, first, {"clock": 100, "score": 5.0})
    assert scheduler.on_trial_result(None, second, {"clock": 100, "score": 6.0}) == STOP


def test_after_an_interruption_trials_are_still_compared_with_those_that_had_ended(tmp_path: Path) -> None:
    book = journal(tmp_path, 3)
    played(tmp_path / "TRIAL_0", [5.0, 5.0, 6.0, 6.0])
    played(tmp_path / "TRIAL_1", [2.0])
    book.status[:2] = [TERMINATED, STOPPED]
    scheduler = make_scheduler(book)
    trial = add(scheduler, 2)
    assert (
        scheduler.on_trial_result(None, trial, {"clock": 100, "score": 4.5}) == CONTINUE
    )  # two thirds between 2 and 5: 4
    assert scheduler.on_trial_result(None, trial, {"clock": 300, "score": 5.5}) == STOP  # 6 is the only one there


def test_a_trial_that_goes_on_keeps_its_past_up_to_its_checkpoint(tmp_path: Path) -> None:
    book = journal(tmp_path, 1)
    played(tmp_path / "TRIAL_0", [5.0, 6.0, 7.0], checkpoint=2)
    book.status[0] = RUNNING
    assert past(book, 0) == [{"clock": 100.0, "score": 5.0}, {"clock": 200.0, "score": 6.0}]
    book.status[0] = TERMINATED
    assert [told["clock"] for told in past(book, 0)] == [100.0, 200.0, 300.0]


def test_a_rung_that_was_passed_is_not_asked_for_again(tmp_path: Path) -> None:
    book = journal(tmp_path, 2)
    played(tmp_path / "TRIAL_0", [9.0, 9.0, 9.0])
    played(tmp_path / "TRIAL_1", [8.0, 1.0], checkpoint=2)
    book.status[0] = TERMINATED
    scheduler = make_scheduler(book)
    trial = add(scheduler, 1)
    assert scheduler.on_trial_result(None, trial, {"clock": 200, "score": 1.0}) == CONTINUE
