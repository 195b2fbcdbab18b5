"""es."""

from __future__ import annotations

from marl.algos.es.config import EsConfig
from marl.algos.family import Family, Preset

FAMILY = Family(
    "es",
    EsConfig,
    "marl.algos.es.learner:EsLearner",
    "stochastic",
    ("StochasticSampling", "GaussianNoise"),
    on_policy=False,
)

PRESETS = (
    Preset(
        "es", FAMILY, {}, "Evolution strategies: perturbed policies, compared by their episodes' rewards; no gradients."
    ),
)
