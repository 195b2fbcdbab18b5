"""Games for tests of the page: tables that can be worked out by hand, and a small population."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from marl import Trainer
from marl.gametheory.payoffs import PayoffTensor
from tests.analysis.runs import RPS, TINY

RPS_NAMES = ("rock", "paper", "scissors")


def rps_table(names: Sequence[str] = RPS_NAMES, stderr: float = 0.05) -> PayoffTensor:
    """Rock, paper and scissors, measured: each beats one by 1, give or take."""
    wins = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
    errors = np.where(wins == 0, 0.0, stderr)
    return PayoffTensor.two_player(wins, names, errors, np.full((3, 3), 100))


def crossplay(folder: Path, payoffs: PayoffTensor) -> Path:
    """What ``marl crossplay --out`` leaves."""
    folder.mkdir(parents=True)
    payoffs.save(folder / "payoffs.json")
    return folder


def population_run(folder: Path, **keys: Any) -> Path:
    """The directory of a run after two rounds of PSRO, with its NashConv."""
    population = {"kind": "psro", "round_timesteps": 64, "matches": 20, **keys}
    config = {**TINY["ppo"], **RPS, "population": population, "exploitability": {"interval": 1}}
    results = []
    with Trainer("ppo", config=config) as trainer:
        for _ in range(2):
            results.append(trainer.train())
        trainer.save(folder / "checkpoints" / "checkpoint_000002")
        assert trainer.population is not None
        (folder / "population.json").write_text(json.dumps(trainer.population.as_json()))
    kept = ("timesteps_total", "training_iteration", "population", "exploitability")
    lines = [json.dumps({key: result[key] for key in kept}) for result in results]
    (folder / "result.json").write_text("\n".join(lines) + "\n")
    (folder / "params.json").write_text(json.dumps({"exploitability": {"interval": 1}}))
    return folder
