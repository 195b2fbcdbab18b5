"""Proofs about whole searches: a population of trials instead of one run.

What counts is the median trial: at every evaluation, the median of the field over all trials of the search.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from marl.errors import TrainingError
from marl.runs.result import look_up
from marl.scenario.load import apply, read_yaml
from marl.tune.config import tune_config
from marl.tune.outcome import Tuning
from marl.tune.sweep import search_scenario
from proofs.declaration import Places, Proof
from proofs.results import SeedResult


def run_search(proof: Proof, places: Places, seed: int, directory: Path | None) -> SeedResult:
    """One search; its trials have seeds of their own, from this one on. Without a directory nothing is kept."""
    started = time.perf_counter()
    with TemporaryDirectory() as folder:
        found = search_scenario(
            _keys(proof, places, seed),
            tune_config(proof.tune, proof.name),
            proof.name,
            local_dir=directory or folder,
            verbose=0,
        )
        for trial in found.failed:
            raise TrainingError(f"proof {proof.name!r}, seed {seed}: trial {trial.index} failed: {trial.error}")
        evaluations = medians(found, proof.fields)
    return SeedResult(seed, evaluations, round(time.perf_counter() - started, 2))


def _keys(proof: Proof, places: Places, seed: int) -> dict[str, Any]:
    keys = read_yaml(places.scenario(proof))
    changes = {**proof.set, **proof.search, "seed": seed, "stop": {"timesteps_total": proof.budget}}
    for key, value in changes.items():
        apply(keys, key, value)
    return keys


def medians(found: Tuning, fields: list[str]) -> list[tuple[int, dict[str, float]]]:
    """Env steps at which all trials were evaluated, and the median of each field there."""
    measured: dict[int, list[dict[str, float]]] = {}
    for trial in found.trials:
        for result in trial.results:
            values = {field: look_up(result, field) for field in fields}
            complete = {field: value for field, value in values.items() if value is not None}
            if len(complete) == len(fields):
                measured.setdefault(result["timesteps_total"], []).append(complete)
    curve = []
    for steps, rows in sorted(measured.items()):
        if len(rows) == len(found.trials):
            curve.append((steps, {field: median(row[field] for row in rows) for field in fields}))
    return curve
