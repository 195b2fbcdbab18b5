"""A word about envs whose episodes do not end: without an end there is no episode reward, and evaluations take for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING

from marl.rollout import episodes
from marl.runs.result import Result
from marl.training.extensions.extension import Extension
from marl.training.walks.source import WalkSource

if TYPE_CHECKING:
    from marl.training.trainer import Trainer


class Endless(Extension):
    """Says once that no episode has ended since the run began, after as many steps of each copy as evaluations wait."""

    name = "endless"

    def __init__(self) -> None:
        self.told = False

    def after_iteration(self, trainer: Trainer, result: Result) -> None:
        config = trainer.setup.rollout.config
        plays_none = config.input is not None or isinstance(trainer.source, WalkSource)
        if self.told or result["episodes_total"] or plays_none:
            return
        copies = max(1, config.num_workers) * config.num_envs_per_worker
        steps = trainer.timesteps_total // copies
        if steps >= episodes.PATIENCE:
            episodes.warn_of_endless(str(trainer.scenario.env), steps, config.horizon)
            self.told = True
