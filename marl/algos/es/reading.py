"""What `marl show` prints of es."""

from __future__ import annotations

from marl.algos.es.config import EsConfig
from marl.algos.es.estimate import centred_ranks, search_gradient
from marl.algos.es.learner import EsLearner
from marl.algos.es.noise import noise
from marl.algos.optimiser import STEPS, FlatOptimiser
from marl.algos.reading import Function, Reading


def reading(learner: type[EsLearner], config: EsConfig) -> Reading:
    """From ``learn`` to the optimiser's step; the episodes were played before."""
    shown: list[Function] = [
        learner.learn, learner._train, centred_ranks, search_gradient, noise, FlatOptimiser.step,
        STEPS[config.optimizer.type],
    ]  # fmt: skip
    return Reading(tuple(shown))
