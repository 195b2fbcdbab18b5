"""The files of a run can be read by the tools they are meant for, also after a kill and a resume."""

from __future__ import annotations

import csv
import json
import math
import re
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from marl.errors import ConfigError, UserError
from marl.runs.files import RunFiles, new_run_directory, run_name, to_plain

NOW = datetime(2026, 11, 16, 2, 30, 0)


def result(iteration: int, reward: float | None = 7.5, **more: Any) -> dict[str, Any]:
    return {
        "training_iteration": iteration,
        "timesteps_total": 1000 * iteration,
        "episode_reward_mean": reward,
        "policy_reward_mean": {"team": reward},
        "info": {"learner": {"team": {"learner_stats": {"td_loss": np.float32(0.5)}}}},
        "hist_stats": {"episode_reward": [7.0, 8.0], "episode_lengths": np.array([2, 2])},
        "config": {"seed": 0, "lr": 0.001},
        **more,
    }


def table(directory: Path) -> list[list[str]]:
    with (directory / "progress.csv").open(newline="") as file:
        return list(csv.reader(file))


def events(directory: Path) -> EventAccumulator:
    return EventAccumulator(str(directory), size_guidance={"scalars": 0, "histograms": 0}).Reload()


def steps(directory: Path, tag: str = "episode_reward_mean") -> list[int]:
    return [event.step for event in events(directory).Scalars(tag)]


# --- params -------------------------------------------------------------------------------------------------


def test_params_are_the_same_in_json_and_yaml_and_keep_their_order(tmp_path: Path) -> None:
    params = {
        "seed": np.int64(3),
        "lr": 1e-5,
        "hiddens": (64, 64),
        "again": [64, 64],
        "limit": math.inf,
        "a": {"b": None},
    }
    RunFiles(tmp_path).write_params(params)
    expected = {"seed": 3, "lr": 1e-5, "hiddens": [64, 64], "again": [64, 64], "limit": math.inf, "a": {"b": None}}
    for read in (
        json.loads((tmp_path / "params.json").read_text()),
        yaml.safe_load((tmp_path / "params.yaml").read_text()),
    ):
        assert read == expected
        assert list(read) == list(params)
    assert len(list(tmp_path.iterdir())) == 2


# --- result.json --------------------------------------------------------------------------------------------


