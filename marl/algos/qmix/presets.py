"""dqn, vdn, qmix, apex."""

from __future__ import annotations

from marl.algos.family import Family, Preset
from marl.algos.qmix.config import QmixConfig

FAMILY = Family(
    "qmix",
    QmixConfig,
    "marl.algos.qmix.learner:QmixLearner",
    "value",
    ("EpsilonGreedy", "PerWorkerEpsilonGreedy", "ParameterNoise"),
    on_policy=False,
)

PRESETS = (
    Preset("dqn", FAMILY, {"mixer": "none", "dueling": True}, "Independent action values (DQN, IQL).", ("mixer",)),
    Preset("vdn", FAMILY, {"mixer": "sum"}, "Action values of a group, added up.", ("mixer",)),
    Preset(
        "qmix", FAMILY, {"mixer": "monotonic"}, "Action values of a group, mixed by a monotonic network.", ("mixer",)
    ),
    Preset(
        "apex",
        FAMILY,
        {"mixer": "none", "dueling": True, "double_q": True, "prioritized_replay": True, "n_step": 3},
        "dqn with prioritised replay whose workers play on while it learns, each with an epsilon of its own.",
        ("mixer",),
        asynchronous=True,
        exploration="PerWorkerEpsilonGreedy",
    ),
)
