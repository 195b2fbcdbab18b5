"""Greedy episodes on envs of their own, every ``evaluation.interval`` iterations and at the end; the best is remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from marl.runs.custom_metrics import pictures
from marl.runs.result import Result, episode_numbers, look_up
from marl.training.extensions.extension import Extension, episode_seed

if TYPE_CHECKING:
    from marl.training.trainer import Trainer


class Evaluation(Extension):
    """The last evaluation of a run, and the best value of ``evaluation.metric`` so far."""

    name = "evaluation"

    def __init__(self, interval: int) -> None:
        self.interval = interval
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
        trainer.hooks("on_evaluate_end", trainer=trainer, evaluation_metrics=block)
        return block

    def forget(self) -> None:
        """A new stage of a curriculum begins: what was measured before says nothing about it."""
        self.last = self.best = None
