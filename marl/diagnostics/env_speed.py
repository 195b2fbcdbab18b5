"""How fast an env is collected from and learned from here, by copies, workers and device (``marl tune-throughput``).

More is not always faster: copies share one forward pass but make rounds longer, workers cost messages and weights, a GPU costs
copies of small batches. So it is measured. Collecting is timed by itself, and together with learning, as in a run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import torch

from marl.training.trainer import Trainer

WARM_UP = 8  # steps of each copy before the clock starts
Clock = Callable[[], float]


@dataclass(frozen=True)
class Setting:
    """What a run can choose."""

    num_workers: int
    num_envs_per_worker: int
    device: str = "cpu"

    def __str__(self) -> str:
        numbers = f"num_workers: {self.num_workers}, num_envs_per_worker: {self.num_envs_per_worker}"
        if self.device == "cpu":
            return numbers
        return f"{numbers}, {self.device}"


@dataclass(frozen=True)
class Speed:
    """Env steps per second of one setting."""

    setting: Setting
    collecting: float
    training: float  # collecting and learning

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self.setting), "collecting": self.collecting, "training": self.training}


def settings(workers: Sequence[int], copies: Sequence[int]) -> list[Setting]:
    """All of them; on a machine with a GPU every one twice."""
    devices = ["cpu"]
    if torch.cuda.is_available():
        devices.append("cuda")
    return [Setting(number, each, device) for device, number, each in product(devices, workers, copies)]


def measure(keys: Mapping[str, Any], chosen: Sequence[Setting], seconds: float) -> Iterator[Speed]:
    """Speeds of these settings, one after the other; ``keys`` are those of a scenario."""
    for setting in chosen:
        config = {**keys, **asdict(setting), "evaluation": {"interval": 0}}  # evaluations would count as training
        with Trainer(config=config) as trainer:
            trainer.workers.collect(WARM_UP)
            collecting = rate(partial(_collected, trainer), seconds)
            yield Speed(setting, collecting, rate(partial(_trained, trainer), seconds))


def _collected(trainer: Trainer) -> int:
    return trainer.workers.collect(trainer.setup.fragment).env_steps


def _trained(trainer: Trainer) -> int:
    steps: int = trainer.train()["timesteps_this_iter"]
    return steps


def rate(play: Callable[[], int], seconds: float, clock: Clock = time.perf_counter) -> float:
    """Env steps per second of a call that gives how many it made; called for so many seconds, at least once."""
    started, steps = clock(), 0
    while True:
        steps += play()
        # Looked at after whole calls, whose lengths differ: the rate is of what was really played.
        took = clock() - started
        if took >= seconds:
            return steps / took


def advice(speeds: Sequence[Speed]) -> list[str]:
    """What the numbers say, in sentences."""
    best = max(speeds, key=_training)
    lines = [f"fastest: {best.setting} ({best.training:,.0f} env steps per second with learning)"]
    lines += _with_workers(speeds, best.setting)
    fastest: dict[str, float] = {}
    for speed in sorted(speeds, key=_training):
        fastest[speed.setting.device] = speed.training
    if "cuda" in fastest:
        times = fastest["cuda"] / fastest["cpu"]
        lines.append(f"the GPU against the CPU: {times:.2f} times as fast")
    else:
        lines.append(
            "the GPU: none here. For small networks and batches it is often slower; measure where there is one."
        )
    return lines


def _with_workers(speeds: Sequence[Speed], best: Setting) -> list[str]:
    """What workers bring with as many copies of the env as the fastest has; nothing where they were not tried."""
    alone: Speed | None = None
    several: list[Speed] = []
    for speed in speeds:
        setting = speed.setting
        if setting == replace(best, num_workers=0):
            alone = speed
        if setting.num_workers and setting.num_envs_per_worker == best.num_envs_per_worker:
            several.append(speed)
    if alone is None or not several:
        return []
    top = max(several, key=_training)
    times = top.training / alone.training
    return [f"{top.setting.num_workers} Ray worker(s) against none: {times:.2f} times as fast"]


def _training(speed: Speed) -> float:
    return speed.training
