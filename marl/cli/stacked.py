"""``marl run --seeds 0..9 --stacked``: all seeds of a scenario in one process, each with its own run directory."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marl.cli.guard import keep_traceback, told_to_user
from marl.cli.last_words import after_failure, can_go_on, closing_lines, stopped_at_the_end
from marl.cli.options import Output
from marl.errors import StorageError, printable


@dataclass
class _Seed:
    """One of the runs."""

    trainer: Any
    display: Any
    fresh: bool


def train_together(scenarios: Sequence[Any], local_dir: Path | None, as_test: bool, output: Output) -> int:
    """Train a scenario with all its seeds; the same command goes on with runs that were stopped. Gives the exit code."""
    from marl.training.stacked import check_stack, run_stack

    check_stack(scenarios)
    numbers = [scenario.seed for scenario in scenarios]
    with _displayed(output, numbers) as displays, ExitStack() as opened:
        try:
            seeds = _open_all(scenarios, displays, local_dir, opened)
        except KeyboardInterrupt:
            displays[0].finish(["stopped before the first iteration; nothing was trained"])
            return 130
        try:
            outcomes = run_stack([seed.trainer for seed in seeds], displays)
        except KeyboardInterrupt:  # the second Ctrl-C
            for seed in seeds:
                seed.display.finish(after_failure(seed.trainer, seed.fresh))
            return 130
        errors = _tell_all(seeds, outcomes)
    _raise(errors)
    return _exit_code(seeds, outcomes, as_test)


def _exit_code(seeds: Sequence[_Seed], outcomes: Sequence[Any], as_test: bool) -> int:
    """Of a stack in which no seed failed."""
    if any(outcome.interrupted for outcome in outcomes):
        return 130
    if as_test and not all(seed.trainer.goal_met for seed in seeds):
        return 1
    return 0


def _open_all(
    scenarios: Sequence[Any], displays: Sequence[Any], local_dir: Path | None, opened: ExitStack
) -> list[_Seed]:
    """A trainer per seed in its run directory: a new one, or that of the same command when it was stopped."""
    from marl.runs.directories import default_results
    from marl.runs.files import safe_name
    from marl.runs.stacks import unfinished_stack
    from marl.scenario.describe import describe
    from marl.training.store import experiment_name

    place = (local_dir or default_results()).expanduser()
    experiment = place / safe_name(experiment_name(scenarios[0]), empty="default")
    there = unfinished_stack(experiment, {scenario.seed: describe(scenario) for scenario in scenarios})
    if there:
        displays[0].note(
            "these seeds were begun and not finished by the same command: they go on. For new runs give another --local-dir."
        )
    shared_id = secrets.token_hex(3)[:5]  # by which the runs of one command are found again
    seeds: list[_Seed] = []
    try:
        for index, (scenario, display) in enumerate(zip(scenarios, displays, strict=True)):
            if there:
                seed = _go_on(scenario, display, there[scenario.seed], opened)
            else:
                seed = _begin(scenario, display, place, index, shared_id, opened)
            seeds.append(seed)
    except BaseException:
        for seed in seeds:
            after_failure(seed.trainer, seed.fresh)  # a directory without results is not left behind
        raise
    return seeds


def _begin(scenario: Any, display: Any, place: Path, index: int, shared_id: str, opened: ExitStack) -> _Seed:
    from marl.training.trainer import Trainer

    trainer = Trainer(scenario=scenario)
    opened.enter_context(stopped_at_the_end(trainer))
    trainer.trial_id = shared_id
    trainer.workers.start()
    try:
        trainer.store.create(place, index)
    except StorageError:
        display.finish(after_failure(trainer, fresh=True))
        raise
    return _Seed(trainer, display, fresh=True)


def _go_on(scenario: Any, display: Any, directory: Path, opened: ExitStack) -> _Seed:
    from marl.inputs import real_path
    from marl.runs.resume import resumable_in
    from marl.training.trainer import Trainer

    checkpoint = resumable_in(real_path(directory))
    trainer = Trainer(scenario=scenario, fresh=checkpoint is None)
    opened.enter_context(stopped_at_the_end(trainer))
    trainer.store.enter(directory, checkpoint)
    return _Seed(trainer, display, fresh=False)


def _tell_all(seeds: Sequence[_Seed], outcomes: Sequence[Any]) -> list[Exception]:
    """What came out of each seed, one after the other; gives the errors of those that failed."""
    errors = []
    for seed, outcome in zip(seeds, outcomes, strict=True):
        trainer = seed.trainer
        title = f"seed {trainer.scenario.seed}:"
        if isinstance(outcome, Exception):
            kept = keep_traceback(outcome, trainer.store.directory)
            told = can_go_on(outcome, trainer)
            first_line = next(iter(str(told).splitlines()), "")
            title = printable(f"{title} failed, {type(told).__name__}: {first_line}")
            seed.display.finish([title, *kept, *after_failure(trainer, seed.fresh)])
            if told is not outcome:
                told.__cause__ = outcome
            errors.append(told)
        else:
            seed.display.finish([title, *closing_lines(trainer, outcome)])
    return errors


def _raise(errors: Sequence[Exception]) -> None:
    """End the command by an error, as the seed alone would have; of several all are told, and a mistake of marl goes first."""
    if not errors:
        return
    last = next((error for error in errors if told_to_user(error) is None), errors[-1])
    for error in errors:
        if error is not last:
            print(f"error: {printable(told_to_user(error) or error)}", file=sys.stderr)
    raise last


@contextmanager
def _displayed(output: Output, seeds: Sequence[int]) -> Iterator[Sequence[Any]]:
    """Where the seeds are shown; while JSON is printed, whatever else is printed goes to stderr."""
    from marl.training.seed_displays import json_displays, quiet_displays, seed_displays

    if output is Output.TABLE:
        yield seed_displays(seeds, sys.stdout)
    elif output is Output.QUIET:
        yield quiet_displays(seeds, sys.stdout)
    else:
        displays = json_displays(seeds, sys.stdout, sys.stderr)
        with redirect_stdout(sys.stderr):
            yield displays
