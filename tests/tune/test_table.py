"""The status table of a search."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from marl.tune.journal import ERROR, PENDING, RUNNING, STOPPED, TERMINATED
from marl.tune.objective import Halving
from marl.tune.table import MOST_ROWS, Board, Screen
from tests.tune.searches import plan_of

SHOWN = {
    "pid": 4711,
    "training_iteration": 7,
    "time_total_s": 12.34,
    "timesteps_total": 5600,
    "episode_reward_mean": 6.5,
    "episode_reward_max": 8.0,
    "episode_reward_min": -1.0,
    "episode_len_mean": 2.0,
    "policy_reward_mean": {"car": 2.5, "light": 4.0},
}


def board(there: dict[str, float] | None = None, halving: Halving | None = None) -> Board:
    plan = plan_of(
        [{"lr": lr, "fcnet_hiddens": [8, 8]} for lr in (0.1, 0.01, 0.001, 1e-5)],
        halving,
        bundles=[{"CPU": 1.0, "GPU": 0.2}],
    )
    made = Board(plan, Path("/results/x"), there or {"CPU": 2.0, "GPU": 1.0}, [PENDING] * 4)
    for index in (0, 1):
        made.rows[index].status = RUNNING
    made.rows[0].shown, made.rows[0].score = SHOWN, 6.5
    return made


def text(made: Board, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(made.table(width))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_the_header_tells_scheduling_resources_place_and_how_many_wait() -> None:
    assert board().header() == [
        "scheduling: FIFO",
        "resources: 2/2 CPUs, 0.4/1 GPUs",
        "results: /results/x",
        "trials: 4 (2 RUNNING, 2 PENDING)",
    ]
    halved = board(halving=Halving("timesteps_total", 900, 100, 3))
    assert halved.header()[0] == "scheduling: ASHA, about 1 of 3 goes on at timesteps_total 100, 300"


def test_the_table_shows_every_trial_with_one_reward_column_per_policy() -> None:
    assert text(board(), 140) == [
        "                                                           env  reward  reward  reward   len  policy  policy",
        "trial     lr  fcnet_hiddens   status   loc  iter   time  steps    mean     max     min  mean     car   light  score",
        "00000    0.1         [8, 8]  RUNNING  4711     7  12.3s   5600    6.50    8.00   -1.00   2.0    2.50    4.00    6.5",
        "00001   0.01         [8, 8]  RUNNING",
        "00002  0.001         [8, 8]  PENDING",
        "00003  1e-05         [8, 8]  PENDING",
    ]


def test_a_narrow_table_leaves_out_what_matters_least() -> None:
    lines = text(board(), 70)
    assert max(map(len, lines)) <= 70
    assert "score" in lines[1]
    assert "status" in lines[1]
    assert "len" not in lines[0]
    assert lines[-1].endswith("columns do not fit")


def test_of_many_trials_those_that_run_are_shown() -> None:
    plan = plan_of([{"lr": value} for value in range(50)])
    made = Board(plan, Path("/x"), {}, [PENDING] * 50)
    made.rows[48].status, made.rows[49].status = RUNNING, ERROR
    lines = text(made, 100)
    assert len(lines) == 2 + MOST_ROWS + 1
    assert lines[-1] == "30 more trials"
    assert {line.split()[0] for line in lines[2:-1]} >= {"00048", "00049"}


def test_outside_of_a_terminal_there_is_a_line_per_change() -> None:
    stream = io.StringIO()
    screen = Screen(board(), verbose=1, stream=stream)
    screen.start()
    screen.status(2, RUNNING)
    screen.status(2, RUNNING)
    screen.result(2, {"shown": SHOWN, "score": 1.0, "notes": ["a remark"]})
    screen.status(2, ERROR, "no such file")
    lines = stream.getvalue().splitlines()[4:]
    assert lines == [
        "trial 00002 lr=0.001,fcnet_hiddens=[8, 8] RUNNING",
        "trial 00002 lr=0.001,fcnet_hiddens=[8, 8]: a remark",
        "trial 00002 lr=0.001,fcnet_hiddens=[8, 8] ERROR: no such file",
    ]
    screen.finish()
    assert "trials: 4 (2 RUNNING, 1 ERROR, 1 PENDING)" in stream.getvalue()


def test_verbose_says_how_much_is_shown() -> None:
    said = {}
    for verbose in range(4):
        stream = io.StringIO()
        screen = Screen(board(), verbose, stream)
        screen.start()
        screen.result(0, {"shown": SHOWN, "score": 1.0})
        screen.status(0, TERMINATED)
        screen.status(1, STOPPED)
        screen.finish()
        said[verbose] = stream.getvalue()
    assert said[0] == ""
    assert "iter 7" not in said[1]
    assert "iter 7  steps 5600  reward 6.50" in said[2]
    assert "policy_reward_mean:" not in said[2]
    assert "policy_reward_mean:\n  car: 2.5" in said[3]
