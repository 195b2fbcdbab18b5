"""A run's own Ray is nobody else's, and its death ends the run in order; clusters are joined only where they are named."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from marl.errors import ResourceError
from marl.rollout.ray_instance import _knock, _own_handlers, _temporary
from marl.runs.files import RunFiles
from marl.runs.result import without_wall_clock
from tests.processes import Process, start
from tests.training.trees import differences

ROOT = Path(__file__).parents[2]
SCENARIO: dict[str, Any] = {
    "env": "two_step_game", "algo": {"name": "ppo", "train_batch_size": 64}, "num_workers": 1, "checkpoint_freq": 1,
    "model": {"fcnet_hiddens": [4]}, "evaluation": {"interval": 0}, "seed": 3, "keep_checkpoints": 3,
}  # fmt: skip
OTHER = """
import ray, sys
ray.init(address="local", num_cpus=1, include_dashboard=False, logging_level="ERROR", object_store_memory=100 * 2**20)
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""
OWN = """
import json, os, ray, stat, subprocess, sys, psutil
from pathlib import Path
from marl.training.trainer import Trainer

before = dict(os.environ)
trainer = Trainer("ppo", env="two_step_game", config={"num_workers": 1, "train_batch_size": 16})
trainer.train()
here = psutil.Process()
found = [c.laddr.ip for p in [here, *here.children(recursive=True)] for c in p.net_connections("tcp")
         if c.status == psutil.CONN_LISTEN]
token = Path(trainer.workers.foreach_worker(lambda worker: os.environ.get("RAY_AUTH_TOKEN_PATH"))[1])
ASK = "import sys; from ray._raylet import GcsClient; GcsClient(address=sys.argv[1]).internal_kv_keys(b'', None)"
address = ray.get_runtime_context().gcs_address
asked = subprocess.run([sys.executable, "-c", ASK, address], env=before | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64},
                       capture_output=True, text=True)
modes = [stat.S_IMODE(path.stat().st_mode) for path in (token, token.parent)]
trainer.stop()
print(json.dumps({
    "address": address, "listening": sorted(set(found)), "modes": modes, "refused": asked.stderr.strip().splitlines()[-1],
    "left": [str(token.parent)] if token.parent.exists() else [],
    "environment": {key for key in before.items() ^ os.environ.items() if "AUTH" in key[0] or "ADDRESS" in key[0]} == set(),
}))
"""


@pytest.fixture(scope="module")
def other_ray() -> Iterator[str]:
    """The address of somebody else's Ray on this machine."""
    other = subprocess.Popen(
        [sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"RAY_AUTH_MODE": "disabled"},
    )  # fmt: skip
    assert other.stdout is not None
    yield other.stdout.readline().strip()
    other.communicate(timeout=60)


@pytest.mark.slow
@pytest.mark.ray
def test_a_run_has_a_ray_of_its_own_on_loopback_behind_a_token_whatever_else_is_there(
    other_ray: str, tmp_path: Path
) -> None:
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text("127.0.0.1:1")  # of a cluster that is gone
    environment = os.environ | {"RAY_ADDRESS": other_ray, "RAY_TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", OWN], env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["address"] != other_ray
    assert {address.removeprefix("::ffff:") for address in found["listening"]} == {"127.0.0.1"}
    assert found["modes"] == [0o600, 0o700]
    assert "AuthenticationError" in found["refused"]
    assert found["left"] == []
    assert found["environment"]


@pytest.mark.slow
@pytest.mark.ray
def test_a_run_joins_a_cluster_that_is_running(other_ray: str) -> None:
    code = (
        "import ray; from marl import Trainer; "
        f"t = Trainer('ppo', env='two_step_game', config={{'num_workers': 1, 'train_batch_size': 16, 'address': {other_ray!r}}}); "
        "t.train(); print(ray.get_runtime_context().gcs_address); t.stop()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=240, env=os.environ | {"RAY_AUTH_MODE": "disabled"}
    )  # fmt: skip
    assert done.stdout.strip().splitlines()[-1] == other_ray, done.stderr


