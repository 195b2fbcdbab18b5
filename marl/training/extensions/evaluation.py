"""Greedy episodes on envs of their own, every ``evaluation.interval`` iterations and at the end; the best is remembered."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from threading import Timer
from typing import TYPE_CHECKING, Any

from marl.data.episode import EpisodeStats
from marl.errors import ConfigError
from marl.failures import call_own
from marl.registry import load_object
from marl.rollout.config import EvaluationConfig
from marl.runs.custom_metrics import pictures
from marl.runs.result import Result, episode_numbers, look_up
from marl.training.extensions.extension import Extension, episode_seed
from marl.trust import Sort

if TYPE_CHECKING:
    from marl.training.trainer import Trainer

FUNCTION = Sort("evaluation.custom_function", creators=True)
log = logging.getLogger(__name__)
PATIENCE_S = 60.0  # seconds of an evaluation on Ray after which a word is due


def _to_nobody(text: str) -> None:
    del text


def warn_of_long(horizon: int | None) -> None:
    """Say what an evaluation without end may come from; with a ``horizon`` it has one."""
    if horizon is None:
        log.warning(
            "this evaluation has been running for %.0f seconds. If episodes do not end by themselves, cut them: set horizon "
            "in the scenario (--set horizon=1000). Ctrl-C stops; nothing is lost.",
            PATIENCE_S,
        )


class EvaluationBrokenOff(KeyboardInterrupt):
    """The first Ctrl-C came while an evaluation ran. All was learned, but the iteration is over only when it is measured."""


class Evaluation(Extension):
    """The last evaluation of a run, and the best value of ``evaluation.metric`` so far."""

    name = "evaluation"

    def __init__(self, config: EvaluationConfig) -> None:
        self.interval = config.interval
        self.function = _found(config.custom_function)
        self.last: Result | None = None
        self.best: float | None = None
        self.running = False
        self.unwanted = False  # whether one that begins now is broken off at once: the run is being stopped
        self._broken_off = False
        self.show: Callable[[str], None] = _to_nobody
        """Is told what is going on while an evaluation runs, and an empty text afterwards."""

    def after_iteration(self, trainer: Trainer, result: Result) -> None:
        if self.interval and trainer.iteration % self.interval == 0:
            self._measure_into(result, trainer)

    def after_done(self, trainer: Trainer, result: Result) -> None:
        # The last iteration is always measured, so that every run ends with numbers to compare.
        if result["done"] and self.interval and "evaluation" not in result:
            self._measure_into(result, trainer)
        if "evaluation" not in result:
            return
        # Pictures of an evaluation stand beside those of training, so that the run's files keep them.
        shown = result["evaluation"].pop("episode_media", {})
        for name, given in shown.items():
            result["episode_media"][f"evaluation/{name}"] = given
        self._remember(trainer, result["evaluation"])
        result["best_evaluation"] = self.best

    def break_off(self) -> None:
        """For a handler of signals, while an evaluation runs: nobody has to wait for episodes that may never end."""
        self._broken_off = True
        raise KeyboardInterrupt  # nothing else: Ray makes one of whatever a handler raises while it waits

    def _measure_into(self, result: Result, trainer: Trainer) -> None:
        """Measure, unless Ctrl-C comes: the trainer then keeps the iteration open until the evaluation is made."""
        try:
            result["evaluation"] = self.measure(trainer)
        except KeyboardInterrupt:
            if not self._broken_off:
                raise
            self._broken_off = False
            trainer.workers.abandon_evaluation()
            raise EvaluationBrokenOff from None

    def _remember(self, trainer: Trainer, block: Result) -> None:
        """The last evaluation, and the best, whose checkpoint is kept."""
        self.last = block
        value = look_up(block, trainer.scenario.evaluation.metric)
        if value is None:  # no episode, or not of the policy that counts
            return
        if self.best is None or value > self.best:
            self.best = value
            trainer.store.new_best()

    def measure(self, trainer: Trainer) -> Result:
        """The usual episodes, or what the user's own function makes of them."""
        block = self._usual(trainer) if self.function is None else self._own(trainer, self.function)
        trainer.hooks("on_evaluate_end", trainer=trainer, evaluation_metrics=block)
        return block

    def _own(self, trainer: Trainer, function: Callable[..., Any]) -> Result:
        what = f"evaluation.custom_function {getattr(function, '__name__', 'function')}"
        block = call_own(what, function, trainer, lambda: self._usual(trainer))
        if not isinstance(block, Mapping) or not all(isinstance(name, str) for name in block):
            raise ConfigError(
                f"{what} returned {type(block).__name__}; expected a dict of numbers by name, such as what play() returns."
            )
        return dict(block)

    def _usual(self, trainer: Trainer) -> Result:
        """Episode ``i`` has the seed (run seed, iteration, i)."""
        config = trainer.scenario.evaluation
        with trainer.timers("evaluation"):
            run_seed, iteration = trainer.scenario.seed, trainer.iteration
            seeds = [episode_seed(run_seed, iteration, i) for i in range(config.episodes)]
            stats = self._play(trainer, seeds)
        block = {**episode_numbers(stats, list(trainer.policies)), "episodes": len(stats)}
        shown = pictures(stats)
        if shown:
            block["episode_media"] = shown
        return block

    def _play(self, trainer: Trainer, seeds: list[int]) -> EpisodeStats:
        """The episodes, which may take any time; whoever waits is told what for."""
        config = trainer.scenario
        if self.unwanted:
            self.break_off()
        self.show(f"evaluating ({len(seeds)} episodes)")
        patience = Timer(PATIENCE_S, warn_of_long, (config.horizon,))
        patience.daemon = True
        if config.num_workers:  # in this process the episodes themselves say how long they are
            patience.start()
        try:
            self.running = True
            return trainer.workers.evaluate(seeds, config.evaluation.explore)
        finally:
            self.running = False
            patience.cancel()
            self.show("")

    def forget(self) -> None:
        """A new stage of a curriculum begins: what was measured before says nothing about it."""
        self.last = self.best = None


def _found(function: str | Callable[..., Any] | None) -> Callable[..., Any] | None:
    """The function behind ``evaluation.custom_function``; looked up before anything starts."""
    found = load_object(function, FUNCTION) if isinstance(function, str) else function
    if found is not None and not callable(found):
        raise ConfigError(f"evaluation.custom_function {function!r} is a {type(found).__name__}; expected a function.")
    return found
