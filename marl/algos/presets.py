"""The short names: each preset is a few defaults over its family's keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from marl.algos.central_critic.config import CentralCriticConfig
from marl.algos.config import LearnerConfig
from marl.algos.qmix.config import QmixConfig
from marl.errors import ConfigError
from marl.registry import Registry


@dataclass(frozen=True)
class Family:
    """A folder of ``algos/``: its keys, how its policies act, and whether it learns from its own policy's data only."""

    name: str
    config: type[LearnerConfig]
    acts: Literal["value", "stochastic"]
    exploration: str
    on_policy: bool


@dataclass(frozen=True)
class Preset:
    """An algorithm's name, family, defaults and one sentence."""

    name: str
    family: Family
    defaults: Mapping[str, Any]
    summary: str

    def configure(self, **keys: Any) -> LearnerConfig:
        """The family's config with this preset's defaults and the given keys; what makes the preset cannot be changed."""
        for key in ("mixer", "objective"):
            if key in keys and key in self.defaults and keys[key] != self.defaults[key]:
                other = next((n for n in ALGOS if ALGOS[n].defaults.get(key) == keys[key]), None)
                remedy = f" Use algo {other}." if other else ""
                raise ConfigError(f"{self.name} has {key} {self.defaults[key]!r}, not {keys[key]!r}.{remedy}")
        return self.family.config(**{**self.defaults, **keys})


QMIX = Family("qmix", QmixConfig, "value", "EpsilonGreedy", on_policy=False)
CENTRAL_CRITIC = Family("central_critic", CentralCriticConfig, "stochastic", "StochasticSampling", on_policy=True)

ALGOS: Registry[Preset] = Registry("algorithm")

for _preset in (
    Preset("dqn", QMIX, {"mixer": "none", "dueling": True}, "Independent action values (DQN, IQL)."),
    Preset("vdn", QMIX, {"mixer": "sum"}, "Action values of a group, added up."),
    Preset("qmix", QMIX, {"mixer": "monotonic"}, "Action values of a group, mixed by a monotonic network."),
    Preset(
        "pg",
        CENTRAL_CRITIC,
        {"objective": "pg", "lr": 2e-3, "train_batch_size": 2_000},
        "REINFORCE: log probabilities weighed by returns; needs complete episodes.",
    ),
    Preset(
        "a2c",
        CENTRAL_CRITIC,
        {"objective": "a2c", "lr": 1e-3, "train_batch_size": 500, "gae_lambda": 1.0},
        "Advantage actor-critic, synchronous.",
    ),
    Preset(
        "ppo",
        CENTRAL_CRITIC,
        {"objective": "ppo"},
        "Proximal policy optimisation; each agent by itself (IPPO).",
    ),
    Preset(
        "mappo",
        CENTRAL_CRITIC,
        {"objective": "ppo", "critic_sees": "group"},
        "PPO whose critic sees the whole group.",
    ),
):
    ALGOS.register(_preset.name, _preset)
