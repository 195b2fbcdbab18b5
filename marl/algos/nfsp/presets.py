"""nfsp."""

from __future__ import annotations

from marl.algos.family import Family, Preset
from marl.algos.nfsp.config import NfspConfig

FAMILY = Family(
    "nfsp",
    NfspConfig,
    "marl.algos.nfsp.learner:NfspLearner",
    "nfsp",
    ("EpsilonGreedy", "PerWorkerEpsilonGreedy"),
    on_policy=False,
)

PRESETS = (
    Preset("nfsp", FAMILY, {}, "Neural fictitious self-play: best responses by values, and the average of them all."),
)
