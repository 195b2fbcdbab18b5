"""Training functions and an env that tests hand to Ray Tune; at module level, so that Ray's workers find them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from gymnasium import spaces

from marl.envs.base import EnvContext, MultiAgentEnv, StepResult
from marl.storage import write_atomically
from marl.training.trainer import Trainer
from marl.tune import Reporter


def climb(config: dict[str, Any], reporter: Reporter) -> None:
    """The value grows by ``slope`` in each iteration."""
    for step in range(1, 10):
        reporter(value=config["slope"] * step)


def statuses(directory: Path) -> list[str]:
    return [row["status"] for row in json.loads((directory / "tune.json").read_text())["trials"]]


def look_around(config: dict[str, Any], reporter: Reporter) -> None:
    """Tell how many trials run and how many wait. The first ones stay until number 0 has seen that all of them run
    together, and tell what it saw: so nobody has left before, whoever is faster, and one alone writes it down."""
    directory = reporter.directory.parent
    seen, photo = statuses(directory), directory / "together.json"
    if config["number"] < config["together"]:
        while not photo.exists():  # so when `seen` was read, nobody had left
            if config["number"] == 0 and seen.count("RUNNING") >= config["together"]:
                write_atomically(photo, json.dumps(seen))
            time.sleep(0.05)
            seen = statuses(directory)
        seen = json.loads(photo.read_text())
    reporter(running=seen.count("RUNNING"), pending=seen.count("PENDING"))


def stumble(config: dict[str, Any], reporter: Reporter) -> None:
    """Fails at its second step, unless it is lucky."""
    reporter(value=1.0)
    if not config["lucky"]:
        raise ValueError("bad luck")
    reporter(value=2.0)


def stumble_once(config: dict[str, Any], reporter: Reporter) -> None:
    """Fails when it is started for the first time."""
    before = reporter.directory / "was_here"
    lucky = before.exists()
    before.touch()
    stumble({"lucky": lucky}, reporter)


class Stairs(MultiAgentEnv):
    """One agent; every step pays the number of the phase."""

    possible_agents = ("a",)

    def __init__(self, config: EnvContext | dict[str, Any] | None = None) -> None:
        self.phase, self.steps = 0, 0

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Discrete(2)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Discrete(2)

    def set_phase(self, phase: int) -> None:
        self.phase = phase

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        self.steps = 0
        return {"a": 0}, {}

    def step(self, actions: dict[str, Any]) -> StepResult:
        self.steps += 1
        return StepResult({"a": 0}, {"a": float(self.phase)}, {"a": self.steps == 4}, {}, {})


def curriculum(config: dict[str, Any], reporter: Reporter) -> None:
    """Raise the phase on all copies of the env as soon as the present one pays what it can."""
    phase = 0
    keys = {"train_batch_size": 64, "sgd_minibatch_size": 32, "num_sgd_iter": 1, "evaluation": {"interval": 0}}
    with Trainer("ppo", env=Stairs, config={**keys, "num_workers": config["num_workers"]}) as trainer:
        while True:
            result = trainer.train()
            reporter(**result, phase=phase)
            if result["episode_reward_min"] is not None and result["hist_stats"]["episode_reward"][-1] >= 4 * phase:
                phase += 1
                trainer.workers.foreach_env(lambda env, phase=phase: env.set_phase(phase))


class Trapdoor(Stairs):
    """The process that plays it first dies in its eighth episode; ``marker`` remembers that it has happened."""

    def __init__(self, config: EnvContext) -> None:
        super().__init__(config)
        self.marker, self.episodes = Path(config["marker"]), 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.episodes += 1
        if self.episodes == 8 and not self.marker.exists():
            self.marker.touch()
            os._exit(1)
        return super().reset(seed=seed, options=options)
