"""rnad."""

from __future__ import annotations

from marl.algos.family import Family, Preset
from marl.algos.rnad.config import RnadConfig

FAMILY = Family(
    "rnad",
    RnadConfig,
    "marl.algos.rnad.learner:RnadLearner",
    "stochastic",
    ("StochasticSampling",),
    on_policy=True,
)

PRESETS = (
    Preset(
        "rnad",
        FAMILY,
        {},
        "Regularised Nash dynamics: self-play in a game whose rewards draw to a policy that follows now and then.",
    ),
)
