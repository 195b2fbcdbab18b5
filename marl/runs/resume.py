"""Going on with a run, also from an older checkpoint or from ``best``: what then becomes of everything that is newer.

A run that goes on at iteration K has left its old future. Its newer checkpoints would be taken for the run's newest, so
they are set aside in ``abandoned/after_K``, with the results so far. That folder is a run directory of its own: it can be
played, compared and resumed. Nothing is deleted.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from marl.errors import CheckpointError
from marl.inputs import real_path
from marl.runs.checkpoint import (
    TO_PLAY,
    choose_checkpoint,
    copy_checkpoint,
    damage_of,
    has_part,
    read_part,
    same_state,
    strip,
)
from marl.runs.files import RunFiles, make_new_folder
from marl.runs.manifest import BEST, checkpoint_name, iteration_of, numbered
from marl.runs.tracking.tracker import memory_files

log = logging.getLogger(__name__)
TO_RESUME = ("learners", "workers", "replay")  # parts that training needs besides those to play
ABANDONED = "abandoned"
ONLY_TO_PLAY = "it holds only what is needed to play"


def find_resumable(path: Path) -> Path:
    """The checkpoint to go on from: the one that is named, or the newest undamaged one of a run that holds everything."""
    folder = choose_checkpoint(path, _fault_of)
    if not is_resumable(folder):
        raise CheckpointError(
            f"{folder} holds only what is needed to play (all but the newest `keep_resumable` checkpoints and `best` do), so "
            f"training cannot go on from it. {_resumable_beside(folder)}Or start a new run with `load: {{POLICY: {folder}}}`."
        )
    return folder


def resumable_in(directory: Path) -> Path | None:
    """The checkpoint from which the run in a directory goes on; None if it has none yet, an error if all are damaged."""
    if not numbered(directory / "checkpoints"):
        return None
    return find_resumable(directory)


def is_resumable(folder: Path) -> bool:
    """Whether the checkpoint lists all that training needs."""
    return all(has_part(folder, part) for part in TO_RESUME)


def holds_a_run(directory: Path) -> bool:
    """Whether a run has left results or checkpoints in a directory."""
    results = directory / "result.json"
    if results.is_file() and results.stat().st_size > 0:
        return True
    checkpoints = directory / "checkpoints"
    if (checkpoints / BEST).is_dir():
        return True
    return len(numbered(checkpoints)) > 0


def strip_older(checkpoints: Path, keep: int, spare: Path | None = None) -> None:
    """Leave everything in ``spare`` and the newest ``keep`` checkpoints, and what is needed to play in the others."""
    spared = None
    if spare is not None:
        spared = real_path(spare)  # it may have been named by a link
    whole = [folder for folder in numbered(checkpoints) if _holds_everything(folder)]
    for folder in whole[:-keep]:
        if real_path(folder) != spared:
            strip(folder, TO_PLAY)


def _holds_everything(folder: Path) -> bool:
    """Whether it lists all that training needs. Of its files only the manifest is read: the others may be large."""
    return not damage_of(folder, ()) and is_resumable(folder)


def leave_future(directory: Path, iteration: int, restored: Path | None) -> Path | None:
    """Set aside what a run directory holds of later iterations than the one at which the run goes on; returns the place."""
    newer = _abandoned_by(directory / "checkpoints", iteration, restored)
    if not newer:
        return None
    try:
        # A run may go back to the same iteration more than once.
        place = make_new_folder(directory / ABANDONED / f"after_{iteration:06d}")
        # Results first, checkpoints last: after a kill in between, the run still has all its checkpoints where they were.
        (place / "checkpoints").mkdir()
        _copy_results(directory, place, newer)
        for file in memory_files(directory):
            os.rename(file, place / file.name)
        for folder in newer:
            os.rename(folder, place / "checkpoints" / folder.name)
    except OSError as error:
        raise CheckpointError(
            f"could not set aside the checkpoints of {directory} that are newer than iteration {iteration}: {error}. Check "
            f"free space and permissions there, move them away yourself ({', '.join(map(str, newer))}), and try again."
        ) from error
    log.warning(
        "the run goes on at iteration %d: %s and the results so far were set aside in %s; play or resume them there",
        iteration, ", ".join(folder.name for folder in newer), place,
    )  # fmt: skip
    return place


def keep_as_numbered(directory: Path, iteration: int, restored: Path) -> None:
    """Let ``best`` be the run's newest checkpoint too, if the run went back to it: that is where it goes on after a kill."""
    checkpoints = directory / "checkpoints"
    if real_path(restored) != real_path(checkpoints / BEST):
        return
    numbered_one = checkpoints / checkpoint_name(iteration)
    if numbered_one.is_dir() and not _fault_of(numbered_one):
        return
    copy_checkpoint(restored, numbered_one)


def _abandoned_by(checkpoints: Path, iteration: int, restored: Path | None) -> list[Path]:
    """Checkpoints that do not belong to the past of the run as it goes on."""
    newer = [folder for folder in numbered(checkpoints) if iteration_of(folder) > iteration]
    same = checkpoints / checkpoint_name(iteration)
    is_other = restored is not None and same.is_dir() and not same_state(same, restored)
    if is_other:
        newer.insert(0, same)  # of another continuation of the same run
    best = checkpoints / BEST
    best_at = _iteration_in(best)
    if best_at is None or best_at <= iteration:
        return newer
    if newer:
        return [*newer, best]
    # After a kill between two checkpoints: an unchanged run meets this evaluation again.
    log.warning(
        "%s is of iteration %d, and the run goes on at %d: it stays until an evaluation is the best so far",
        best, best_at, iteration,
    )  # fmt: skip
    return []


def _iteration_in(folder: Path) -> int | None:
    if not folder.is_dir():
        return None
    try:
        return int(read_part(folder, "run")["counters"]["iteration"])
    except (CheckpointError, KeyError, TypeError, ValueError):
        return None


def _copy_results(directory: Path, place: Path, newer: Sequence[Path]) -> None:
    """What makes the place a run directory: results, and the keys with which they came about."""
    for name in ("result.json", "progress.csv", "params.json", "params.yaml"):
        if (directory / name).is_file():
            shutil.copyfile(directory / name, place / name)
    # The params in the directory may be newer by now; those that count stand in the checkpoints that go along.
    for folder in reversed(newer):
        if damage_of(folder, ["run"]):
            continue
        scenario = read_part(folder, "run")["scenario"]
        RunFiles(place).write_params(scenario)
        return


def _resumable_beside(folder: Path) -> str:
    names = []
    for other in [*numbered(folder.parent), folder.parent / BEST]:
        if other.is_dir() and _holds_everything(other):
            names.append(other.name)
    if not names:
        return ""
    return f"Beside it these hold everything: {', '.join(names)}. "


def _fault_of(folder: Path) -> str:
    """Why training cannot go on from a checkpoint; empty if it can."""
    # The manifest first: without a valid one nobody can say which parts there are.
    fault = damage_of(folder, ())
    if fault:
        return fault
    if not is_resumable(folder):
        return ONLY_TO_PLAY
    return damage_of(folder)
