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
from marl.runs.result import Result, look_up
from marl.scenario.load import apply, read_yaml
from marl.scenario.resolve import resolve
from marl.training.trainer import Trainer
from marl.tune.config import tune_config
from marl.tune.outcome import TrialOutcome, Tuning
from marl.tune.sweep import search_scenario
from marl.tune.trial import newest_checkpoint
from proofs.declaration import Places, Proof
from proofs.opening import Opening, Weights, numbers_of, opening_of
from proofs.results import SeedResult

OPENING_ITERATIONS = 2


def run_search(proof: Proof, places: Places, seed: int, directory: Path | None) -> SeedResult:
    """One search; its trials have seeds of their own, from this one on. Without a directory nothing is kept."""
    started = time.perf_counter()
    with TemporaryDirectory() as folder:
        found = _search(proof, places, seed, proof.tune, proof.budget, directory or folder)
        evaluations = medians(found, proof.fields)
    return SeedResult(seed, evaluations, round(time.perf_counter() - started, 2))


def open_search(proof: Proof, places: Places, seed: int) -> Opening:
    """Two iterations of all trials; a population is compared and perturbed after the first of them."""
    steps = resolve(places.load(proof, seed)).iteration_steps
    tune = dict(proof.tune)
    if "perturbation_interval" in tune:
        tune["perturbation_interval"] = steps
    with TemporaryDirectory() as folder:
        found = _search(proof, places, seed, tune, OPENING_ITERATIONS * steps, folder)
        weights: dict[str, Any] = {}
        rows = []
        for trial in found.trials:
            arrays, evaluation = _after(trial)
            weights |= {f"{trial.index} {policy}": held for policy, held in arrays.items()}
            rows += [numbers_of(proof, result) for result in (*trial.results, {"evaluation": evaluation})]
    return opening_of(OPENING_ITERATIONS, weights, rows)


def _after(trial: TrialOutcome) -> tuple[Weights, Result]:
    """What a trial has learned, and what it earns with that."""
    checkpoint = newest_checkpoint(trial.directory)
    if checkpoint is None:
        raise TrainingError(f"trial {trial.index} in {trial.directory} has no checkpoint.")
    with Trainer.from_checkpoint(checkpoint) as trainer:
        return trainer.get_weights(), trainer.evaluate()


def _search(proof: Proof, places: Places, seed: int, tune: dict[str, Any], steps: int, folder: Path | str) -> Tuning:
    keys, options = _keys(proof, places, seed, steps), tune_config(tune, proof.name)
    found = search_scenario(keys, options, proof.name, local_dir=folder, verbose=0)
    for trial in found.failed:
        raise TrainingError(f"proof {proof.name!r}, seed {seed}: trial {trial.index} failed: {trial.error}")
    return found


def _keys(proof: Proof, places: Places, seed: int, steps: int) -> dict[str, Any]:
    keys = read_yaml(places.scenario(proof))
    changes = {**proof.set, **proof.search, "seed": seed, "stop": {"timesteps_total": steps}}
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
