"""Algorithms that each break one promise, so that the checker can be seen to notice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from marl.algos.central_critic.config import CentralCriticConfig
from marl.algos.central_critic.learner import CentralCriticLearner
from marl.algos.family import Family, Preset
from marl.algos.learner import Brief, Metrics
from marl.data.batch import MultiAgentBatch
from marl.data.task import Floats
from marl.errors import ConfigError, TrainingError
from marl.policies.policy import Decision, Inputs
from marl.policies.stochastic import StochasticPolicy


class Idle(CentralCriticLearner):
    """Looks at everything and learns nothing."""

    def learn(self, batch: MultiAgentBatch) -> Metrics:
        return {}


class Forgetful(CentralCriticLearner):
    """Begins with fresh moments of Adam after a restore."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        for optimiser in self.optimisers.values():
            optimiser.load_state_dict({})


class Meddling(CentralCriticLearner):
    """Moves frozen policies a little as well."""

    def learn(self, batch: MultiAgentBatch) -> Metrics:
        for name in set(self.policies) - self.trained:
            with torch.no_grad():
                next(self.policies[name].parameters()).mul_(1.000001)
        return super().learn(batch)


class Lopsided(CentralCriticLearner):
    """Pays the first copy of the world double."""

    def learn(self, batch: MultiAgentBatch) -> Metrics:
        rewards = batch.rewards.copy()
        rewards[:, 0] *= 2
        return super().learn(replace(batch, rewards=rewards))


class Exploding(CentralCriticLearner):
    """Reports a number that is none."""

    def learn(self, batch: MultiAgentBatch) -> Metrics:
        return {name: {**row, "odds": float("nan")} for name, row in super().learn(batch).items()}


class Fragile(CentralCriticLearner):
    """Gives up in the middle of training when somebody is absent."""

    def learn(self, batch: MultiAgentBatch) -> Metrics:
        if not batch.present.all():
            raise TrainingError("somebody is absent.")
        return super().learn(batch)


class Choosy(CentralCriticLearner):
    """Refuses agents with different spaces before the start."""

    @classmethod
    def build(cls, brief: Brief) -> CentralCriticLearner:
        if len(brief.task.kinds) > 1:
            raise ConfigError("all agents must have equal spaces.")
        return super().build(brief)


class Careless(StochasticPolicy):
    """Does not look at masks."""

    def act(self, inputs: Inputs, carry: Floats, rng: np.random.Generator, *, explore: bool) -> Decision:
        return super().act(replace(inputs, legal=np.ones_like(inputs.legal)), carry, rng, explore=explore)


def preset(learner: str, acts: str = "stochastic", name: str = "") -> Preset:
    """Of the learner's own name, unless it has another."""
    family = Family(
        "broken", CentralCriticConfig, f"tests.algos.broken_learners:{learner}", acts, ("StochasticSampling",),
        on_policy=True,
    )  # fmt: skip
    return Preset(name or learner.lower(), family, {}, "Breaks a promise.")
