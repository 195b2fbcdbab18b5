"""Runs the list of envs: each one is checked, trained for two iterations and played from its checkpoint, without user code.

Every env has a process of its own, so that a crash in a game's C code is its own result and its memory can be told.
"""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np

from marl.envs.check import examine
from marl.envs.check.examine import STEPS
from marl.errors import UserError
from marl.play.playback import RolloutOptions, play
from marl.training.trainer import Trainer
from proofs.declaration import Places
from proofs.envs import Case, CaseResult, fingerprint_of_case, versions, write_case
from proofs.sources import loaded, package_sources

ITERATIONS = 2
ROLLOUT_STEPS = 40  # env steps that are played from the checkpoint


def sweep(cases: Sequence[Case], places: Places, done: Callable[[Case, CaseResult], None]) -> list[CaseResult]:
    """Run these envs one after the other; each result is on the disk before the next one begins."""
    results = []
    for case in cases:
        result = _run_apart(case)
        result.fingerprint = fingerprint_of_case(case)
        write_case(case, places, result)
        done(case, result)
        results.append(result)
    return results


def _run_apart(case: Case) -> CaseResult:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            return pool.submit(run_case, case).result()
        except BrokenProcessPool as error:
            return CaseResult(case.name, versions=versions(), failure=f"the process died: {error}")


def run_case(case: Case, check_steps: int = STEPS) -> CaseResult:
    """All stages of one env in this process; the first error ends it."""
    warnings.simplefilter("ignore")  # PettingZoo warns of its own deprecations
    started = time.perf_counter()
    result, package = CaseResult(case.name, versions=versions()), package_sources()
    stage = "check"
    try:
        _check(case, result, check_steps)
        with tempfile.TemporaryDirectory() as directory:
            stage = "train"
            checkpoint = _train(case, Path(directory) / "run", result)
            stage = "rollout"
            (tally,) = play(checkpoint, RolloutOptions(steps=ROLLOUT_STEPS), say=lambda _: None)
            result.rollout = tally.summary()
    except UserError as error:
        result.failure = f"{stage}: {error}"
    except Exception as error:
        result.failure = f"{stage} raised {type(error).__name__}: {error}"
    result.sources = loaded(package)
    result.peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    result.seconds = round(time.perf_counter() - started, 1)
    return result


def _check(case: Case, result: CaseResult, steps: int) -> None:
    report = examine(case.env, case.scenario().env_config, steps)
    result.env = report.as_json()["world"]
    result.findings = {problem.code: str(problem) for problem in report.problems}


def _train(case: Case, directory: Path, result: CaseResult) -> Path:
    """Two iterations; gives the checkpoint after them."""
    with Trainer(scenario=case.scenario(), directory=directory) as trainer:
        before = {name: {k: v.copy() for k, v in w.items()} for name, w in trainer.get_weights().items()}
        for _ in range(ITERATIONS):
            row = trainer.train()
        result.env_steps = row["timesteps_total"]
        learners = row["info"]["learner"]
        result.losses = {name: numbers["learner_stats"]["total_loss"] for name, numbers in learners.items()}
        after = trainer.get_weights()
        result.unchanged = [
            name for name, old in before.items() if all(np.array_equal(old[k], after[name][k]) for k in old)
        ]
        return trainer.save()
