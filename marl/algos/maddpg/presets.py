"""ddpg, td3, maddpg, apex_ddpg."""

from __future__ import annotations

from marl.algos.family import Family, Preset
from marl.algos.maddpg.config import MaddpgConfig

FAMILY = Family(
    "maddpg",
    MaddpgConfig,
    "marl.algos.maddpg.learner:MaddpgLearner",
    "deterministic",
    ("GaussianNoise", "StochasticSampling", "OrnsteinUhlenbeckNoise", "ParameterNoise"),
    on_policy=False,
)

PRESETS = (
    Preset(
        "ddpg", FAMILY, {"twin_q": False}, "Deterministic actor that climbs a learned critic of actions.", ("twin_q",)
    ),
    Preset(
        "td3",
        FAMILY,
        {"twin_q": True, "policy_delay": 2, "target_noise": 0.2},
        "ddpg with twin critics, noise on target actions, and an actor that moves every other update.",
        ("twin_q",),
    ),
    Preset(
        "maddpg",
        FAMILY,
        {"critic_sees": "all"},
        "Deterministic actors whose critics see everybody's observations and actions.",
    ),
    Preset(
        "apex_ddpg",
        FAMILY,
        {"twin_q": False, "prioritized_replay": True, "n_step": 3},
        "ddpg with prioritised replay whose workers play on while it learns.",
        ("twin_q",),
        asynchronous=True,
    ),
)
