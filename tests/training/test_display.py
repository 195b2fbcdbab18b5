"""What a person sees: golden lines, no more than one a second, and tables that fit the terminal."""

from __future__ import annotations

import io
import math
import re
from typing import Any

import pytest
from rich.console import Console

from marl.training.display import LiveDisplay, PlainDisplay, Progress, Quiet, make_display, plain_line

HALF = Progress(0.5, "timesteps_total 500/1000")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def result(iteration: int, reward: float | None = 7.5, **more: Any) -> dict[str, Any]:
    return {
        "training_iteration": iteration,
        "timesteps_total": 1000 * iteration,
        "timesteps_this_iter": 1000,
        "time_this_iter_s": 1 / 12,
        "time_total_s": 0.4 * iteration,
        "episodes_total": 500 * iteration,
        "episode_reward_mean": reward,
        "episode_len_mean": 2.0,
        "policy_reward_mean": {"team": reward},
        **more,
    }


def live(width: int, results: list[dict[str, Any]], progress: Progress = HALF) -> str:
    stream = Terminal()
    console = Console(file=stream, width=width, height=40, force_terminal=True, color_system=None)
    display = LiveDisplay(console)
    display.start(["env: two_step_game [odd]", "results: somewhere"])
    for line in results:
        display.update(line, progress)
    display.note("worker 1 was replaced [/b]")
    display.finish(["results: " + "x" * 150])
    return re.sub(r"\x1b\[[?\d;]*[A-Za-z]|\r", "", stream.getvalue())  # without colours and cursor movements


def test_the_plain_display_prints_these_lines() -> None:
    stream = io.StringIO()
    display = PlainDisplay(stream, clock=iter(range(0, 100, 10)).__next__)
    display.start(["env: two_step_game", "policies: team (2 agents)"])
    display.update(result(1, None, episode_len_mean=None), HALF)
    display.update(result(2, math.nan, time_this_iter_s=0.0), HALF)
    display.update(result(3, evaluation={"episode_reward_mean": 8.0}), HALF)
    display.note("worker 1 was replaced")
    display.update(result(4, -0.126, policy_reward_mean={"wolves": 10, "sheep": None}), HALF)
    display.finish(["goal reached", "results: somewhere"])
    assert stream.getvalue() == (
        "env: two_step_game\n"
        "policies: team (2 agents)\n"
        "iter 1  steps 1000  reward -  team -  eval -  len -  12000 steps/s  0.4s\n"
        "iter 2  steps 2000  reward -  team -  eval -  len 2.0  - steps/s  0.8s\n"
        "iter 3  steps 3000  reward 7.50  team 7.50  eval 8.00  len 2.0  12000 steps/s  1.2s\n"
        "worker 1 was replaced\n"
        "iter 4  steps 4000  reward -0.13  wolves 10.00  sheep -  eval -  len 2.0  12000 steps/s  1.6s\n"
        "goal reached\n"
        "results: somewhere\n"
    )


def test_the_evaluation_is_shown_by_the_metric_of_the_run() -> None:
    evaluation = {"episode_reward_mean": 0.0, "policy_reward_mean": {"shared": 0.85, "random": -0.85}}
    measured = {"evaluation": {"metric": "policy_reward_mean.shared"}}
    assert "eval 0.85 " in plain_line(result(1, evaluation=evaluation, config=measured))
    assert "eval 0.00 " in plain_line(result(1, evaluation=evaluation))


def test_plain_lines_come_once_a_second_except_the_first_the_last_and_evaluations() -> None:
    now = 0.0
    stream = io.StringIO()
    display = PlainDisplay(stream, clock=lambda: now)
    for iteration in range(1, 30):
        evaluation = {"evaluation": {"episode_reward_mean": 8.0}} if iteration == 15 else {}
        display.update(result(iteration, **evaluation), HALF)
        now += 0.125
    display.finish([])
    display.finish([])
    assert [int(line.split()[1]) for line in stream.getvalue().splitlines()] == [1, 9, 15, 23, 29]


def test_a_result_with_the_bare_minimum_has_a_line() -> None:
    line = plain_line({"training_iteration": 1, "timesteps_total": 10})
    assert line == "iter 1  steps 10  reward -  eval -  len -  - steps/s  -s"


def test_the_live_table_shows_the_header_the_newest_rows_and_the_way_to_go() -> None:
    last = live(120, [result(i, None if i == 19 else 7.5) for i in range(1, 21)]).rsplit("env: two_step_game", 1)[1]
    header = [line.split() for line in last.splitlines()[2:4]]
    assert header == [
        ["env", "reward", "reward", "eval", "len"],
        ["iter", "steps", "episodes", "mean", "team", "reward", "mean", "steps/s", "time"],
    ]
    assert "[odd]" in last
    assert "50%  timesteps_total 500/1000" in last
    rows = [line.split() for line in last.splitlines() if line.split() and line.split()[0].isdigit()]
    assert [row[0] for row in rows] == [str(i) for i in range(9, 21)]
    assert rows[-2][3] == "-"
    assert last.splitlines()[-1] == "results: " + "x" * 150  # the last line is not broken in two


@pytest.mark.parametrize("width", [8, 20, 40, 60, 80, 200])
def test_a_live_table_fits_terminals_of_any_width(width: int) -> None:
    policies = {f"policy_{i}": float(i) for i in range(9)}
    text = live(width, [result(1), result(2, policy_reward_mean=policies, evaluation={"episode_reward_mean": 8.0})])
    last = text.rsplit("env: t", 1)[-1].splitlines()
    assert all(len(line) <= width for line in last[1:] if not line.startswith("results: x"))
    assert ("hidden" in text.split()) == (width < 200)
    assert any(line.split()[0] == "2" and "7.50" in line for line in last if line)


def test_progress_outside_zero_and_one_is_shown_at_the_border() -> None:
    assert "100%  done" in live(80, [result(1)], Progress(1.7, "done"))
    assert "0%  odd" in live(80, [result(1)], Progress(-1.0, "odd"))


def test_a_run_that_ends_before_its_first_result_can_be_shown() -> None:
    assert "collecting" in live(80, [])


def test_terminals_get_the_live_table_and_everything_else_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(make_display(Terminal()), LiveDisplay)
    assert isinstance(make_display(io.StringIO()), PlainDisplay)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(make_display(Terminal()), PlainDisplay)


def test_quiet_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    display = Quiet()
    display.start(["env: x"])
    display.update(result(1), HALF)
    display.note("n")
    display.finish(["results: x"])
    assert capsys.readouterr() == ("", "")
