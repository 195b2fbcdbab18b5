"""A few updates of any preset on the small world of ``check_learner``, and what they left behind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from marl.algos.family import Preset
from marl.algos.presets import ALGOS
from marl.training.evidence import known
from marl.training.trainer import Trainer

WORLD = "marl.training.signs:Signs"
SMALL: Mapping[str, Any] = {  # each preset takes those of them that it knows
    "learning_starts": 16, "updates_per_step": 0.125, "buffer_size": 512, "num_sgd_iter": 2, "sgd_minibatch_size": 32,
    "num_perturbations": 2, "lr": 0.01, "average_lr": 0.01, "target_update_every": 3, "tau": 0.1,
}  # fmt: skip


def small_keys(preset: Preset) -> dict[str, Any]:
    """What a small run gives to the learner of this preset."""
    return known(preset, {**SMALL, "train_batch_size": 32})


def small_run(algo: str, world: Mapping[str, Any] | None = None, **keys: Any) -> Trainer:
    """A run of 32 env steps per iteration in which every iteration makes a few updates."""
    preset = ALGOS[algo]
    own = preset.family.config.model_fields
    keys = {**small_keys(preset), **keys}
    return Trainer(
        algo,
        env=WORLD,
        config={
            "fcnet_hiddens": [8], "num_envs_per_worker": 4, "timesteps_per_iteration": 32, "seed": 5,
            "evaluation": {"interval": 0}, "env_config": dict(world or {}),
            **{key: value for key, value in keys.items() if key not in own},
            "algo": {key: value for key, value in keys.items() if key in own},
        },
    )  # fmt: skip


def weights_after(algo: str, iterations: int = 2, world: Mapping[str, Any] | None = None, **keys: Any) -> list[Any]:
    """All weights of all policies after some iterations of a small run."""
    with small_run(algo, world, **keys) as trainer:
        for _ in range(iterations):
            trainer.train()
        weights = trainer.get_weights()
    return [array for arrays in weights.values() for array in arrays.values()]


def same(a: list[Any], b: list[Any]) -> bool:
    """Equal to the last bit."""
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
