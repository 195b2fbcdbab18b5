"""What the run's policies would earn, by the recordings that they learn from: ``off_policy_estimator``, without playing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from marl.errors import UserError
from marl.offline.estimators import ESTIMATORS
from marl.offline.judging import Judge
from marl.offline.source import RecordedEpisodes, who_plays_all
from marl.runs.result import Result
from marl.scenario.config import Scenario
from marl.training.extensions.extension import Extension

if TYPE_CHECKING:
    from marl.training.trainer import Trainer

FIELD = "off_policy_estimator"


class Estimates(Extension):
    """Estimates on all recorded episodes, every ``off_policy_interval`` iterations and at the end."""

    name = "estimates"

    def __init__(self, scenario: Scenario) -> None:
        self.estimators = list(dict.fromkeys(scenario.off_policy_estimator))
        self.interval, self.gamma = scenario.off_policy_interval, scenario.off_policy_gamma
        for estimator in self.estimators:
            ESTIMATORS[estimator]  # an unknown name is refused here

    def join(self, trainer: Trainer) -> None:
        """Refuse recordings that tell nothing before anything is learned from them."""
        if not self.estimators:
            return
        try:
            self._judge(trainer)
        except UserError:
            trainer.workers.stop()  # the trainer is not there yet, so nobody else would
            trainer.learning.stop()
            raise

    @staticmethod
    def _judge(trainer: Trainer) -> Judge:
        assert isinstance(trainer.source, RecordedEpisodes)  # the key needs `input`
        data, setup = trainer.source.data, trainer.setup
        return Judge(data, trainer.policies, list(setup.roles), who_plays_all(setup, data))

    def after_iteration(self, trainer: Trainer, result: Result) -> None:
        if self.estimators and trainer.iteration % self.interval == 0:
            result[FIELD] = self.measure(trainer)

    def after_done(self, trainer: Trainer, result: Result) -> None:
        if result["done"] and self.estimators and FIELD not in result:
            result[FIELD] = self.measure(trainer)

    def measure(self, trainer: Trainer) -> Result:
        # Built anew each time, which costs little: policies may have come or gone.
        return dict(self._judge(trainer).measure(self.estimators, self.gamma))
