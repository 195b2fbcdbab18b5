"""What a run says at its end, however it ended: what came out, where it is, and how to go on."""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from marl.failures import machine_failure

log = logging.getLogger(__name__)


@contextmanager
def stopped_at_the_end(trainer: Any) -> Iterator[None]:
    """Workers and files are freed, whatever happens; what goes wrong meanwhile does not hide what went wrong before."""
    try:
        yield
    except BaseException as first:
        try:
            trainer.stop()
        except Exception as error:
            if str(error) != str(first):
                log.warning("while the run was being ended: %s: %s", type(error).__name__, error)
        raise
    trainer.stop()


def closing_lines(trainer: Any, outcome: Any) -> list[str]:
    """Whether the goal was met, how to go on, where everything is."""
    from marl.runs.result import look_up, unsure_of

    lines = []
    goal = trainer.scenario.goal
    if goal:
        verdict = "missed"
        if trainer.goal_met:
            verdict = "met"
        elif outcome.interrupted:
            verdict = "not met yet"
        wanted = ", ".join(f"{field} {value:g}" for field, value in goal.items())
        lines.append(f"goal {verdict}: {wanted}")
        # A figure may look good enough and still not count, by its standard error: then the user should read why.
        lines += unsure_of(trainer.last_result, goal)
    metric = trainer.scenario.evaluation.metric
    value = look_up(trainer.last_evaluation or {}, metric)
    if value is not None:
        lines.append(f"last evaluation: {metric} {value:.4g}")
    if outcome.interrupted:
        lines.append(f"stopped at iteration {trainer.iteration}. Go on with: {resume_command(trainer)}")
    # `results:` is always the last line: scripts read it.
    lines += [f"checkpoint: {outcome.checkpoint}", f"results: {outcome.directory}"]
    return lines


def after_failure(trainer: Any, fresh: bool) -> list[str]:
    """Where the last checkpoint is; a fresh run that wrote no result at all leaves nothing behind."""
    directory: Path | None = trainer.store.directory
    if directory is None:
        return []
    kept = sorted((directory / "checkpoints").glob("checkpoint_*"))
    if kept:
        last = f"last checkpoint: {kept[-1]}. Go on with: {resume_command(trainer)}"
        return [last, f"results: {directory}"]
    results = directory / "result.json"
    has_results = results.exists() and results.stat().st_size > 0
    # Empty run directories of failed starts would be what `marl runs` is full of.
    if fresh and not has_results:
        shutil.rmtree(directory, ignore_errors=True)
        return ["the run ended before its first result; nothing was kept"]
    return ["no checkpoint yet", f"results: {directory}"]


def can_go_on(error: Exception, trainer: Any) -> Exception:
    """Where nothing but the machine failed (disk, memory) and there is a checkpoint, the exit code is 1: the run can go on."""
    failure, directory = machine_failure(error), trainer.store.directory
    if failure is None:
        return error
    if directory is not None and any((directory / "checkpoints").glob("checkpoint_*")):
        # Of the same class, as callers of the command tell a full disk from too little memory.
        failure = type(failure)(f"{failure} Then go on with: {resume_command(trainer)}")
        failure.exit_code = 1
    return failure


def prepare_last_words(trainer: Any) -> None:
    """What is said if Ray dies and takes this process with it."""
    directory: Path | None = trainer.store.directory
    # Ray may end its driver by force, past every `except`: so the words are prepared beforehand.
    if directory is not None and "ray" in sys.modules:
        from marl.rollout.ray_instance import say_if_ray_dies

        say_if_ray_dies(
            "error: Ray died (its raylet or GCS process was killed, or ran out of memory) and ended the run.\n"
            f"Go on from its last checkpoint with: {resume_command(trainer)}\nresults: {directory}",
            by_force=True,
        )


def resume_command(trainer: Any) -> str:
    """What to type to go on."""
    from marl.runs.saved import command_again, places_again
    from marl.scenario.describe import describe

    return command_again("marl run", trainer.store.directory, places_again(describe(trainer.scenario)))
