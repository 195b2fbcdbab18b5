"""sac, masac."""

from __future__ import annotations

from marl.algos.family import Family, Preset
from marl.algos.sac.config import SacConfig

FAMILY = Family(
    "sac", SacConfig, "marl.algos.sac.learner:SacLearner", "squashed", ("StochasticSampling",), on_policy=False
)

PRESETS = (
    Preset(
        "sac", FAMILY, {}, "Soft actor-critic: twin critics, entropy as reward, automatic temperature; Box or Discrete."
    ),
    Preset(
        "masac", FAMILY, {"critic_sees": "group"}, "sac whose critics see observations and actions of the whole group."
    ),
)
