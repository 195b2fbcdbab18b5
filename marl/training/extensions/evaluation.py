"""Greedy episodes on envs of their own, every ``evaluation.interval`` iterations and at the end; the best is remembered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

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


class Evaluation(Extension):
    """The last evaluation of a run, and the best value of ``evaluation.metric`` so far."""

    name = "evaluation"

    def __init__(self, config: EvaluationConfig) -> None:
        self.interval = config.interval
        self.function = _found(config.custom_function)
        self.last: Result | None = None
        self.best: float | None = None

    def after_iteration(self, trainer: Trainer, result: Result) -> None:
        if self.interval and trainer.iteration % self.interval == 0:
            result["evaluation"] = self.measure(trainer)

    def after_done(self, trainer: Trainer, result: Result) -> None:
        # The last iteration is always measured, so that every run ends with numbers to compare.
        if result["done"] and self.interval and "evaluation" not in result:
            result["evaluation"] = self.measure(trainer)
        if "evaluation" not in result:
            return
        # Pictures of an evaluation stand beside those of training, so that the run's files keep them.
        shown = result["evaluation"].pop("episode_media", {})
        for name, given in shown.items():
            result["episode_media"][f"evaluation/{name}"] = given
        self._remember(trainer, result["evaluation"])
        result["best_evaluation"] = self.best

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
        block = self._play(trainer) if self.function is None else self._own(trainer, self.function)
        trainer.hooks("on_evaluate_end", trainer=trainer, evaluation_metrics=block)
        return block

    def _own(self, trainer: Trainer, function: Callable[..., Any]) -> Result:
        what = f"evaluation.custom_function {getattr(function, '__name__', 'function')}"
        block = call_own(what, function, trainer, lambda: self._play(trainer))
        if not isinstance(block, Mapping) or not all(isinstance(name, str) for name in block):
            raise ConfigError(
                f"{what} returned {type(block).__name__}; expected a dict of numbers by name, such as what play() returns."
            )
        return dict(block)

    def _play(self, trainer: Trainer) -> Result:
        """Episode ``i`` has the seed (run seed, iteration, i)."""
        config = trainer.scenario.evaluation
        with trainer.timers("evaluation"):
            run_seed, iteration = trainer.scenario.seed, trainer.iteration
            seeds = [episode_seed(run_seed, iteration, i) for i in range(config.episodes)]
            stats = trainer.workers.evaluate(seeds, config.explore)
        block = {**episode_numbers(stats, list(trainer.policies)), "episodes": len(stats)}
        shown = pictures(stats)
        if shown:
            block["episode_media"] = shown
        return block

    def forget(self) -> None:
        """A new stage of a curriculum begins: what was measured before says nothing about it."""
        self.last = self.best = None


def _found(function: str | Callable[..., Any] | None) -> Callable[..., Any] | None:
    """The function behind ``evaluation.custom_function``; looked up before anything starts."""
    found = load_object(function, FUNCTION) if isinstance(function, str) else function
    if found is not None and not callable(found):
        raise ConfigError(f"evaluation.custom_function {function!r} is a {type(found).__name__}; expected a function.")
    return found
