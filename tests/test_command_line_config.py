"""Options and commands of configuration, in this process: what they set, what they print, how they fail."""

from __future__ import annotations

import io
import json
import logging
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

import marl
from marl.cli.app import app, main
from marl.cli.help import PANELS
from marl.diagnostics.env_speed import Setting, Speed, advice, rate
from marl.scenario.config import ALL_ALGO_KEYS
from marl.scenario.load import load_scenario
from marl.testing import check_learning_achieved
from tests.processes import run as in_a_process

ROOT = Path(__file__).parents[1]
SMALL = """
env: two_step_game
algo: {name: ppo, train_batch_size: 16, sgd_minibatch_size: 16, num_sgd_iter: 1}
model: {fcnet_hiddens: [4]}
num_envs_per_worker: 4
evaluation: {interval: 0}
stop: {training_iteration: 2}
"""
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """``marl ...``: exit code, what it printed, what it said on stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["marl", *map(str, arguments)])
        try:
            main()
            code: Any = 0
        except SystemExit as stopped:
            code = stopped.code or 0
        out, err = capfd.readouterr()
        return int(code), out, err

    yield call
    logging.getLogger("marl").setLevel(logging.WARNING)


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def directory_in(out: str) -> Path:
    return Path(out.strip().splitlines()[-1].removeprefix("results: "))


def params(out: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory_in(out) / "params.json").read_text())
    return found


# -- keys -----------------------------------------------------------------------------------------------------------


def test_options_of_run_reach_the_run(command: Command, scenario: Path, tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text('{"lr": 0.25, "gamma": 0.5, "seed": 1}')
    code, out, err = command(
        "run", scenario, "--config", f"@{tmp_path / 'keys.json'}", "--set", "gamma=0.75", "--seed", 7, "--num-cpus", 3,
        "--checkpoint-freq", 1, "--keep-checkpoints", 3, "--stop-iters", 5, "--local-dir", tmp_path / "out",
    )  # fmt: skip
    assert code == 0, err
    found = params(out)
    assert (found["algo"]["lr"], found["algo"]["gamma"], found["seed"], found["ray_num_cpus"]) == (0.25, 0.75, 7, 3)
    kept = sorted(p.name for p in (directory_in(out) / "checkpoints").glob("checkpoint_*"))
    assert kept == ["checkpoint_000003", "checkpoint_000004", "checkpoint_000005"]


def test_a_checkpoint_every_second_iteration_and_one_at_the_end(
    command: Command, scenario: Path, tmp_path: Path
) -> None:
    arguments = ("--checkpoint-freq", 2, "--keep-checkpoints", 9, "--stop-iters", 5, "--local-dir", tmp_path / "out")
    code, out, _ = command("run", scenario, *arguments)
    kept = sorted(p.name for p in (directory_in(out) / "checkpoints").glob("checkpoint_*"))
    assert (code, kept) == (0, ["checkpoint_000002", "checkpoint_000004", "checkpoint_000005"])


def test_a_reward_stops_the_run_and_is_the_goal_of_a_test(command: Command, scenario: Path, tmp_path: Path) -> None:
    where = ("--local-dir", tmp_path / "out", "--stop-iters", 3)
    code, out, _ = command("run", scenario, "--stop-reward", 0.0, "--as-test", *where)
    assert code == 0
    assert check_learning_achieved(directory_in(out), 0.0) >= 0.0
    assert len((directory_in(out) / "result.json").read_text().splitlines()) == 1
    code, out, _ = command("run", scenario, "--stop-reward", 99.0, "--as-test", *where)
    assert code == 1
    assert len((directory_in(out) / "result.json").read_text().splitlines()) == 3


def test_train_starts_from_a_file_and_its_options_win(command: Command, scenario: Path, tmp_path: Path) -> None:
    code, out, err = command(
        "train", "-f", scenario, "--run", "MAPPO", "--config", '{"model": {"fcnet_activation": "relu"}, "algo": "pg"}', "--set",
        "lr=0.5", "--local-dir", tmp_path / "out", "--stop-iters", 1,
    )  # fmt: skip
    assert code == 0, err
    found = params(out)
    assert (found["algo"]["name"], found["algo"]["lr"], found["algo"]["train_batch_size"]) == ("mappo", 0.5, 16)
    assert (found["model"]["fcnet_hiddens"], found["model"]["fcnet_activation"]) == ([4], "relu")


# -- what is printed ------------------------------------------------------------------------------------------------


def test_json_prints_one_result_per_line_and_nothing_else(command: Command, scenario: Path, tmp_path: Path) -> None:
    code, out, err = command("run", scenario, "--json", "--local-dir", tmp_path / "out")
    assert code == 0
    printed = [json.loads(line) for line in out.splitlines()]
    written = (directory_in(err) / "result.json").read_text().splitlines()
    assert printed == [json.loads(line) for line in written]
    assert [result["training_iteration"] for result in printed] == [1, 2]
    assert "policies (" in err


def test_quiet_prints_the_place_of_the_results_alone(command: Command, scenario: Path, tmp_path: Path) -> None:
    code, out, err = command("run", scenario, "--quiet", "--local-dir", tmp_path / "out")
    assert (code, len(out.splitlines()), err) == (0, 1, "")
    assert (directory_in(out) / "result.json").exists()


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.parametrize("workers", [0, 1])
def test_verbose_logs_to_stderr_also_what_workers_say(scenario: Path, tmp_path: Path, workers: int) -> None:
    said = []
    for options in ([], ["-v"], ["-vv"]):
        arguments = ["run", scenario, *options, "--local-dir", tmp_path / "out", "--num-workers", workers]
        done = in_a_process(*arguments, timeout=300, warm_ray=workers > 0)
        assert done.returncode == 0, done.stderr
        assert "marl.rollout" not in done.stdout
        said.append(re.findall(rf"(INFO|DEBUG) marl\.rollout\.worker: worker {workers}: ", done.stderr))
    assert said[0] == []
    assert said[1] == ["INFO"]
    assert said[2] == ["INFO", "DEBUG", "DEBUG"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--json", "--quiet"], "--json and --quiet cannot be given together"),
        (["--config", "{lr: 1"], "line 1, column 2"),
        (["--config", "@no.json"], "there is no file no.json"),
        (["--set", "log_level=LOUD"], "log_level = 'LOUD'"),
        (["--set", "framework=tf"], "unknown key 'framework'. Here, networks are torch's"),
        (["--keep-checkpoints", "0"], "--keep-checkpoints"),
        (["--seeds", "0,1,0"], "--seeds '0,1,0' has seed 0 more than once. Give each seed once."),
    ],
)
def test_a_mistake_ends_with_code_2_and_leaves_nothing(
    command: Command, scenario: Path, tmp_path: Path, arguments: list[str], text: str
) -> None:
    code, _, err = command("run", scenario, *arguments, "--local-dir", tmp_path / "out")
    assert code == 2
    assert text in err
    assert not (tmp_path / "out").exists()


def test_compare_refuses_a_seed_that_counts_twice_with_code_2(command: Command, scenario: Path, tmp_path: Path) -> None:
    code, _, err = command("compare", scenario, scenario, "--seeds", "1,1,1,1", "--out", tmp_path / "out")
    assert (code, "has seed 1 more than once" in err) == (2, True)
    assert not (tmp_path / "out").exists()


def test_help_of_rollout_offers_no_key_of_learning(command: Command) -> None:
    _, out, _ = command("rollout", "--help")
    assert "--set horizon=200" in " ".join(re.sub(r"[│\s]+", " ", out).split())
    assert "algo.lr" not in out


# -- help -----------------------------------------------------------------------------------------------------------


COMMANDS = sorted(get_command(app).commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_fits_a_terminal_of_80_columns(name: str, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = command(*([name] if name else []), "--help")
    assert code == 0
    assert "Usage: " in out
    assert [line for line in out.splitlines() if len(line) > 80] == []


def test_help_lists_every_command_once_by_what_it_is_for_with_a_whole_sentence(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = command("--help")
    options, *panels = re.split(r"\n(?=\S[^\n]*:\n)", out[out.index("Options:") :])
    assert "--install-completion" in options
    assert [panel.partition(":")[0] for panel in panels] == list(PANELS)
    assert "..." not in "".join(panels), "nothing is cut off"
    words = re.findall(r"^  ([a-z-]+)  ", "\n".join(panels), re.MULTILINE)
    assert sorted(words) == COMMANDS
    said = " ".join("".join(panels).split())
    assert "Run a scenario until its stop condition; Ctrl-C saves a checkpoint and says how to go on." in said


def test_the_shell_completes_commands_and_options(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def completed(words: str) -> list[str]:
        monkeypatch.setenv("_MARL_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
        return command()[1].split()

    assert completed("marl ro") == ["rollout"]
    assert completed("marl train --stop-") == ["--stop-iters", "--stop-timesteps", "--stop-reward"]
    monkeypatch.delenv("_MARL_COMPLETE")
    # Typer looks for the shell among the parents of the process; tests may run without one.
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: "bash")
    _, script, _ = command("--show-completion")
    assert "complete_bash" in script


def test_help_of_train_lists_every_option_of_the_documents(command: Command) -> None:
    _, out, _ = command("train", "--help")
    listed = set(re.findall(r"--[a-z-]+", out))
    assert {
        "--run", "--env", "--file", "--config", "--set", "--local-dir", "--num-workers", "--num-cpus", "--seed", "--stop-iters",
        "--stop-timesteps", "--stop-reward", "--checkpoint-freq", "--keep-checkpoints", "--as-test", "--json", "--quiet",
        "--verbose",
    } <= listed  # fmt: skip


def test_the_keys_of_an_algorithm_are_printed_alone(command: Command) -> None:
    _, out, _ = command("config", "PPO")
    own = out.partition("keys of `optimizer:`")[0]
    printed = set(re.findall(r"^  (\w+) \(", own, re.MULTILINE))
    assert {"lr", "clip_param", "gae_lambda"} <= printed <= ALL_ALGO_KEYS
    assert not printed & {"mixer", "buffer_size", "tau", "num_workers", "fcnet_hiddens"}


# -- commands -------------------------------------------------------------------------------------------------------


def test_init_writes_a_scenario_once(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = command("init", "CartPole-v1", "--run", "dqn")
    assert (code, out) == (0, "wrote cartpole_v1.yaml. Run it: marl run cartpole_v1.yaml\n")
    assert load_scenario("cartpole_v1.yaml").preset.name == "dqn"
    code, _, err = command("init", "CartPole-v1")
    assert code == 2
    assert "is there already" in err
    assert command("init", "CartPole-v1", "--force")[0] == 0
    assert load_scenario("cartpole_v1.yaml").preset.name == "ppo"
    code, out, _ = command("init", "two_step_game", "--out", "-", "--config", '{"one_hot_state_encoding": false}')
    assert yaml.safe_load(out)["env_config"] == {"one_hot_state_encoding": False}
    code, _, err = command("init", "Pendulum-v1", "--run", "dqn")
    assert code == 2
    assert not (tmp_path / "pendulum_v1.yaml").exists()


def test_schema_prints_json_or_writes_it(command: Command, tmp_path: Path) -> None:
    code, out, _ = command("schema")
    found = json.loads(out)
    assert code == 0
    assert command("schema", "--out", tmp_path / "schema.json") == (0, "", "")
    assert json.loads((tmp_path / "schema.json").read_text()) == found
    code, _, err = command("schema", "--out", tmp_path)
    assert (code, "cannot write" in err) == (2, True)
    assert found["required"] == ["env"]
    assert "tune" in found["properties"]


@pytest.mark.slow
def test_doctor_finds_this_installation_in_order(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARL_RESULTS_DIR", str(tmp_path / "results"))
    code, out, _ = command("doctor", "--without-ray")
    assert code == 0, out
    assert "everything works" in out
    assert re.search(r"^ok +a run in this process: trained, saved and restored", out, re.MULTILINE)
    assert re.search(r"^ok +torch: \d+ threads", out, re.MULTILINE)
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("MARL_RESULTS_DIR", str(tmp_path / "file"))
    code, out, _ = command("doctor", "--without-ray")
    assert (code, "error    results" in out, "1 thing(s) to mend" in out) == (2, True, True)


BROKEN = """
import gymnasium as gym
import numpy as np


