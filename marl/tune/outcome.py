"""What a search found: every trial with its keys, its results and its directory, and the best of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from marl.errors import TrainingError
from marl.page import notebook
from marl.runs.files import RunFiles
from marl.runs.saved import PLACES_OF_NEW_RUNS, command_again, places_again
from marl.tune.generations import Generation
from marl.tune.journal import ERROR, Journal
from marl.tune.objective import Objective
from marl.tune.replay import schedule_for
from marl.tune.trial import newest_checkpoint


@dataclass(frozen=True)
class TrialOutcome:
    """One trial. Its results are read from its run directory when they are first asked for."""

    index: int
    trial_id: str
    directory: Path
    params: Mapping[str, Any]
    config: Mapping[str, Any]
    status: str
    error: str
    objective: Objective

    @cached_property
    def results(self) -> list[dict[str, Any]]:
        """Every result, oldest first."""
        return RunFiles(self.directory).results()

    @property
    def last_result(self) -> dict[str, Any]:
        if not self.results:
            return {}
        return self.results[-1]

    @property
    def best_result(self) -> Mapping[str, Any]:
        """The result that the score comes from; empty if there was none."""
        return self.objective.scored(self.results) or {}

    @property
    def score(self) -> float | None:
        """What the trial is compared by; None if it never had a value."""
        return self.objective.value(self.best_result)

    @property
    def checkpoint(self) -> Path | None:
        """What plays as the score says: ``best`` where it is chosen by the same field, else the newest checkpoint."""
        # The score and what is played belong together: the newest checkpoint may play worse than the best evaluation.
        best = self.directory / "checkpoints" / "best"
        if self.objective.keeps_best and best.is_dir():
            return best
        return newest_checkpoint(self.directory)


@dataclass(frozen=True)
class Tuning:
    """All trials of a search, in their order; ``interrupted``: Ctrl-C ended it, and it can go on."""

    directory: Path
    objective: Objective
    trials: list[TrialOutcome]
    interrupted: bool
    go_on: str = ""  # the command to go on with it
    generations: tuple[Generation, ...] = ()  # of a population: when trials were compared, and who copied whom
    schedules: Mapping[int, list[dict[str, Any]]] = field(default_factory=dict)
    """Of each trial of a population: the values by time with which its weights came about, as ``tune.schedule`` takes them."""

    @property
    def metric(self) -> str:
        return self.objective.metric

    @property
    def mode(self) -> str:
        return self.objective.mode

    @property
    def failed(self) -> list[TrialOutcome]:
        return [trial for trial in self.trials if trial.status == ERROR]

    @property
    def has_score(self) -> bool:
        return any(trial.score is not None for trial in self.trials)

    @property
    def best_trial(self) -> TrialOutcome:
        """The trial with the best score; of equal ones the first."""
        best, best_score = None, 0.0
        for trial in self.trials:
            value = trial.score
            if value is None:
                continue
            score = self.objective.sign * value
            if best is None or score > best_score:
                best, best_score = trial, score
        if best is None:
            raise TrainingError(
                f"no trial in {self.directory} has a value of {self.metric}. Let trials run longer, or choose another metric."
            )
        return best

    @property
    def best_config(self) -> Mapping[str, Any]:
        return self.best_trial.config

    @property
    def best_result(self) -> Mapping[str, Any]:
        return self.best_trial.best_result

    @property
    def best_checkpoint(self) -> Path | None:
        return self.best_trial.checkpoint

    def _repr_html_(self) -> str:
        """What a notebook shows of it: trials by their scores, the best ones first."""
        scored = [trial for trial in self.trials if trial.score is not None]
        scored.sort(key=lambda trial: -self.objective.sign * (trial.score or 0.0))
        rest = [trial for trial in self.trials if trial.score is None]
        rows = [(trial.trial_id, trial.status, trial.score, dict(trial.params)) for trial in [*scored, *rest]]
        titles = ("trial", "status", f"{self.metric} ({self.mode})", "keys")
        return notebook.block(f"Tuning: {len(rows)} trials in {self.directory}", notebook.table(titles, rows))


def outcome_of(journal: Journal) -> Tuning:
    """What the run directories hold."""
    plan = journal.plan
    trials = []
    schedules = {}
    for planned in plan.trials:
        trial = journal.now(planned)
        if plan.population is not None:
            schedules[trial.index] = schedule_for(journal, trial.index)
        outcome = TrialOutcome(
            trial.index,
            trial.trial_id,
            journal.directory_of(trial),
            trial.params,
            trial.config,
            journal.status[trial.index],
            journal.errors[trial.index],
            plan.objective,
        )
        trials.append(outcome)
    return Tuning(
        journal.directory,
        plan.objective,
        trials,
        journal.interrupted,
        command_to_go_on(journal),
        tuple(journal.history.generations),
        schedules,
    )


def command_to_go_on(journal: Journal) -> str:
    """What to type to go on with a search that was interrupted."""
    return command_again("marl tune", journal.directory, places_again(journal.head["keys"], PLACES_OF_NEW_RUNS))
