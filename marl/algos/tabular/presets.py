"""q_learning, sarsa, monte_carlo."""

from __future__ import annotations

from marl.algos.family import Family, Preset
from marl.algos.tabular.config import TabularConfig
from marl.policies.value_table import TABLE

FAMILY = Family(
    "tabular",
    TabularConfig,
    "marl.algos.tabular.learner:TabularLearner",
    TABLE,
    ("EpsilonGreedy", "PerWorkerEpsilonGreedy"),
    on_policy=False,
)

PRESETS = (
    Preset(
        "q_learning",
        FAMILY,
        {"backup": "max"},
        "Q-learning with a table: the value of the best next action.",
        ("backup",),
    ),
    Preset(
        "sarsa",
        FAMILY,
        {"backup": "played"},
        "Sarsa with a table: the value of the next action that is played.",
        ("backup",),
    ),
    Preset(
        "monte_carlo",
        FAMILY,
        {"backup": "return", "averaging": True},
        "Monte Carlo control with a table: means of the returns of whole episodes.",
        ("backup",),
    ),
)
