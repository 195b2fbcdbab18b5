"""``marl bench learners``: the numbers of a table, what is said about them, and a small grid that really runs."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

from marl.algos.presets import ALGOS
from marl.cli.app import app, main
from marl.diagnostics.bench_learners import CASES, HEADINGS, Timing, advice, as_json, doubts, rows, scenario_of, timing

TINY = {
    "fcnet_hiddens": [4], "num_envs_per_worker": 4, "timesteps_per_iteration": 16, "train_batch_size": 16,
    "sgd_minibatch_size": 16, "num_sgd_iter": 1,
}  # fmt: skip


def took(
    num_workers: int, num_learners: int, sample: float, learn: float, case: str = "own", steps: int = 100
) -> Timing:
    """Loading and sending weights take 5 ms each, everything else nothing."""
    return Timing(case, num_workers, num_learners, steps, sample, 5.0, learn, 5.0, sample + learn + 10.0)


def result(seconds: float, sample: float, steps: int = 100) -> dict[str, Any]:
    timers = {"sample_time_ms": sample, "load_time_ms": 1.0, "learn_time_ms": 2.0, "sync_time_ms": 3.0}
    return {"time_this_iter_s": seconds, "timesteps_this_iter": steps, "timers": timers}


# -- numbers --------------------------------------------------------------------------------------------------------


def test_the_fastest_iteration_counts_with_its_own_parts() -> None:
    found = timing("own", 2, 1, [result(0.5, 400.0), result(0.2, 150.0), result(0.9, 100.0)])
    assert found == Timing("own", 2, 1, 100, 150.0, 1.0, 2.0, 3.0, 200.0)
    assert found.steps_per_second == pytest.approx(500.0)


def test_iterations_of_different_length_are_compared_by_env_steps_per_second() -> None:
    longer = timing("own", 3, 1, [result(0.3, 1.0, steps=150), result(0.25, 1.0, steps=100)])
    assert longer.env_steps == 150
    assert longer.faster_than(timing("own", 0, 1, [result(0.4, 1.0)])) == pytest.approx(2.0)


def test_rows_hold_milliseconds_the_rate_and_the_ratio_to_the_first() -> None:
    first, second = rows([took(0, 1, 1_985.0, 5.0), took(2, 1, 985.0, 5.0)])
    assert dict(zip(HEADINGS, first, strict=True)) == {
        "workers": "0", "learners": "1", "collect": "1,985", "load": "5.0", "learn": "5.0", "sync": "5.0",
        "iteration": "2,000", "steps/s": "50", "times as fast": "1.00",
    }  # fmt: skip
    assert second[-2:] == ("100", "2.00")


def test_in_json_ratios_begin_anew_with_each_case() -> None:
    found = as_json([took(0, 1, 90.0, 0.0, "collecting"), took(1, 1, 40.0, 0.0, "collecting"), took(0, 1, 0.0, 10.0)])
    assert [one["times_as_fast"] for one in found] == [1.0, 2.0, 1.0]
    assert (found[1]["sample_time_ms"], found[1]["iteration_time_ms"], found[1]["env_steps_per_second"]) == (
        40,
        50,
        2_000,
    )


# -- advice: the three experiments of the document -----------------------------------------------------------------


def test_where_collecting_takes_the_time_more_workers_help_and_learners_do_not() -> None:
    timings = [took(0, 1, 980.0, 10.0), took(2, 1, 480.0, 10.0), took(0, 2, 980.0, 35.0), took(2, 2, 480.0, 35.0)]
    assert advice(timings) == (
        "Collecting takes 98% of an iteration with num_workers: 0, num_learners: 1: more workers help (num_workers: 2 is "
        "2.00 times as fast); more learners do not help (at best num_learners: 2, 0.98 times as fast); fastest is "
        "num_workers: 2, num_learners: 1 (2.00 times as fast)."
    )


def test_where_learning_takes_the_time_more_learners_help_and_workers_do_not() -> None:
    timings = [took(0, 1, 30.0, 960.0), took(2, 1, 60.0, 960.0), took(0, 2, 30.0, 460.0), took(2, 2, 60.0, 460.0)]
    said = advice(timings)
    assert said.startswith("Learning takes 96% of an iteration with num_workers: 0, num_learners: 1: ")
    assert "more workers do not help (at best num_workers: 2, 0.97 times as fast)" in said
    assert "more learners help (num_learners: 2 is 2.00 times as fast)" in said
    assert said.endswith("fastest is num_workers: 0, num_learners: 2 (2.00 times as fast).")


def test_one_number_of_learners_is_not_compared_and_the_first_row_may_be_the_fastest() -> None:
    said = advice([took(0, 1, 500.0, 490.0), took(1, 1, 600.0, 490.0), took(4, 1, 550.0, 490.0)])
    assert "learners do not" not in said
    assert "at best num_workers: 4, 0.95 times as fast" in said
    assert said.endswith("; fastest is num_workers: 0, num_learners: 1.")


def test_a_gain_within_what_measurements_differ_by_is_no_help() -> None:
    assert "more workers do not help" in advice([took(0, 1, 990.0, 0.0), took(1, 1, 920.0, 0.0)])
    assert "more workers help" in advice([took(0, 1, 990.0, 0.0), took(1, 1, 890.0, 0.0)])


def test_a_busy_machine_is_told() -> None:
    steady = [took(0, 1, 100.0, 50.0), took(0, 2, 110.0, 30.0), took(2, 1, 50.0, 50.0)]
    assert doubts(steady, 0.4, 2) == []
    assert doubts(steady, 7.5, 2) == ["other work kept this machine busy (load 7.5 on 2 CPUs)"]


def test_collecting_that_changes_with_learners_is_doubted() -> None:
    changed = [took(0, 1, 1_000.0, 10.0), took(2, 1, 600.0, 10.0), took(0, 2, 400.0, 10.0), took(2, 2, 600.0, 10.0)]
    assert doubts(changed, 0.0, 2) == ["collecting took up to 2.5 times as long with the same num_workers"]


# -- scenarios ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", sorted(ALGOS))
@pytest.mark.parametrize("case", CASES)
def test_every_algorithm_takes_the_keys_of_every_case_that_it_has(algo: str, case: str) -> None:
    found = scenario_of(case, algo, {"env": "CartPole-v1"}, 2, 3)
    assert (found.num_workers, found.num_learners, found.evaluation.interval) == (2, 3, 0)
    found.preset.configure(**found.algo_keys)


def test_the_users_keys_win_over_those_of_the_case() -> None:
    keys = {"env": "CartPole-v1", "model": {"fcnet_activation": "relu"}, "algo": {"lr": 0.5}, "num_sgd_iter": 3}
    found = scenario_of("learning", "ppo", keys, 0, 1)
    assert (found.algo["name"], found.algo["lr"], found.algo["num_sgd_iter"]) == ("ppo", 0.5, 3)
    assert found.algo["sgd_minibatch_size"] == CASES["learning"]["sgd_minibatch_size"]
    assert (list(found.model.fcnet_hiddens), found.model.fcnet_activation) == ([256, 256], "relu")


# -- the command ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--workers", "0,x"], "--workers '0,x': expected whole numbers of at least 0"),
        (["--learners", "0,1"], "--learners '0,1': expected whole numbers of at least 1"),
        (["--case", "learnign"], "unknown case 'learnign'. Known: collecting, learning, own. Did you mean 'learning'?"),
        (["--iterations", "0"], "--iterations"),
        (["--algo", "pppo"], "Did you mean 'ppo'?"),
        (["--env", "CartPole-v7", "--workers", "0", "--learners", "1"], "CartPole-v7"),
        (["--config", "{lr: 1"], "line 1, column 2"),
        (["--config", '{"num_wrkers": 1}'], "num_wrkers"),
        (["--algo", "es", "--learners", "2", "--workers", "0"], "does not share its work. Use num_learners: 1"),
    ],
)
def test_bad_input_ends_with_code_2_and_a_clear_message(
    arguments: list[str], text: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["marl", "bench", "learners", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    out, err = capfd.readouterr()
    assert (stopped.value.code, out) == (2, "")
    assert text in err


def test_in_this_process_a_table_and_a_sentence_are_printed() -> None:
    arguments = ["--env", "two_step_game", "--workers", "0", "--learners", "1", "--case", "own", "--iterations", "1"]
    done = CliRunner().invoke(app, ["bench", "learners", *arguments, "--config", json.dumps(TINY)])
    assert done.exit_code == 0, done.output
    assert "own: two_step_game by ppo on" in done.stdout
    assert "fastest is num_workers: 0, num_learners: 1." in done.stdout
    assert "measuring own, num_workers: 0, num_learners: 1" in done.stderr


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
def test_the_smallest_grid_is_measured_on_ray() -> None:
    arguments = [
        "--env",
        "two_step_game",
        "--workers",
        "1,0",
        "--learners",
        "1,2",
        "--case",
        "learning",
        "--iterations",
        "1",
    ]
    done = CliRunner().invoke(app, ["bench", "learners", *arguments, "--config", json.dumps(TINY), "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["env"], found["algo"], found["iterations"], [*found["advice"]]) == (
        "two_step_game",
        "ppo",
        1,
        ["learning"],
    )
    grid = [(one["num_workers"], one["num_learners"]) for one in found["timings"]]
    assert grid == [(0, 1), (1, 1), (0, 2), (1, 2)]
    for one in found["timings"]:
        parts = [one[f"{name}_time_ms"] for name in ("sample", "load", "learn", "sync")]
        assert min(parts[0], parts[2]) > 0
        assert sum(parts) <= one["iteration_time_ms"]
        assert one["env_steps"] == 16
    assert found["timings"][0]["times_as_fast"] == 1.0
    assert [*found["doubts"]] == ["learning"]
