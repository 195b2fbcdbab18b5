"""Runs the seeds of a proof one after the other; each finished seed is on the disk before the next one begins."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from marl.errors import ConfigError
from marl.runs.result import Result, look_up
from marl.scenario.config import Scenario
from marl.training.trainer import Trainer
from proofs.apart import apart
from proofs.clients import playing
from proofs.declaration import Places, Proof
from proofs.freshness import check_file
from proofs.matches import play_matches
from proofs.opening import play_opening
from proofs.prepare import prepared
from proofs.results import Results, SeedResult, Standing, read_results, write_results
from proofs.setting import setting_of
from proofs.sources import all_sources, loaded

Progress: TypeAlias = Callable[[int, int, float | None], None]
"""Called after every iteration with the seed, its env steps and its newest evaluation."""
SeedDone: TypeAlias = Callable[[SeedResult], None]


def run_proof(
    proof: Proof,
    places: Places,
    *,
    runs: Path | None,
    afresh: bool,
    until: float | None = None,
    progress: Progress,
    done: SeedDone,
) -> Results:
    """Run what is missing, or all seeds ``afresh``. An interruption loses the current seed only.

    No seed begins that would not end before ``until`` (of ``time.monotonic``), as far as earlier ones tell.
    """
    path = places.results / f"{proof.name}.json"
    known = read_results(path) or Results()
    takes = known.seconds(proof) / len(known.missing(proof) or proof.all_seeds)
    results = known
    if afresh or not known.seeds:
        path, results = _begin_again(proof, places)
    for seed in results.missing(proof):
        if until is not None and time.monotonic() + (takes if takes < float("inf") else 0.0) > until:
            break
        directory = runs / proof.name / f"seed_{seed}" if runs is not None else None
        result = run_apart(proof, places, seed, directory, progress)
        results.add(result)
        write_results(path, proof, results)
        done(result)
    if not results.missing(proof):
        write_results(places.results / f"{proof.name}.json", proof, results)
        places.unfinished(proof).unlink(missing_ok=True)
    return results


def _begin_again(proof: Proof, places: Places) -> tuple[Path, Results]:
    """Where new seeds gather until all are there, so that old results stay readable; and those that are there already."""
    path = places.unfinished(proof)
    begun = read_results(path)
    if begun is not None and check_file(path, proof, places, one_seed=False) == Standing("fresh"):
        return path, begun
    return path, Results(setting_of(proof, places))


def run_apart(proof: Proof, places: Places, seed: int, directory: Path | None, progress: Progress) -> SeedResult:
    """``run_seed`` in a fresh process: the modules that it has loaded at its end are those that decided its numbers."""
    name = f"proof {proof.name!r}, seed {seed}"
    result: SeedResult = apart(_run_with_sources, proof, places, seed, directory, news=progress, name=name)
    return result


def _run_with_sources(
    proof: Proof, places: Places, seed: int, directory: Path | None, progress: Progress
) -> SeedResult:
    sources = all_sources(proof, places)
    result = run_seed(proof, places, seed, directory, progress)
    result.sources = loaded(sources)
    return result


def run_seed(proof: Proof, places: Places, seed: int, directory: Path | None, progress: Progress) -> SeedResult:
    """The first iterations by themselves, then a training through the budget, of which every evaluation is kept.

    Nothing but ``directory`` is written.
    """
    with prepared(proof) as folder:
        first = play_opening(proof, places, seed, folder, None, lambda: progress(seed, 0, None))
        if proof.tune:
            from proofs.searches import run_search  # with all that a search loads, on which no other proof depends

            result = run_search(proof, places, seed, directory)
        else:
            result = _run_seed(proof, places.load(proof, seed, folder), seed, directory, progress)
    result.first = first
    return result


def _run_seed(proof: Proof, scenario: Scenario, seed: int, directory: Path | None, progress: Progress) -> SeedResult:
    started = time.perf_counter()
    outcome = SeedResult(seed, [], 0.0)
    if directory is not None and (directory / "result.json").exists():
        shutil.rmtree(directory)  # of an earlier proof, which this one replaces
    with Trainer(scenario=scenario, directory=directory) as trainer, playing(trainer, proof.clients):
        while True:
            result = trainer.train()
            if "evaluation" in result or "exploitability" in result:
                outcome.evaluations.append((result["timesteps_total"], values_of(proof, result)))
            newest = outcome.last(proof.fields[0]) if outcome.evaluations else None
            progress(seed, result["timesteps_total"], newest)
            met = bool(proof.reaches) and outcome.reached_at(proof.reaches, proof.budget) is not None
            if result["done"] or (met and proof.stop_when_reached):
                break
        if proof.tables:
            from proofs.tables import joint_values  # with the algorithm behind it, on which other proofs do not depend

            outcome.tables = joint_values(trainer)
        if proof.matches:
            outcome.matches = play_matches(trainer, proof.matches)
    outcome.wall_time_s = round(time.perf_counter() - started, 2)
    return outcome


def values_of(proof: Proof, result: Result) -> dict[str, float]:
    """The fields of the proof, from a result with an evaluation."""
    values = {}
    for field in proof.fields:
        value = look_up(result, field)
        if value is None:
            raise ConfigError(f"proof {proof.name!r}: {field!r} is no number of a result with an evaluation.")
        values[field] = value
    return values
