"""A run that learns in lock-step and is killed goes on bit by bit: what clients reported since is in its journal."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from marl.driving import drive
from marl.errors import StoppedWaitingError
from marl.runs.saved import SavedRun
from marl.training.trainer import Trainer
from tests.serve.runs import external, played_here, same_weights, told, weights_of

KEYS: dict[str, Any] = {
    "algo": "ppo", "train_batch_size": 64, "sgd_minibatch_size": 32, "num_sgd_iter": 2, "num_envs_per_worker": 2,
    "evaluation": {"interval": 0}, "seed": 5, "log_sys_usage": False, "horizon": 20,
}  # fmt: skip


def stop_soon(trainer: Trainer, steps: int) -> None:
    """As a signal would, in the middle of a round."""

    def watch() -> None:
        counters = trainer.workers.service.hub.counters
        while counters.answered < steps:
            time.sleep(0.001)
        trainer.workers.stop_waiting()

    threading.Thread(target=watch, daemon=True).start()


def stay(url: str, name: str) -> None:
    """A client that comes again when its server does."""
    drive("CartPole-v1", url, name=name, patience=4.0)


def test_a_run_that_was_stopped_in_the_middle_of_a_round_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    lines, here = played_here("CartPole-v1", KEYS, 4)
    keys = external("CartPole-v1", KEYS)
    with Trainer(env="external", config=keys, directory=tmp_path) as trainer:
        url = trainer.workers.serve()
        port = int(url.rpartition(":")[2])
        named = [threading.Thread(target=stay, args=(url, f"c{i}"), daemon=True) for i in range(2)]
        for thread in named:
            thread.start()
        found = [told(trainer.train())]
        trainer.save()
        found.append(told(trainer.train()))
        stop_soon(trainer, 150)
        with pytest.raises(StoppedWaitingError):
            trainer.train()
        trainer.save()
    again = {**keys, "external": {**keys["external"], "port": port}}
    with Trainer(env="external", config=again, directory=tmp_path, fresh=False) as trainer:
        trainer.restore(tmp_path)
        found += [told(trainer.train()) for _ in range(2)]
        counters = trainer.workers.service.hub.counters
        assert (counters.lost, counters.doubled) == (0, 0)
        assert counters.replayed > 0
        assert same_weights(weights_of(trainer), here)
    for thread in named:
        thread.join(20.0)
    assert found == lines


def begun(scenario: dict[str, Any], folder: Path) -> tuple[subprocess.Popen[str], str]:
    """``marl run`` in a process of its own, and where it listens."""
    (folder / "external.yaml").write_text(yaml.safe_dump(scenario))
    words = [sys.executable, "-m", "marl.run", str(folder / "external.yaml"), "--local-dir", str(folder / "results")]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        found = re.search(r"clients: (\S+)", line)
        if found is not None:
            return process, found[1]
    raise AssertionError("it never said where it listens")


@pytest.mark.slow
@pytest.mark.parametrize("lock_step", [True, False])
def test_sigterm_ends_a_run_that_waits_for_clients_at_once_with_a_checkpoint_and_tells_those_who_wait(
    lock_step: bool, tmp_path: Path
) -> None:
    keys = external("CartPole-v1", {**KEYS, "train_batch_size": 10_000}, lock_step=lock_step)
    keys = {**keys, "env": "external", "stop": {"timesteps_total": 100_000}, "name": "waiting"}
    process, url = begun(keys, tmp_path)
    told_why: list[str] = []

    def client() -> None:
        told_why.append(drive("CartPole-v1", url, patience=5.0).why)

    thread = threading.Thread(target=client, daemon=True)
    thread.start()
    while not told_why and _accepted(url) < 1:  # of two copies one still waits for its client
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60.0)
    thread.join(20.0)
    assert process.returncode == 130, out
    assert "stopping; clients are told so" in out
    assert "Traceback" not in out
    assert "the server is gone" in "".join(told_why)
    (directory,) = (tmp_path / "results").glob("*/*/")
    assert SavedRun.open(directory, need=("learners", "workers", "replay")).folder.is_dir()


def _accepted(url: str) -> int:
    from urllib.request import urlopen

    with urlopen(f"{url}/v1/metrics") as response:
        found = re.search(r"^marl_accepted_total (\d+)", response.read().decode(), re.MULTILINE)
    return 0 if found is None else int(found[1])
