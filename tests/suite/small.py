"""A suite of seconds: the two-step game with two algorithms, and how its runs are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from marl.analysis.report.curves import read_results
from marl.runs.result import without_wall_clock
from marl.suite.load import load_suite
from marl.suite.plan import Plan, plan_suite
from marl.suite.run import How, Ran, run_suite
from marl.suite.screen import Screen

PPO = {"train_batch_size": 64, "sgd_minibatch_size": 64, "num_sgd_iter": 1, "lr": 0.01}
DQN = {
    "timesteps_per_iteration": 64,
    "learning_starts": 64,
    "train_batch_size": 16,
    "updates_per_step": 0.05,
    "lr": 0.01,
}
SMALL: dict[str, Any] = {
    "suite": "small",
    "seeds": 2,
    "budget": 256,
    "scenario": {"model": {"fcnet_hiddens": [8]}, "evaluation": {"interval": 1, "episodes": 2}, "checkpoint_freq": 2},
    "envs": {"two": {"env": "two_step_game"}},
    "algos": {"ppo": PPO, "dqn": DQN},
}


def written(folder: Path, **changes: Any) -> Path:
    """The suite as a file."""
    file = folder / "small.yaml"
    file.write_text(yaml.safe_dump({**SMALL, **changes}, sort_keys=False), encoding="utf-8")
    return file


def planned(folder: Path, out: Path | None = None, **changes: Any) -> Plan:
    return plan_suite(load_suite(written(folder, **changes)), out or folder / "out")


def trained(plan: Plan, how: How | None = None, screen: Screen | None = None) -> Ran:
    return run_suite(plan, plan.cells, how or How(), screen or silent())


def silent() -> Screen:
    return Screen(Console(quiet=True))


def numbers_in(out: Path) -> dict[str, list[dict[str, Any]]]:
    """All that a suite's runs have measured, without clocks, by run directory."""
    found = {}
    for file in sorted(out.glob("*/*/seed_*/result.json")):
        results = [without_wall_clock(result) for result in read_results(file)]
        found[str(file.parent.relative_to(out))] = results
    return found
