"""How a user's own training function tells its results: ``def train(config, reporter): ...; reporter(**result)``."""

from __future__ import annotations

import inspect
import os
import platform
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marl.errors import ConfigError
from marl.runs.files import RunFiles, to_plain
from marl.runs.manifest import checkpoint_name, iteration_of
from marl.runs.result import reached
from marl.runs.resume import resumable_in
from marl.tune.objective import Objective
from marl.tune.trial import report

if TYPE_CHECKING:
    from marl.training.trainer import Trainer


class EndOfTrial(BaseException):
    """Raised inside the reporter when a stop condition is met, so that the function's ``finally`` and ``with`` run."""


class Reporter:
    """Called with the fields of one result; what is missing (iteration, times, ids) is filled in.

    ``directory`` is the run directory of the trial, where every result is written down. ``checkpoint`` is what an
    earlier start of this trial saved last: None, unless a search was resumed.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        directory: Path,
        trial_id: str,
        objective: Objective,
        clock: str,
        stop: Mapping[str, float | bool],
        send: Callable[[dict[str, Any]], None],
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory, self.trial_id = directory, trial_id
        self.checkpoint = resumable_in(directory)
        self._iteration = 0
        if self.checkpoint is not None:
            self._iteration = iteration_of(self.checkpoint)
        self._objective, self._clock, self._stop, self._send = objective, clock, stop, send
        self._config = to_plain(config)
        self._files = RunFiles(directory)
        self._files.write_params(config)
        self._files.resume_at(self._iteration)  # results after the checkpoint come again
        self._seconds = 0.0  # of earlier starts
        past = self._files.results()
        if past:
            self._seconds = float(past[-1].get("time_total_s") or 0.0)
        self._started = self._last = time.monotonic()
        self._score: float | None = None

    def __call__(self, **result: Any) -> None:
        """One result. Does not come back once a stop condition is met or the scheduler has decided against the trial."""
        full = self._filled(result)
        self._iteration = int(full["training_iteration"])
        self._score = self._objective.after(self._score, full)
        self._files.append(full)
        # Ray Tune would end the process at once; the function ends by our exception, so that its `finally` runs.
        self._send({**report(full, self._score, self._clock, []), "done": False})
        if full["done"]:
            raise EndOfTrial

    def save(self, trainer: Trainer) -> Path:
        """A checkpoint of the trainer in the trial's directory, under the number of the last result."""
        return trainer.save(self.directory / "checkpoints" / checkpoint_name(self._iteration))

    def close(self) -> None:
        self._files.close()
        if self._files.results():
            self._files.draw_curve()

    def _filled(self, result: Mapping[str, Any]) -> dict[str, Any]:
        now, moment = time.monotonic(), datetime.now()
        # What comes before `result` the function may say itself; what comes after it is ours.
        filled = {
            "training_iteration": self._iteration + 1,
            "time_this_iter_s": now - self._last,
            "time_total_s": self._seconds + now - self._started,
            **result,
            "date": moment.strftime("%Y-%m-%d_%H-%M-%S"),
            "timestamp": int(moment.timestamp()),
            "pid": os.getpid(),
            "hostname": platform.node(),
            "trial_id": self.trial_id,
            "config": self._config,
        }
        self._last = now
        met = any(reached(filled, {field: float(value)}) for field, value in self._stop.items())
        return {**filled, "done": bool(result.get("done")) or met}


def check_function(function: Callable[..., Any]) -> None:
    """A training function takes the config, and the reporter if it reports more than once."""
    try:
        inspect.signature(function).bind(*[None] * max(1, arguments(function)))
    except (TypeError, ValueError) as error:
        name = getattr(function, "__name__", function)
        raise ConfigError(f"{name} cannot be called as train(config, reporter) or train(config): {error}.") from None


def arguments(function: Callable[..., Any]) -> int:
    """2 for ``train(config, reporter)``, 1 for ``train(config)``."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    named = [p for p in inspect.signature(function).parameters.values() if p.kind in kinds]
    return min(2, len(named))


def call(function: Callable[..., Any], config: Mapping[str, Any], reporter: Reporter) -> None:
    """Run a training function to its end; a dict that it gives back is its last result."""
    try:
        if arguments(function) == 2:
            given = function(dict(config), reporter)
        else:
            given = function(dict(config))
        if isinstance(given, Mapping):
            reporter(**given)
    except EndOfTrial:
        pass
    finally:
        reporter.close()