def test_an_address_where_nothing_answers_is_an_error_with_the_address() -> None:
    with pytest.raises(ResourceError, match=r"no Ray cluster answers at '127\.0\.0\.1:1'"):
        _knock("127.0.0.1:1")
    with pytest.raises(ResourceError, match=r"no Ray cluster answers at 'nowhere\.invalid:99999'"):
        _knock("nowhere.invalid:99999")


def test_address_auto_names_the_address_that_it_led_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(ResourceError, match=r"no Ray cluster answers at '127\.0\.0\.1:1' \(found by address: auto\)"):
        _knock("auto")


def test_rays_folder_is_where_its_sockets_can_have_their_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", "/data/scratch")
    assert _temporary() == "/data/scratch"
    monkeypatch.setenv("RAY_TMPDIR", "/data" * 20)
    assert _temporary() == "/tmp"


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.parametrize(
    ("victim", "called"), [("raylet", "raylet"), pytest.param("gcs_server", "GCS", marks=pytest.mark.long)]
)
def test_the_death_of_ray_ends_a_run_with_the_command_to_go_on_and_loses_nothing(
    victim: str, called: str, tmp_path: Path
) -> None:
    (tmp_path / "game.yaml").write_text(yaml.safe_dump(SCENARIO))
    run = marl("run", "game.yaml", "--local-dir", "killed", cwd=tmp_path)
    while not (kept := sorted(tmp_path.glob("killed/*/*/checkpoints/checkpoint_*"))):
        assert run.poll() is None
        time.sleep(0.05)
    family = psutil.Process(run.pid).children(recursive=True)
    next(process for process in family if process.name() == victim).kill()
    out, err = run.communicate(timeout=60)
    assert run.returncode == 1, err
    place = kept[0].parents[1]
    assert f"marl run --resume {place.relative_to(tmp_path)}" in out + err
    assert f"error: Ray's {called} process died" in err or "error: Ray died" in err
    assert "Traceback" not in out + err
    assert psutil.wait_procs(family, timeout=20)[1] == []

    end = str(len(list(RunFiles(place).results())) + 2)
    here = ("--stop-iters", end, "--set", "pool=in_process")  # gives the same numbers, and starts faster
    again = marl("run", "--resume", str(place), *here, cwd=tmp_path)
    straight = marl("run", "game.yaml", "--local-dir", "straight", *here, cwd=tmp_path)
    assert (again.wait(120), straight.wait(120)) == (0, 0)
    (other,) = tmp_path.glob("straight/*/*/result.json")
    assert differences(numbers(place), numbers(other.parent)) == []


TERMINATED = """
import os, signal
from marl.rollout.ray_instance import start_own_ray, stop_ray
start_own_ray(1)
try:
    os.kill(os.getpid(), signal.SIGTERM)
    signal.pause()
except KeyboardInterrupt:
    print("as Ctrl-C")
stop_ray()
"""


@pytest.mark.ray
def test_sigterm_ends_a_driver_of_ray_as_ctrl_c_does_and_not_without_a_word() -> None:
    ended = subprocess.run([sys.executable, "-c", TERMINATED], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout) == (0, "as Ctrl-C\n"), ended.stderr


def test_a_handler_that_was_there_before_ray_stays() -> None:
    def mine(*_: object) -> None: ...

    before = signal.signal(signal.SIGTERM, mine)
    try:
        with _own_handlers():
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(15))
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)


def marl(*words: str, cwd: Path) -> Process:
    return start(*words, cwd=cwd, env=os.environ | {"PYTHONPATH": str(ROOT)})


def numbers(place: Path) -> list[dict[str, Any]]:
    """What a run wrote about itself, but for times, names and how it was played."""
    lines = [without_wall_clock(line) for line in RunFiles(place).results()]
    return [
        {key: value for key, value in line.items() if key not in ("config", "trial_id", "experiment_id")}
        for line in lines
    ]
