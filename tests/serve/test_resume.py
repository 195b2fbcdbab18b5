"""A run that learns in lock-step and is killed goes on bit by bit: what clients reported since is in its journal."""

from __future__ import annotations

import json
import os
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
from tests.serve.runs import driven, external, played_here, same_weights, told, weights_of

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


def test_a_run_that_was_stopped_in_the_middle_of_a_round_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    lines, here = played_here("CartPole-v1", KEYS, 4)
    keys = external("CartPole-v1", KEYS)
    with Trainer(env="external", config=keys, directory=tmp_path) as trainer:
        url = trainer.workers.serve()
        port = int(url.rpartition(":")[2])
        players = driven(url, "CartPole-v1", 2, {})
        named = [threading.Thread(target=drive, args=("CartPole-v1", url), kwargs={"name": f"c{i}"}) for i in range(2)]
        del players
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
        thread.join(5.0)
    assert found == lines
