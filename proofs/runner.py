"""Runs the seeds of a proof one after the other; each finished seed is on the disk before the next one begins.

Each seed has a process of its own, which has imported nothing but what the run needs: so the modules that it has loaded at its
end are exactly those that decided its numbers.
"""

from __future__ import annotations

import multiprocessing
import shutil
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from marl.errors import ConfigError, TrainingError, UserError
from marl.registry import load_object
from marl.runs.result import Result, look_up
from marl.scenario.config import Scenario
from marl.training.trainer import Trainer
from marl.trust import Sort
from proofs.clients import playing
from proofs.declaration import Places, Proof
from proofs.matches import play_matches
from proofs.results import Results, SeedResult, read_results, write_results
from proofs.sources import loaded, package_sources
from proofs.tables import joint_values

Progress: TypeAlias = Callable[[int, int, float | None], None]
"""Called after every iteration with the seed, its env steps and its newest evaluation."""
SeedDone: TypeAlias = Callable[[SeedResult], None]
Message: TypeAlias = tuple[int, int, float | None] | SeedResult | UserError
"""What comes from the process of a seed: its progress, and in the end its result or why there is none."""


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
    """Run what is missing; results that are not current are replaced. An interruption loses the current seed only."""
    path = places.results / f"{proof.name}.json"
    results = None if force else read_results(path)
    if results is None or not results.current(fingerprint, package_sources()):
        results = Results(fingerprint)
    for seed in results.missing(proof):
        directory = runs / proof.name / f"seed_{seed}" if runs is not None else None
        result = run_apart(proof, places, seed, directory, progress)
        results.add(result)
        write_results(path, proof, results)
        done(result)
    return results


def run_apart(proof: Proof, places: Places, seed: int, directory: Path | None, progress: Progress) -> SeedResult:
    """``run_seed`` in a fresh process."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_run_and_tell, args=(proof, places, seed, directory, there))
    process.start()
    there.close()  # the process holds the other end, so its death is seen here
    try:
        while True:
            message: Message = here.recv()
            if isinstance(message, SeedResult):
                return message
            if isinstance(message, UserError):
                raise message
            progress(*message)
    except EOFError:
        process.join()
        raise TrainingError(
            f"proof {proof.name!r}: the process of seed {seed} died (exit code {process.exitcode}); its last words are above."
        ) from None
    except KeyboardInterrupt:
        process.terminate()
        raise
    finally:
        process.join()


def _run_and_tell(proof: Proof, places: Places, seed: int, directory: Path | None, there: Connection) -> None:
    """The whole life of a seed's process."""
    package = package_sources()
    try:
        result = run_seed(proof, places, seed, directory, lambda *news: there.send(news))
    except UserError as error:
        there.send(error)
        return
    except KeyboardInterrupt:
        return  # the parent was told as well
    result.sources = loaded(package)
    there.send(result)


def run_seed(proof: Proof, places: Places, seed: int, directory: Path | None, progress: Progress) -> SeedResult:
    """Train through the budget and keep every evaluation. Nothing but ``directory`` is written."""
    if proof.tune:
        from proofs.searches import run_search  # with all that a search loads, on which no other proof depends

        return run_search(proof, places, seed, directory)
    if proof.prepare is None:
        return _run_seed(proof, places.load(proof, seed), seed, directory, progress)
    with TemporaryDirectory() as folder:
        prepare = load_object(proof.prepare, Sort(f"proof {proof.name!r}, prepare", creators=True))
        if not callable(prepare):
            raise ConfigError(f"proof {proof.name!r}: prepare {proof.prepare!r} is no function.")
        prepare(folder)
        return _run_seed(proof, places.load(proof, seed, Path(folder)), seed, directory, progress)


def _run_seed(proof: Proof, scenario: Scenario, seed: int, directory: Path | None, progress: Progress) -> SeedResult:
    started = time.perf_counter()
    outcome = SeedResult(seed, [], 0.0)
    if directory is not None and (directory / "result.json").exists():
        shutil.rmtree(directory)  # of an earlier proof, which this one replaces
    with Trainer(scenario=scenario, directory=directory) as trainer, playing(trainer, proof.clients):
        while True:
            result = trainer.train()
            if "evaluation" in result or "exploitability" in result:
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
