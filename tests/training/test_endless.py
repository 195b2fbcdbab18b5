"""Envs whose episodes never end: the run says so with the remedy, and Ctrl-C gets out of an evaluation at once."""

from __future__ import annotations

import io
import os
import re
import signal
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from rich.console import Console

from marl.rollout import episodes
from marl.training import display as displays
from marl.training.display import LiveDisplay, PlainDisplay, Progress, Quiet
from marl.training.extensions import evaluation
from marl.training.loop import Outcome, run_until_stopped
from marl.training.trainer import Trainer

KEYS: dict[str, Any] = {"train_batch_size": 20, "sgd_minibatch_size": 10, "num_sgd_iter": 1, "fcnet_hiddens": [4]}
REMEDY = "--set horizon=1000"


class Forever(gym.Env[Any, Any]):
    """Ends after ``length`` steps; without one never."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, length: int | None = None) -> None:
        self.length = length

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self._seen(), {}

    def _seen(self) -> Any:
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        return self._seen(), float(action), self.t == self.length, False, {}


NAME = f"{__name__}:Forever"


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "horizon" in record.getMessage()]


def test_training_says_once_that_no_episode_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(episodes, "PATIENCE", 40)
    with Trainer("ppo", env=NAME, config=KEYS) as trainer:
        trainer.train()
        assert said(caplog) == []
        for _ in range(3):
            trainer.train()
    (text,) = said(caplog)
    assert text.startswith(f"env {NAME!r}: no episode has ended for 40 steps.")
    assert REMEDY in text


@pytest.mark.parametrize(("length", "horizon", "times"), [(170, None, 1), (30, None, 0), (None, 170, 0)])
def test_an_evaluation_says_that_its_episodes_are_long(
    length: int | None,
    horizon: int | None,
    times: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(episodes, "PATIENCE", 50)
    keys = {**KEYS, "env_config": {"length": length}, "horizon": horizon, "evaluation": {"episodes": 2}}
    with Trainer("ppo", env=NAME, config=keys) as trainer:
        assert trainer.evaluate()["episodes"] == 2
    assert len(said(caplog)) == times


def test_a_long_evaluation_on_ray_is_remarked_by_the_driver(caplog: pytest.LogCaptureFixture) -> None:
    evaluation.warn_of_long(200)
    assert said(caplog) == []
    evaluation.warn_of_long(None)
    assert REMEDY in said(caplog)[0]


class Impatient(Quiet):
    """Presses Ctrl-C as soon as an evaluation has begun."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.pressed = 0.0

    def busy(self, doing: str) -> None:
        if doing:
            threading.Timer(0.2, self._press).start()

    def _press(self) -> None:
        self.pressed = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    def note(self, text: str) -> None:
        self.told.append(text)


def run_into_an_endless_evaluation(folder: Path, workers: int) -> tuple[Outcome, float]:
    keys = {
        **KEYS,
        "evaluation": {"interval": 1, "episodes": 2},
        "stop": {"training_iteration": 5},
        "num_workers": workers,
    }
    display = Impatient()
    with Trainer("ppo", env=NAME, config=keys) as trainer:
        trainer.store.create(folder)
        outcome = run_until_stopped(trainer, display)
        took = time.monotonic() - display.pressed
    assert display.told == ["stopping; this evaluation is broken off, and made when the run goes on"]
    return outcome, took


def check_that_nothing_was_lost(outcome: Outcome, workers: int) -> None:
    assert outcome.interrupted
    assert outcome.result == {}  # the iteration is not over
    assert outcome.checkpoint.name == "checkpoint_000001"
    quiet = {"evaluation": {"interval": 0}, "pool": "in_process"}  # the same numbers as on Ray
    with Trainer.from_checkpoint(outcome.checkpoint, env=NAME, **quiet) as resumed:
        assert resumed.train()["training_iteration"] == 1
        resumed.train()
        after = resumed.policies["default_policy"].state_dict()
    with Trainer("ppo", env=NAME, config={**KEYS, **quiet, "num_workers": workers}) as never_stopped:
        never_stopped.train()
        never_stopped.train()
        for name, tensor in never_stopped.policies["default_policy"].state_dict().items():
            torch.testing.assert_close(after[name], tensor, rtol=0, atol=0)


def test_ctrl_c_ends_an_endless_evaluation_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    outcome, took = run_into_an_endless_evaluation(tmp_path, workers=0)
    assert took < 20  # it would never end by itself; a loaded machine may take its time to write
    check_that_nothing_was_lost(outcome, workers=0)


@pytest.mark.slow
@pytest.mark.ray
def test_ctrl_c_ends_an_endless_evaluation_on_ray_and_nothing_is_lost(tmp_path: Path) -> None:
    outcome, _ = run_into_an_endless_evaluation(tmp_path, workers=1)
    check_that_nothing_was_lost(outcome, workers=1)


def test_a_trainer_whose_evaluation_was_broken_off_can_evaluate_again() -> None:
    keys = {**KEYS, "env_config": {"length": 5}, "evaluation": {"episodes": 2}}
    with Trainer("ppo", env=NAME, config=keys) as trainer:
        first = trainer.evaluate()
        trainer.workers.abandon_evaluation()
        assert trainer.evaluate() == first


# -- what is shown ---------------------------------------------------------------------------------------------------


def test_plain_lines_say_evaluating_where_it_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(displays, "SECONDS_UNTIL_BUSY", 0.01)
    stream = io.StringIO()
    display = PlainDisplay(stream)
    display.busy("evaluating (2 episodes)")
    for _ in range(500):
        if stream.getvalue():
            break
        time.sleep(0.01)
    display.busy("")
    assert stream.getvalue() == "evaluating (2 episodes) ...\n"


def test_plain_lines_say_nothing_of_a_short_evaluation() -> None:
    stream = io.StringIO()
    display = PlainDisplay(stream)
    display.busy("evaluating (2 episodes)")
    waiting = display._waiting
    assert waiting is not None
    display.busy("")
    waiting.join(timeout=10)
    assert stream.getvalue() == ""


@pytest.mark.parametrize("rows", [0, 1])
def test_the_live_table_says_evaluating(rows: int) -> None:
    display = LiveDisplay(Console(width=100))
    line = {"training_iteration": 1, "timesteps_total": 10, "time_total_s": 1.0}
    for _ in range(rows):
        display.update(line, Progress(0.5, "training_iteration 1/2"))
    display.busy("evaluating (2 episodes)")
    console = Console(file=io.StringIO(), width=100)
    console.print(display._screen())
    shown = re.sub(r"\s+", " ", console.file.getvalue())  # type: ignore[attr-defined]
    assert "evaluating (2 episodes) ..." in shown
    display.busy("")
    console.print(display._screen())
    assert shown.count("evaluating") == 1
