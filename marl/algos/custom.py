"""The user's own addition to a loss, and statistics of it: a small class and a name.

``marl.register_loss("imitate", Imitate)`` and ``algo: {custom_loss: imitate}``; ``package.module:Imitate`` needs no
registration.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from marl.algos.config import LearnerConfig
from marl.policies.custom import Shelf
from marl.policies.policy import Policy


class Loss(ABC):
    """Built once per policy as ``MyLoss(policy, config)`` with ``custom_loss_config``; called in every gradient step."""

    def __init__(self, policy: Policy, config: Mapping[str, Any]) -> None:
        self.policy, self.config = policy, dict(config)

    @abstractmethod
    def __call__(self, loss: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        """The loss to minimise instead of ``loss``; ``batch`` are the columns of the minibatch, one row per decision."""

    def stats(self) -> dict[str, float]:
        """More numbers for the policy's learner stats, after a training batch."""
        return {}


LOSSES: Shelf[Loss] = Shelf("custom_loss", Loss)


def register_loss(name: str, loss: type[Loss]) -> None:
    """Let ``algo: {custom_loss: name}`` find this class."""
    LOSSES.register(name, loss)


def build_losses(policies: Mapping[str, Policy], configs: Mapping[str, LearnerConfig]) -> dict[str, Loss]:
    """The custom losses of those policies that have one."""
    found = {name: (policy, configs[name]) for name, policy in policies.items() if configs[name].custom_loss}
    return {
        name: LOSSES.find(config.custom_loss)(policy, config.custom_loss_config)
        for name, (policy, config) in found.items() if config.custom_loss is not None
    }  # fmt: skip