def test_each_result_is_one_line_of_strict_json(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    files.append(result(1, math.nan, odd={"inf": -math.inf, "flag": np.bool_(True), 3: {1, 2}, "path": Path("x")}))
    files.append(result(2, np.float64(8.0)))
    files.close()
    refuse = {"parse_constant": lambda name: pytest.fail(f"{name} is not JSON")}
    first, second = [json.loads(line, **refuse) for line in (tmp_path / "result.json").read_text().splitlines()]
    assert first["odd"] == {"inf": None, "flag": True, "3": [1, 2], "path": "x"}
    assert first["episode_reward_mean"] is None
    assert second["episode_reward_mean"] == 8.0
    assert second["config"] == {"seed": 0, "lr": 0.001}
    assert files.results() == [first, second]


def test_numpy_becomes_plain() -> None:
    plain = to_plain({"a": np.arange(3), "b": np.float32(0.5), "c": np.array(2), "d": (np.nan,)}, finite=True)
    assert plain == {"a": [0, 1, 2], "b": 0.5, "c": 2, "d": [None]}
    assert type(plain["c"]) is int


def test_a_half_written_last_line_is_left_out_and_cut_off_by_the_next_append(tmp_path: Path) -> None:
    for cut in ('{"training_iter', '{"training_iteration": 2, "timesteps_total": 2000}', "\x00\x00", '"\udcff'):
        directory = tmp_path / str(len(list(tmp_path.iterdir())))
        directory.mkdir()
        RunFiles(directory).append(result(1))
        with (directory / "result.json").open("a", errors="surrogateescape") as file:
            file.write(cut)
        again = RunFiles(directory)
        kept = len(again.results())
        again.append(result(3))
        assert [line["training_iteration"] for line in again.results()] == [*[1, 2][:kept], 3]
        assert len(table(directory)) == 1 + kept + 1


def test_a_broken_line_in_the_middle_is_reported_with_its_number(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text("{}\nnonsense\n{}\n")
    with pytest.raises(UserError, match="line 2: not a JSON result"):
        RunFiles(tmp_path).results()


# --- progress.csv -------------------------------------------------------------------------------------------


def test_the_table_has_constant_width_when_keys_come_late_or_go_missing(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    files.append(result(1, None))
    files.append(result(2, evaluation={"episode_reward_mean": 8.0}))
    files.append(result(3, custom_metrics={'odd, "key"\n': "text, with\n'quotes\""}))
    files.append({"training_iteration": 4, "timesteps_total": 4000})
    header, *rows = table(tmp_path)
    assert {len(row) for row in rows} == {len(header)}
    named = [dict(zip(header, row, strict=True)) for row in rows]
    assert [row["evaluation/episode_reward_mean"] for row in named] == ["", "8.0", "", ""]
    assert [row["episode_reward_mean"] for row in named] == ["", "7.5", "7.5", ""]
    assert named[2]['custom_metrics/odd, "key"\n'] == "text, with\n'quotes\""
    assert named[0]["info/learner/team/learner_stats/td_loss"] == "0.5"
    assert not [column for column in header if column.startswith(("config", "hist_stats"))]
    assert header[: len(named[0])][0] == "training_iteration"


# --- TensorBoard --------------------------------------------------------------------------------------------


def test_tensorboard_reads_scalars_and_histograms_over_env_steps(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    files.append(result(1, None, hostname="box", done=False))
    files.append(result(2, evaluation={"episode_reward_mean": 8.0, "hist_stats": {"episode_reward": [8.0, None]}}))
    files.append(result(3, hist_stats={"episode_reward": []}))
    read = events(tmp_path)  # before close: every append is flushed
    files.close()
    tags = read.Tags()
    assert [event.step for event in read.Scalars("episode_reward_mean")] == [2000, 3000]
    assert read.Scalars("evaluation/episode_reward_mean")[0].value == 8.0
    assert "info/learner/team/learner_stats/td_loss" in tags["scalars"]
    assert not {"hostname", "done", "config/seed", "config/lr"} & set(tags["scalars"])
    assert set(tags["histograms"]) == {
        "hist_stats/episode_reward",
        "hist_stats/episode_lengths",
        "evaluation/hist_stats/episode_reward",
    }
    assert [event.histogram_value.num for event in read.Histograms("hist_stats/episode_reward")] == [2, 2]


# --- resume -------------------------------------------------------------------------------------------------


def test_after_a_resume_every_file_looks_as_if_the_run_had_never_stopped(tmp_path: Path) -> None:
    for name in ("stopped", "never"):
        (tmp_path / name).mkdir()
    stopped, never = RunFiles(tmp_path / "stopped"), RunFiles(tmp_path / "never")
    for iteration in (1, 2, 3, 4):
        stopped.append(result(iteration, float(iteration), late={"key": 1} if iteration == 4 else {}))
    with (tmp_path / "stopped" / "result.json").open("a") as file:
        file.write('{"training_iteration": 5, "ti')

    resumed = RunFiles(tmp_path / "stopped")
    resumed.resume_at(2)
    assert [line["training_iteration"] for line in resumed.results()] == [1, 2]
    for iteration in (1, 2, 3):
        never.append(result(iteration, float(iteration), late={}))
    resumed.append(result(3, 3.0, late={}))
    for file in ("result.json", "progress.csv"):
        assert (tmp_path / "stopped" / file).read_bytes() == (tmp_path / "never" / file).read_bytes()
    assert steps(tmp_path / "stopped") == steps(tmp_path / "never") == [1000, 2000, 3000]


def test_a_resume_before_the_first_result_starts_with_empty_files(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    files.resume_at(0)
    assert list(tmp_path.iterdir()) == []
    files.append(result(1))
    files.resume_at(0)
    assert files.results() == []
    assert not (tmp_path / "progress.csv").exists()
    files.append(result(1))
    assert len(table(tmp_path)) == 2
    assert steps(tmp_path) == [1000]


# --- the curve ----------------------------------------------------------------------------------------------


def curve(directory: Path, results: list[dict[str, Any]]) -> bytes:
    directory.mkdir(exist_ok=True)
    (directory / "result.json").write_text("".join(json.dumps(to_plain(line)) + "\n" for line in results))
    return RunFiles(directory).draw_curve().read_bytes()


def test_the_curve_is_a_png_for_nothing_nulls_one_point_and_many_policies(tmp_path: Path) -> None:
    many = [
        result(i, -i / 7, policy_reward_mean={"wolves": i / 5, "sheep": None if i < 9 else -i}, evaluation={})
        for i in range(1, 30)
    ]
    for results in ([], [result(1, None)], [result(1)], [result(1), result(2, None, evaluation=None)], many):
        picture = curve(tmp_path / "run", results)
        assert picture.startswith(b"\x89PNG\r\n\x1a\n")
        assert picture.rstrip().endswith(b"IEND\xaeB`\x82")
        assert len(picture) > 10_000


def test_importing_the_module_loads_neither_matplotlib_nor_tensorboard_nor_torch() -> None:
    code = "import sys, marl.runs.files; print({'matplotlib', 'tensorboard', 'torch'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_drawing_leaves_pyplot_alone(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from marl.runs.files import RunFiles;"
        f"RunFiles(Path({str(tmp_path)!r})).draw_curve(); print('matplotlib.pyplot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


# --- names --------------------------------------------------------------------------------------------------


def test_a_run_is_named_after_who_where_which_how_and_when() -> None:
    name = run_name("qmix", "two_step_game", "e0872", 0, {"seed": 0}, NOW)
    assert name == "QMIX_two_step_game_e0872_00000_seed=0_2026-11-16_02-30-00"
    tuned = run_name("ppo", "CartPole-v1", "e0872", 12, {"algo.lr": 0.001, "model.fcnet_hiddens": [64, 64]}, NOW)
    assert tuned == "PPO_CartPole-v1_e0872_00012_lr=0.001,fcnet_hiddens=_64,_64_2026-11-16_02-30-00"
    assert run_name("pg", "x", "e", 0, {}, NOW) == "PG_x_e_00000_2026-11-16_02-30-00"


@pytest.mark.parametrize(
    ("env", "short"),
    [
        ("pettingzoo:mpe2/simple_spread_v3", "simple_spread_v3"),
        ("fast:simple_spread", "simple_spread"),
        ("my_package.envs:Wolves", "Wolves"),
        ("ALE/Pong-v5", "Pong-v5"),
        ("a b<c>", "a_b_c"),
        ("../..", "env"),
        ("", "env"),
        ("狼", "env"),
        ("x" * 300, "x" * 60),
    ],
)
def test_the_env_in_a_run_name_is_short_and_safe(env: str, short: str) -> None:
    name = run_name("dqn", env, "e0872", 0, {}, NOW)
    assert name == f"DQN_{short}_e0872_00000_2026-11-16_02-30-00"
    assert re.fullmatch(r"[\w.,=+-]{1,200}", name, re.ASCII)


def test_two_runs_of_the_same_second_get_two_directories(tmp_path: Path) -> None:
    created = [new_run_directory(tmp_path / "results", "../default", "QMIX_x") for _ in range(3)]
    assert [directory.name for directory in created] == ["QMIX_x", "QMIX_x_2", "QMIX_x_3"]
    assert {directory.parent for directory in created} == {tmp_path / "results" / "default"}


def test_a_place_that_cannot_hold_runs_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="--local-dir or MARL_RESULTS_DIR"):
        new_run_directory(tmp_path / "file", "default", "QMIX_x")
