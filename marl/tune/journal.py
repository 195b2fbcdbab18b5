"""``tune.json``: what a search tries and how far it is. Enough to go on after a kill at any moment.

The results themselves are in the trials' run directories; this file only names them, so the folder can be moved.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from marl.errors import CheckpointError
from marl.inputs import read_json
from marl.runs.atomic import write_atomically
from marl.scenario.describe import to_plain
from marl.tune.plan import Plan, Planned

VERSION = 1
FILE = "tune.json"

PENDING, RUNNING, TERMINATED = "PENDING", "RUNNING", "TERMINATED"
STOPPED, ERROR, INTERRUPTED = "STOPPED", "ERROR", "INTERRUPTED"
ENDED = (TERMINATED, STOPPED)  # not to be played again


class Journal:
    """The state of every trial, on disk whenever it changes."""

    def __init__(self, directory: Path, head: Mapping[str, Any], plan: Plan) -> None:
        self.directory = directory
        self.head = dict(head)
        self.plan = plan
        self.status = [PENDING for _ in plan.trials]
        self.errors = ["" for _ in plan.trials]
        self.halted: set[int] = set()  # trials that the scheduler stopped before their end

    def directory_of(self, trial: Planned) -> Path:
        return self.directory / trial.directory

    @property
    def open_trials(self) -> list[Planned]:
        """Those that have not ended."""
        return [trial for trial in self.plan.trials if self.status[trial.index] not in ENDED]

    def note(self, index: int, status: str, error: str = "") -> None:
        """A trial has changed."""
        self.status[index], self.errors[index] = status, error
        self.write()

    @property
    def interrupted(self) -> bool:
        """Whether trials wait, although nothing runs any more."""
        return any(status in (PENDING, INTERRUPTED) for status in self.status)

    def settle(self) -> None:
        """Nothing runs any more: what still did was interrupted."""
        self.status = [INTERRUPTED if status == RUNNING else status for status in self.status]
        self.write()

    def recall(self, stored: Mapping[str, Any]) -> None:
        """Take over what had ended; with other stop conditions regular ends are open again."""
        kept = ENDED if stored["stop"] == to_plain(self.plan.stop) else (STOPPED,)
        self.status = [row["status"] if row["status"] in kept else PENDING for row in stored["trials"]]

    def write(self) -> None:
        plan = self.plan
        rows = [
            {
                "index": trial.index,
                "trial_id": trial.trial_id,
                "directory": str(trial.directory),
                "params": to_plain(trial.params),
                "status": self.status[trial.index],
                "error": self.errors[trial.index],
            }
            for trial in plan.trials
        ]
        content = {
            "version": VERSION,
            **self.head,
            "metric": plan.objective.metric,
            "mode": plan.objective.mode,
            "stop": to_plain(plan.stop),
            "tune": to_plain(plan.options),
            "trials": rows,
        }
        write_atomically(self.directory / FILE, json.dumps(content, indent=1) + "\n")


def read_journal(directory: Path) -> dict[str, Any]:
    """What a folder's ``tune.json`` holds."""
    file = directory / FILE
    if not file.is_file():
        there = sorted(str(found.parent) for found in directory.glob(f"*/{FILE}")) if directory.is_dir() else []
        hint = (
            f" Did you mean {there[-1]}?" if there else " Expected the folder that `marl tune` printed as `results:`."
        )
        raise CheckpointError(f"{directory} holds no {FILE}, so there is no search to go on with.{hint}")
    try:
        content = read_json(file)
        rows: Sequence[Mapping[str, Any]] = content["trials"]
        complete = bool(rows) and all({"trial_id", "directory", "params", "status"} <= row.keys() for row in rows)
        texts = [row[key] for row in rows for key in ("trial_id", "directory", "status")] if complete else []
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("a trial's id, directory and status have to be texts")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{file} is damaged ({error}). Start the search anew.") from error
    if content.get("version") != VERSION or not complete or not isinstance(content.get("stop"), dict):
        raise CheckpointError(f"{file} is of another version, or incomplete. Start the search anew.")
    for row in rows:
        if (
            row["directory"] in (".", "..") or Path(row["directory"]).name != row["directory"]
        ):  # never a way out of the folder
            raise CheckpointError(f"{file} is damaged: {row['directory']!r} is no name of a run directory.")
    return dict(content)
