"""``marl tune`` as a process: what it prints, its exit codes, Ctrl-C, a kill, going on; and what importing costs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from tests import processes
from tests.processes import ROOT, Process, run_code
from tests.tune.functions import statuses
from tests.tune.searches import SMALL

FILE = {**SMALL, "checkpoint_freq": 1, "lr": {"grid_search": [0.001, 0.01]}, "stop": {"training_iteration": 1}}


def scenario(directory: Path, **changes: Any) -> str:
    file = directory / "search.yaml"
    file.write_text(yaml.safe_dump({**FILE, **changes}))
    return str(file)


def start(*arguments: str, warm_ray: bool = True) -> Process:
    environment = {**os.environ, "HOME": os.environ.get("HOME", "/"), "COLUMNS": "100"}
    return processes.start(*arguments, env=environment, warm_ray=warm_ray)


def finish(process: Process) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=400)
    return process.wait(), out, err


def wait_for(what: Callable[[], bool], process: Process) -> None:
    while not what():
        assert process.poll() is None, process.communicate()
        time.sleep(0.2)


def lines_of(directory: Path) -> int:
    return sum(len(file.read_text().splitlines()) for file in directory.glob("*/*/result.json"))


def test_tuning_costs_nothing_until_it_is_used() -> None:
    code = """
import sys, marl, marl.run, marl.cli
from marl.tune import grid_search
assert marl.tune.run is marl.tune.run
loaded = [name for name in ("ray", "pandas", "pyarrow") if name in sys.modules]
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=120)


@pytest.mark.slow
def test_run_refuses_a_search_and_tune_refuses_bad_input(tmp_path: Path) -> None:
    code, _, err = finish(start("run", scenario(tmp_path)))
    assert code == 2
    assert "marl tune FILE" in err
    for arguments, part in (
        (["tune"], "give a scenario file, or --resume DIR"),
        (["tune", scenario(tmp_path), "--scheduler", "hyperband"], "scheduler"),
        (
            ["tune", scenario(tmp_path), "--scheduler", "pbt"],
            "scheduler: pbt needs mutations, but mutations is not given",
        ),
        (["tune", "--resume", str(tmp_path)], "holds no tune.json"),
    ):
        code, _, err = finish(start(*arguments))
        assert code == 2
        assert part in err
        assert "Traceback" not in err


@pytest.mark.slow
@pytest.mark.ray
def test_a_search_from_a_file_ends_with_the_best_trial_and_its_place(tmp_path: Path) -> None:
    file = scenario(tmp_path, tune={"metric": "episode_reward_mean"})
    command = ["tune", file, "--local-dir", str(tmp_path), "--num-cpus", "2", "--set", "seed=4", "--json"]
    code, out, err = finish(start(*command))
    assert code == 0, err
    told = json.loads(out)
    assert [trial["params"] for trial in told["trials"]] == [{"lr": 0.001}, {"lr": 0.01}]
    assert [trial["status"] for trial in told["trials"]] == ["TERMINATED"] * 2
    best = told["trials"][told["best_trial"]]
    assert best["score"] == max(trial["score"] for trial in told["trials"])
    code, out, err = finish(start("rollout", best["checkpoint"], "--episodes", "1"))
    assert code == 0, err
    # Going on with a search that has ended changes nothing, and with a longer one goes on where it ended.
    code, out, err = finish(start("tune", "--resume", told["directory"], "--stop-iters", "2"))
    assert code == 0, err
    assert out.splitlines()[-1] == f"results: {told['directory']}"
    assert "best trial: " in out
    assert f"play it: marl rollout {told['directory']}" in out
    assert lines_of(tmp_path) == 4


@pytest.mark.slow
@pytest.mark.ray
def test_ctrl_c_leaves_checkpoints_and_no_process_and_the_search_goes_on(tmp_path: Path) -> None:
    endless = scenario(tmp_path, stop={"training_iteration": 100_000})
    process = start("tune", endless, "--local-dir", str(tmp_path), warm_ray=False)
    wait_for(lambda: lines_of(tmp_path) >= 3, process)
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert code == 130, err
    (directory,) = tmp_path.glob("search_tune_*")
    assert f"Go on with: marl tune --resume {directory}" in out
    assert psutil.wait_procs(children, timeout=60)[1] == []
    assert list(directory.rglob("run.lock")) == []
    assert "INTERRUPTED" in statuses(directory)
    iterations = {file.parent: len(file.read_text().splitlines()) for file in directory.glob("*/result.json")}
    for run, count in iterations.items():
        assert (run / "checkpoints" / f"checkpoint_{count:06d}").is_dir()  # nothing that was trained is lost
    limit = max(iterations.values()) + 1
    code, out, err = finish(start("tune", "--resume", str(directory), "--stop-iters", str(limit)))
    assert code == 0, err
    assert statuses(directory) == ["TERMINATED"] * 2
    for file in directory.glob("*/result.json"):
        numbers = [json.loads(line)["training_iteration"] for line in file.read_text().splitlines()]
        assert numbers == list(range(1, limit + 1))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.ray
def test_a_killed_search_goes_on_from_the_last_checkpoints(tmp_path: Path) -> None:
    endless = scenario(tmp_path, stop={"training_iteration": 100_000})
    process = start("tune", endless, "--local-dir", str(tmp_path), warm_ray=False)
    wait_for(lambda: len(list(tmp_path.glob("*/*/checkpoints/checkpoint_*/manifest.json"))) >= 2, process)
    started = psutil.Process(process.pid).children(recursive=True)
    children = [one for one in started if not one.name().endswith("Agent")]  # Ray's own agents notice a kill later
    process.kill()
    finish(process)
    assert psutil.wait_procs(children, timeout=60)[1] == []
    (directory,) = tmp_path.glob("search_tune_*")
    assert "RUNNING" in statuses(directory)
    limit = max(len(file.read_text().splitlines()) for file in directory.glob("*/result.json")) + 1
    code, _, err = finish(start("tune", "--resume", str(directory), "--stop-iters", str(limit)))
    assert code == 0, err
    assert statuses(directory) == ["TERMINATED"] * 2
    for file in directory.glob("*/result.json"):
        numbers = [json.loads(line)["training_iteration"] for line in file.read_text().splitlines()]
        assert numbers == list(range(1, limit + 1))


GPUS = """
import ray, sys
import marl
from tests.tune import functions

ray.init(num_cpus=1, num_gpus=1, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1",
         object_store_memory=100 * 2**20)
found = marl.tune.run(
    functions.look_around,
    config={"number": marl.tune.grid_search([0, 1, 2, 3, 4, 5]), "together": 5, "num_gpus": 0.2},
    resources_per_trial={"cpu": 0, "gpu": lambda spec: spec.config.num_gpus},
    metric="running", local_dir=sys.argv[1], verbose=0,
)
assert ray.is_initialized()  # somebody else's Ray stays
first = found.trials[0].last_result
print(first["running"], first["pending"], [trial.status for trial in found.trials])
"""


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.ray
def test_five_trials_of_a_fifth_share_one_gpu_and_the_sixth_waits(tmp_path: Path) -> None:
    done = run_code(GPUS, tmp_path, timeout=400)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"5 1 {['TERMINATED'] * 6}"
