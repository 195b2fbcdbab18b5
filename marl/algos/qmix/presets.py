"""dqn, iql, hysteretic, noisy_dqn, rainbow, softq, vdn, qmix, apex."""

from __future__ import annotations

from marl.algos.family import Family, Preset
from marl.algos.qmix.config import QmixConfig

FAMILY = Family(
    "qmix",
    QmixConfig,
    "marl.algos.qmix.learner:QmixLearner",
    "value",
    ("EpsilonGreedy", "PerWorkerEpsilonGreedy", "SoftQ", "NoisyLayers", "ParameterNoise"),
    on_policy=False,
)

PRESETS = (
    Preset("dqn", FAMILY, {"mixer": "none", "dueling": True}, "Independent action values (DQN, IQL).", ("mixer",)),
    Preset(
        "iql",
        FAMILY,
        {"mixer": "none", "bootstrap_at_time_limit": False},
        "Independent action values of a team's members, as in tables of cooperative tasks: dqn without dueling, and a time "
        "limit is an end.",
        ("mixer",),
    ),
    Preset(
        "hysteretic",
        FAMILY,
        {"mixer": "none", "negative_error_weight": 0.05},
        "dqn for teams whose members blame each other's exploration less: disappointments count little.",
        ("mixer",),
    ),
    Preset(
        "noisy_dqn",
        FAMILY,
        {"mixer": "none", "dueling": True, "noisy": True},
        "dqn whose layers learn how noisy they are, and explore by that alone (NoisyNet).",
        ("mixer", "noisy"),
        exploration="NoisyLayers",
    ),
    Preset(
        "rainbow",
        FAMILY,
        {
            "mixer": "none",
            "double_q": True,
            "dueling": True,
            "prioritized_replay": True,
            "prioritized_replay_alpha": 0.5,
            "n_step": 3,
            "num_atoms": 51,
            "noisy": True,
            "priorities": "divergence",
        },
        "dqn with all six of Rainbow's extensions: double, dueling, prioritised, n-step, C51 and noisy layers.",
        ("mixer", "double_q", "dueling", "prioritized_replay", "noisy"),
        exploration="NoisyLayers",
    ),
    Preset(
        "softq",
        FAMILY,
        {"mixer": "none", "double_q": False, "temperature": 0.2},
        "Soft Q-learning: values that pay for keeping several actions likely, and actions drawn by them.",
        ("mixer",),
        exploration="SoftQ",
    ),
    Preset(
        "vdn",
        FAMILY,
        {"mixer": "sum", "bootstrap_at_time_limit": False},
        "Action values of a group, added up.",
        ("mixer",),
    ),
    Preset(
        "qmix",
        FAMILY,
        {"mixer": "monotonic", "bootstrap_at_time_limit": False},
        "Action values of a group, mixed by a monotonic network.",
        ("mixer",),
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
