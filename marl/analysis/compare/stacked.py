"""The seeds of one entrant of a comparison, trained in one process at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from marl.inputs import real_path
from marl.runs.lock import check_unlocked
from marl.runs.resume import resumable_in
from marl.scenario.config import Scenario
from marl.training.display import Progress, Quiet
from marl.training.stacked import run_stack
from marl.training.trainer import Trainer

Tell = Callable[[float], None]
"""Called with the part of the training that is done."""


def train_stack(scenarios: Sequence[Scenario], directories: Sequence[Path], tell: Tell) -> None:
    """Train each scenario into its directory, or go on there; ``KeyboardInterrupt`` when that was stopped.

    A seed that fails does not stop the others; its error is raised when they are done.
    """
    for directory in directories:
        check_unlocked(directory)
    parts = dict.fromkeys(directories, 0.0)
    with ExitStack() as opened:
        trainers = []
        for scenario, directory in zip(scenarios, directories, strict=True):
            checkpoint = resumable_in(real_path(directory))
            trainer = opened.enter_context(Trainer(scenario=scenario, fresh=checkpoint is None))
            trainer.store.enter(directory, checkpoint)
            trainers.append(trainer)
        outcomes = run_stack(trainers, [_Part(parts, directory, tell) for directory in directories])
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
        if outcome.interrupted:
            raise KeyboardInterrupt


class _Part(Quiet):
    """A display that hands on how far all seeds are together."""

    def __init__(self, parts: dict[Path, float], mine: Path, tell: Tell) -> None:
        self._parts, self._mine, self._tell = parts, mine, tell

    def start(self, header: Sequence[str]) -> None:
        del header
        self._tell(sum(self._parts.values()))

    def update(self, result: Mapping[str, Any], progress: Progress) -> None:
        del result
        self._parts[self._mine] = progress.fraction
        self._tell(sum(self._parts.values()))
