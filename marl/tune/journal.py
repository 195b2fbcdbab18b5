"""``tune.json``: what a search tries and how far it is. Enough to go on after a kill at any moment.

The results themselves are in the trials' run directories; this file only names them, so the folder can be moved.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from marl.data.seal import check_seal, sealed
from marl.errors import CheckpointError
from marl.inputs import read_json
from marl.runs.atomic import write_atomically
from marl.scenario.describe import to_plain
from marl.tune.generations import FILE as HISTORY
from marl.tune.generations import History
from marl.tune.mutations import Values, with_values
from marl.tune.plan import Plan, Planned

VERSION = 2
UNSEALED = 1  # versions up to this one have no seal
FILE = "tune.json"

PENDING, RUNNING, TERMINATED = "PENDING", "RUNNING", "TERMINATED"
STOPPED, ERROR, INTERRUPTED = "STOPPED", "ERROR", "INTERRUPTED"
ENDED = (TERMINATED, STOPPED)  # not to be played again
TEXTS = ("trial_id", "directory", "status")  # entries of a trial that have to be texts


class Journal:
    """The state of every trial, on disk whenever it changes."""

    def __init__(self, directory: Path, head: Mapping[str, Any], plan: Plan) -> None:
        self.directory = directory
        self.head = dict(head)
        self.plan = plan
        self.status = [PENDING] * len(plan.trials)
        self.errors = [""] * len(plan.trials)
        self.halted: set[int] = set()  # trials that the scheduler stopped before their end
        self.history = History(directory)
        self.generation = 0  # generations of a population that have taken effect

    def directory_of(self, trial: Planned) -> Path:
        return self.directory / trial.directory

    def values_of(self, trial: Planned) -> Values:
        """What the keys that change in a population are for a trial at present."""
        population = self.plan.population
        if population is None:
            return {}
        values = population.values_in(trial.config)
        for copy in self.history.copies(self.generation):
            if copy.trial == trial.index:
                values = {**values, **copy.values}
        return values

    def now(self, trial: Planned) -> Planned:
        """A trial with the params and keys that it has at present; the plan knows those with which it began."""
        return self.with_values(trial, self.values_of(trial))

    def with_values(self, trial: Planned, values: Values) -> Planned:
        population = self.plan.population
        if population is None:
            return trial
        given = {key: value for key, value in values.items() if value is not None}
        params = dict(trial.params)
        for key, value in given.items():
            params[population.names[key]] = value
        return replace(trial, params=params, config=with_values(trial.config, given))

    @property
    def open_trials(self) -> list[Planned]:
        """Those that have not ended."""
        return [trial for trial in self.plan.trials if self.status[trial.index] not in ENDED]

    def note(self, index: int, status: str, error: str = "") -> None:
        """A trial has changed."""
        # On the disk at once: a search may be killed at any moment, and goes on from what stands there.
        self.status[index], self.errors[index] = status, error
        self.write()

    @property
    def interrupted(self) -> bool:
        """Whether trials wait, although nothing runs any more."""
        return any(status in (PENDING, INTERRUPTED) for status in self.status)

    def settle(self) -> None:
        """Nothing runs any more: what still did was interrupted."""
        for index, status in enumerate(self.status):
            if status == RUNNING:
                self.status[index] = INTERRUPTED
        self.write()

    def recall(self, stored: Mapping[str, Any]) -> None:
        """Take over what had ended; with other stop conditions regular ends are open again."""
        # A trial that the scheduler stopped was worse than others: a longer budget does not change that.
        kept: tuple[str, ...] = (STOPPED,)
        if stored["stop"] == to_plain(self.plan.stop):
            kept = ENDED
        if self.plan.population is not None:
            self.history = History.read(self.directory, len(self.plan.trials), self.plan.population.names)
            self.generation = self._generation_in(stored)
        for index, row in enumerate(stored["trials"]):
            self.status[index] = PENDING
            if row["status"] in kept:
                self.status[index] = row["status"]
            if self.history.lost(index):  # others were compared without it: again with it, they would decide otherwise
                self.status[index], self.errors[index] = ERROR, str(row.get("error", ""))

    def _generation_in(self, stored: Mapping[str, Any]) -> int:
        """How many generations have taken effect. At most one more was decided on: the two files have to be of one moment."""
        generation, decided = stored.get("generation", 0), len(self.history.generations)
        if generation not in (decided, decided - 1) or not isinstance(generation, int) or generation < 0:
            raise CheckpointError(
                f"{self.directory / FILE} says that {generation!r} generations have taken effect, and {HISTORY} tells of "
                f"{decided}. The files do not belong together. Start the search anew."
            )
        return int(generation)

    def write(self) -> None:
        plan = self.plan
        rows = []
        for trial in plan.trials:
            row = {
                "index": trial.index,
                "trial_id": trial.trial_id,
                "directory": str(trial.directory),
                "params": to_plain(trial.params),
                "status": self.status[trial.index],
                "error": self.errors[trial.index],
            }
            rows.append(row)
        content = {
            "version": VERSION,
            **self.head,
            "metric": plan.objective.metric,
            "mode": plan.objective.mode,
            "stop": to_plain(plan.stop),
            "tune": to_plain(plan.options),
            "trials": rows,
        }
        if plan.population is not None:
            content["generation"] = self.generation
        write_atomically(self.directory / FILE, json.dumps(sealed(content), indent=1) + "\n")


def read_journal(directory: Path) -> dict[str, Any]:
    """What a folder's ``tune.json`` holds."""
    file = directory / FILE
    if not file.is_file():
        raise _no_search_in(directory)
    try:
        content = read_json(file)
        version = content.get("version")
        known_version = version in (UNSEALED, VERSION)
        if known_version:
            check_seal(content, required=version > UNSEALED)
        complete = _are_complete(content["trials"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{file} is damaged ({error}). Start the search anew.") from error
    if not known_version or not complete or not isinstance(content.get("stop"), dict):
        raise CheckpointError(f"{file} is of another version, or incomplete. Start the search anew.")
    for row in content["trials"]:
        # Trials write into these directories: the file may be a stranger's, so a name is never a way out of the folder.
        name = row["directory"]
        if name in (".", "..") or Path(name).name != name:
            raise CheckpointError(f"{file} is damaged: {name!r} is no name of a run directory.")
    return dict(content)


def _no_search_in(directory: Path) -> CheckpointError:
    hint = "Expected the folder that `marl tune` printed as `results:`."
    searches = sorted(directory.glob(f"*/{FILE}"))
    if searches:
        hint = f"Did you mean {searches[-1].parent}?"
    return CheckpointError(f"{directory} holds no {FILE}, so there is no search to go on with. {hint}")


def _are_complete(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether there are trials, and each has all its entries; a ``TypeError`` where a text is something else."""
    if not rows:
        return False
    for row in rows:
        if not {"params", *TEXTS} <= row.keys():
            return False
    for row in rows:
        for key in TEXTS:
            if not isinstance(row[key], str):
                raise TypeError("a trial's id, directory and status have to be texts")
    return True
