"""marwil, bc."""

from __future__ import annotations

from marl.algos.family import Family, Preset
from marl.algos.marwil.config import MarwilConfig

FAMILY = Family(
    "marwil",
    MarwilConfig,
    "marl.algos.marwil.learner:MarwilLearner",
    "stochastic",
    ("StochasticSampling",),
    on_policy=True,
)

PRESETS = (
    Preset("marwil", FAMILY, {}, "Imitation that prefers decisions better than expected; from recordings or live."),
    Preset(
        "bc",
        FAMILY,
        {"beta": 0.0, "vf_coeff": 0.0},
        "Behaviour cloning: imitation of all recorded decisions alike.",
        ("beta", "vf_coeff"),
    ),
)
