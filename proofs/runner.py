"""Runs the seeds of a proof one after the other; each finished seed is on the disk before the next one begins."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from marl.errors import ConfigError
from marl.training.result import Result, look_up
from marl.training.trainer import Trainer
from proofs.declaration import Places, Proof
from proofs.matches import play_matches
from proofs.results import Results, SeedResult, read_results, write_results
from proofs.tables import joint_values

Progress: TypeAlias = Callable[[int, int, float | None], None]
"""Called after every iteration with the seed, its env steps and its newest evaluation."""
SeedDone: TypeAlias = Callable[[SeedResult], None]


def run_proof(
    proof: Proof,
    places: Places,
    fingerprint: str,
    *,
    runs: Path | None,
    force: bool,
    progress: Progress,
    done: SeedDone,
) -> Results:
    """Run what is missing; results of another fingerprint are replaced. An interruption loses the current seed only."""
    path = places.results / f"{proof.name}.json"
    results = None if force else read_results(path)
    if results is None or results.fingerprint != fingerprint:
        results = Results(fingerprint)
    for seed in results.missing(proof):
        directory = runs / proof.name / f"seed_{seed}" if runs is not None else None
        results.seeds[seed] = run_seed(proof, places, seed, directory, progress)
        write_results(path, proof, results)
        done(results.seeds[seed])
    return results


def run_seed(proof: Proof, places: Places, seed: int, directory: Path | None, progress: Progress) -> SeedResult:
    """Train through the budget and keep every evaluation. Nothing but ``directory`` is written."""
    started = time.perf_counter()
    outcome = SeedResult(seed, [], 0.0)
    with Trainer(scenario=places.load(proof, seed), directory=directory) as trainer:
        while True:
            result = trainer.train()
            if "evaluation" in result:
                outcome.evaluations.append((result["timesteps_total"], _values(proof, result)))
            newest = outcome.last(proof.fields[0]) if outcome.evaluations else None
            progress(seed, result["timesteps_total"], newest)
            met = bool(proof.reaches) and outcome.reached_at(proof.reaches, proof.budget) is not None
            if result["done"] or (met and proof.stop_when_reached):
                break
        if proof.tables:
            outcome.tables = joint_values(trainer)
        if proof.matches:
            outcome.matches = play_matches(trainer, proof.matches)
    outcome.wall_time_s = round(time.perf_counter() - started, 2)
    return outcome


def _values(proof: Proof, result: Result) -> dict[str, float]:
    values = {}
    for field in proof.fields:
        value = look_up(result, field)
        if value is None:
            raise ConfigError(f"proof {proof.name!r}: {field!r} is no number of a result with an evaluation.")
        values[field] = value
    return values
