"""Builders of small searches for the tests of tuning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from marl.tune.config import TuneConfig
from marl.tune.journal import Journal
from marl.tune.objective import Halving, Objective
from marl.tune.plan import Plan, Planned
from marl.tune.search import grid_search

SMALL: dict[str, Any] = {
    "env": "two_step_game",
    "train_batch_size": 64,
    "sgd_minibatch_size": 32,
    "num_sgd_iter": 1,
    "fcnet_hiddens": [8],
    "evaluation": {"interval": 0},
}
"""A scenario whose iterations take a few milliseconds."""

LRS = [0.001, 0.01, 0.1]


def small(**changes: Any) -> dict[str, Any]:
    return {**SMALL, "lr": grid_search(LRS), "stop": {"training_iteration": 3}, **changes}


def plan_of(
    params: list[dict[str, Any]],
    halving: Halving | None = None,
    objective: Objective | None = None,
    bundles: list[dict[str, float]] | None = None,
) -> Plan:
    trials = [
        Planned(i, f"abcde_{i:05d}", Path(f"TRIAL_{i}"), values, {}, bundles or [{"CPU": 1.0}])
        for i, values in enumerate(params)
    ]
    return Plan(trials, TuneConfig(), objective or Objective("score"), halving, {"training_iteration": 9})


def journal_of(directory: Path, plan: Plan) -> Journal:
    journal = Journal(directory, {"trainable": "scenario", "keys": {}}, plan)
    journal.write()
    return journal
