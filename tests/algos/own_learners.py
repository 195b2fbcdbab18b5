"""Algorithms of a user's own."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from marl.algos.central_critic.config import CentralCriticConfig
from marl.algos.central_critic.learner import CentralCriticLearner
from marl.algos.learner import Metrics
from marl.data.batch import MultiAgentBatch
from marl.data.task import PolicyID


class CautiousConfig(CentralCriticConfig):
    """ppo with a key more."""

    patience: int = Field(3, description="Iterations to wait.")


class Cautious(CentralCriticLearner):
    """ppo that counts how often it was asked."""

    like = "ppo"
    config = CautiousConfig
    defaults: ClassVar[dict[str, object]] = {"lr": 0.125, "train_batch_size": 32}

    def learn(self, batch: MultiAgentBatch) -> Metrics:
        metrics = super().learn(batch)
        patience = {name: float(config.patience) for name, config in self.configs.items()}  # type: ignore[attr-defined]
        return {name: {**row, "patience": patience[name]} for name, row in metrics.items()}


class Nameless(CentralCriticLearner):
    """It does not say whose keys it takes."""


NOT_A_LEARNER = PolicyID