class Broken(gym.Env):
    observation_space = gym.spaces.Discrete(2)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return 0, {}

    def step(self, action):
        self.t += 1
        wheels = 3
        if self.t == 5:
            raise RuntimeError("no road")
        return 0, 0.0, False, False, {}
"""


def test_debug_opens_the_debugger_in_the_frame_that_failed(
    command: Command, scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken_road.py").write_text(BROKEN)
    monkeypatch.setattr(sys, "stdin", io.StringIO("p wheels * 7\nq\n"))
    code, out, err = command("debug", scenario, "--set", "env=broken_road:Broken", "--set", "num_workers=2")
    assert code == 2
    assert "21" in out.partition("(Pdb)")[2]
    assert "RuntimeError: no road" in err
    assert re.search(r"env 'broken_road:Broken', worker 0, .*step 5", err)


def test_debug_ends_quietly_where_nothing_fails_and_writes_nothing(
    command: Command, scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MARL_RESULTS_DIR", str(tmp_path / "results"))
    code, out, _ = command("debug", scenario, "--stop-iters", 1)
    assert (code, out.splitlines()[-1]) == (0, "ended without an error")
    assert not (tmp_path / "results").exists()
    code, _, err = command("debug", scenario, "--set", "num_wrkers=1")
    assert code == 2
    assert "Pdb" not in err


def test_throughput_is_measured_and_told(command: Command) -> None:
    config = '{"train_batch_size": 16, "sgd_minibatch_size": 16, "fcnet_hiddens": [4]}'
    arguments = ("two_step_game", "--workers", "0", "--copies", "1,4", "--seconds", 0, "--config", config)
    code, out, err = command("tune-throughput", *arguments)
    assert code == 0, err
    assert "fastest: num_workers: 0, num_envs_per_worker: " in out
    assert len(re.findall(r"│ 0 +│ [14] ", out)) == 2
    code, out, _ = command("tune-throughput", *arguments, "--json")
    speeds = json.loads(out)["speeds"]
    assert [speed["num_envs_per_worker"] for speed in speeds] == [1, 4]
    assert all(speed["collecting"] > 0 and speed["training"] > 0 for speed in speeds)
    code, _, err = command("tune-throughput", "two_step_game", "--copies", "0,1")
    assert code == 2
    assert "whole numbers of at least 1" in err


def test_speeds_are_steps_by_seconds_and_the_advice_compares_them() -> None:
    times = iter([0.0, 1.0, 3.0, 4.0])
    assert rate(lambda: 10, 3.5, lambda: next(times)) == 30 / 4
    speeds = [Speed(Setting(0, 4), 9.0, 100.0), Speed(Setting(2, 4), 9.0, 150.0), Speed(Setting(0, 1), 9.0, 20.0)]
    first, second, third = advice(speeds)
    assert first.startswith("fastest: num_workers: 2, num_envs_per_worker: 4 (150 env steps")
    assert second == "2 Ray worker(s) against none: 1.50 times as fast"
    assert third.startswith("the GPU: none here")
    with_gpu = advice([*speeds, Speed(Setting(0, 4, "cuda"), 9.0, 75.0)])
    assert with_gpu[-1] == "the GPU against the CPU: 0.50 times as fast"


def test_the_version_is_printed(command: Command) -> None:
    code, out, _ = command("--version")
    assert (code, out.strip()) == (0, f"marl {marl.__version__}")


def test_the_package_itself_is_the_command() -> None:
    said = subprocess.run([sys.executable, "-m", "marl", "--version"], capture_output=True, text=True, timeout=60)
    assert (said.returncode, said.stdout.strip()) == (0, f"marl {marl.__version__}")
