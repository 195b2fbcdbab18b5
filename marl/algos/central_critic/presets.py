"""pg, a2c, a3c, ia2c, maa2c, coma, impala, ppo, ippo, mappo, happo, mmd, nashpg."""

from __future__ import annotations

from marl.algos.central_critic.config import CentralCriticConfig
from marl.algos.family import Family, Preset

FAMILY = Family(
    "central_critic",
    CentralCriticConfig,
    "marl.algos.central_critic.learner:CentralCriticLearner",
    "stochastic",
    ("StochasticSampling", "GaussianNoise"),
    on_policy=True,
)

TABLES_A2C = {"lr": 5e-4, "train_batch_size": 500, "gae_lambda": 0.95, "entropy_coeff": 0.01, "normalize_values": True}

PRESETS = (
    Preset(
        "pg",
        FAMILY,
        {"objective": "pg", "lr": 2e-3, "train_batch_size": 2_000},
        "REINFORCE: log probabilities weighed by returns; needs complete episodes.",
        ("objective",),
    ),
    Preset(
        "a2c",
        FAMILY,
        {"objective": "a2c", "lr": 1e-3, "train_batch_size": 500, "gae_lambda": 1.0},
        "Advantage actor-critic, synchronous.",
        ("objective",),
    ),
    Preset(
        "a3c",
        FAMILY,
        {"objective": "a2c", "lr": 1e-3, "train_batch_size": 500, "gae_lambda": 1.0},
        "a2c whose workers play on while it learns; they send fragments, not gradients.",
        ("objective",),
        asynchronous=True,
    ),
    Preset(
        "ia2c",
        FAMILY,
        {"objective": "a2c", "critic_sees": "own", **TABLES_A2C},
        "a2c as the tables of cooperative games run it: each agent by itself, scaled returns, an entropy bonus.",
        ("objective", "critic_sees"),
    ),
    Preset(
        "maa2c",
        FAMILY,
        {"objective": "a2c", "critic_sees": "group", **TABLES_A2C},
        "ia2c whose critic sees the whole group.",
        ("objective",),
    ),
    Preset(
        "coma",
        FAMILY,
        {
            "objective": "a2c",
            "critic_values": "actions",
            "critic_sees": "group",
            "critic_sees_actions": True,
            "share_reward": True,
            **TABLES_A2C,
            "gae_lambda": 0.8,
        },
        "Counterfactual policy gradients: what an agent did against what else it could have done, all others' actions given.",
        ("objective", "critic_values", "critic_sees_actions"),
    ),
    Preset(
        "impala",
        FAMILY,
        {"objective": "vtrace", "lr": 1e-3, "train_batch_size": 500, "gae_lambda": 1.0},
        "Actor-critic whose workers play on while it learns; V-trace corrects for their older weights.",
        ("objective",),
        asynchronous=True,
    ),
    Preset(
        "ppo",
        FAMILY,
        {"objective": "ppo"},
        "Proximal policy optimisation; each agent by itself (IPPO).",
        ("objective",),
    ),
    Preset(
        "ippo",
        FAMILY,
        {"objective": "ppo", "critic_sees": "own"},
        "ppo under the name that papers about teams give it: each agent by itself.",
        ("objective", "critic_sees"),
    ),
    Preset(
        "mappo",
        FAMILY,
        {"objective": "ppo", "critic_sees": "group", "normalize_values": True},
        "PPO whose critic sees the whole group.",
        ("objective",),
    ),
    Preset(
        "happo",
        FAMILY,
        {
            "objective": "ppo",
            "critic_sees": "group",
            "share_reward": True,
            "sequential_update": True,
            "normalize_values": True,
        },
        "MAPPO whose policies learn one after the other, each weighed by how those before it have changed.",
        ("objective", "sequential_update"),
    ),
    Preset(
        "mmd",
        FAMILY,
        {"objective": "ppo", "num_sgd_iter": 4, "entropy_coeff": 0.05, "backward_kl_coeff": 0.05},
        "Magnetic mirror descent: PPO drawn to its last policy and to uniform play, so that self-play settles.",
        ("objective",),
    ),
    Preset(
        "nashpg",
        FAMILY,
        {"objective": "ppo", "num_sgd_iter": 4, "magnet_coeff": 0.2, "magnet_tau": 1.0, "magnet_every": 10},
        "PPO drawn to a copy of itself that stands still and is renewed now and then, so that self-play settles.",
        ("objective",),
    ),
)
