"""deep_cfr, escher."""

from __future__ import annotations

from marl.algos.deep_cfr.config import DeepCfrConfig
from marl.algos.family import Family, Preset

FAMILY = Family(
    "deep_cfr",
    DeepCfrConfig,
    "marl.algos.deep_cfr.learner:DeepCfrLearner",
    "stochastic",
    ("StochasticSampling",),
    on_policy=False,
)

PRESETS = (
    Preset(
        "deep_cfr", FAMILY, {"regrets_from": "traversals"},
        "Deep CFR: regrets by playing every action of one player at a time; the average policy is learned.",
        fixed=("regrets_from",),
    ),
    Preset(
        "escher", FAMILY, {"regrets_from": "values"},
        "ESCHER: regrets by a learned value of histories, one action at a time, without importance weights.",
        fixed=("regrets_from",),
    ),
)  # fmt: skip
