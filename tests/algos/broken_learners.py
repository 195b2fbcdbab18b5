"""Algorithms that each break one promise, so that the checker can be seen to notice."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marl.algos.central_critic.config import CentralCriticConfig
from marl.algos.central_critic.learner import CentralCriticLearner
from marl.algos.family import Family, Preset
from marl.algos.learner import LearnerSpec, Metrics
from marl.algos.qmix.config import QmixConfig
from marl.algos.qmix.learner import QmixLearner
from marl.algos.qmix.minibatch import Minibatch
from marl.algos.qmix.values import Values
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
    """Pays the first copy of the env double."""

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
    def build(cls, spec: LearnerSpec) -> CentralCriticLearner:
        if len(spec.task.kinds) > 1:
            raise ConfigError("all agents must have equal spaces.")
        return super().build(spec)


class Unhurried(CentralCriticLearner):
    """Takes a schedule of the step size and does not look at it."""

    @classmethod
    def build(cls, spec: LearnerSpec) -> CentralCriticLearner:
        configs = {name: config.model_copy(update={"lr_schedule": None}) for name, config in spec.configs.items()}
        return super().build(replace(spec, configs=configs))


class Unbounded(CentralCriticLearner):
    """Takes a largest norm of the gradient and does not cut anything."""

    @classmethod
    def build(cls, spec: LearnerSpec) -> CentralCriticLearner:
        configs = {name: config.model_copy(update={"grad_clip": None}) for name, config in spec.configs.items()}
        return super().build(replace(spec, configs=configs))


class Nostalgic(QmixLearner):
    """Never updates its target networks."""

    def copy_to_targets(self) -> None:
        """Not now."""


class OldMixer(QmixLearner):
    """Updates its target networks, but not its target mixer."""

    def copy_to_targets(self) -> None:
        before = [deepcopy(team.target_mixer.state_dict()) for team in self.teams]
        super().copy_to_targets()
        for team, old in zip(self.teams, before, strict=True):
            team.target_mixer.load_state_dict(old)


class Moody(CentralCriticLearner):
    """Draws from a generator that no seed reaches."""

    def learn(self, batch: MultiAgentBatch) -> Metrics:
        self.rng = np.random.default_rng()
        return super().learn(batch)


class Predestined(QmixLearner):
    """Draws the same rows whatever the seed."""

    def learn(self, batch: MultiAgentBatch) -> Metrics:
        self.rng = np.random.default_rng(0)
        return super().learn(batch)


class Lawless(QmixLearner):
    """Believes that everything will be allowed next time."""

    def learn(self, batch: MultiAgentBatch) -> Metrics:
        return super().learn(replace(batch, new_legal=[np.ones_like(legal) for legal in batch.new_legal]))


class Unruly(CentralCriticLearner):
    """Believes that everything was allowed when it decided."""

    def learn(self, batch: MultiAgentBatch) -> Metrics:
        return super().learn(replace(batch, legal=[np.ones_like(legal) for legal in batch.legal]))


class Haunted(CentralCriticLearner):
    """Its critic sees agents that are not there."""

    def learn(self, batch: MultiAgentBatch) -> Metrics:
        everybody = np.ones_like(batch.alive)
        return super().learn(replace(batch, alive=everybody, new_alive=everybody))


class Spiritist(QmixLearner):
    """Counts what absent members could do next."""

    def _target(self, minibatch: Minibatch, choosing: Values) -> Tensor:
        t = minibatch.t
        everybody = replace(t.next, present=torch.ones_like(t.next.present))
        return super()._target(replace(minibatch, t=replace(t, next=everybody)), choosing)


class Careless(StochasticPolicy):
    """Does not look at masks."""

    def act(self, inputs: Inputs, carry: Floats, rng: np.random.Generator, *, explore: bool) -> Decision:
        return super().act(replace(inputs, legal=np.ones_like(inputs.legal)), carry, rng, explore=explore)


def preset(learner: str, acts: str = "", name: str = "", **defaults: Any) -> Preset:
    """Of the learner's own name, unless it has another; with the keys and policies of ppo or qmix."""
    values = issubclass(globals()[learner], QmixLearner)
    family = Family(
        "broken",
        QmixConfig if values else CentralCriticConfig,
        f"tests.algos.broken_learners:{learner}",
        acts or ("value" if values else "stochastic"),
        ("EpsilonGreedy",) if values else ("StochasticSampling",),
        on_policy=not values,
    )
    return Preset(name or learner.lower(), family, defaults, "Breaks a promise.")
