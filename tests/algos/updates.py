"""A few updates of any preset on the small env of ``check_learner``, and what they left behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import torch

from marl.algos.family import Preset
from marl.algos.presets import ALGOS
from marl.data.batch import MultiAgentBatch
from marl.data.task import Task
from marl.policies.value_table import TABLE
from marl.testing.state_compare import known
from marl.training.trainer import Trainer

Found = TypeVar("Found")
ENV = "marl.testing.sign_env:Signs"
SMALL: Mapping[str, Any] = {  # each preset takes those of them that it knows
    "learning_starts": 16, "updates_per_step": 0.125, "buffer_size": 512, "num_sgd_iter": 2, "sgd_minibatch_size": 32,
    "num_perturbations": 2, "lr": 0.01, "average_lr": 0.01, "target_update_every": 3, "tau": 0.1,
    "float_states": True, "traversals": 2, "regret_updates": 2, "average_updates": 2, "value_updates": 2,
}  # fmt: skip


def small_keys(preset: Preset) -> dict[str, Any]:
    """What a small run gives to the learner of this preset."""
    return known(preset, {**SMALL, "train_batch_size": 32})


def small_model(preset: Preset) -> dict[str, Any]:
    """Layers, where there is a network."""
    return {} if preset.family.acts == TABLE else {"fcnet_hiddens": [8]}


def small_run(algo: str, env_config: Mapping[str, Any] | None = None, **keys: Any) -> Trainer:
    """A run of 32 env steps per iteration in which every iteration makes a few updates."""
    preset = ALGOS[algo]
    own = preset.family.config.model_fields
    keys = {**small_keys(preset), **keys}
    return Trainer(
        algo,
        env=keys.pop("env", ENV),
        config={
            **small_model(preset), "num_envs_per_worker": 4, "timesteps_per_iteration": 32, "seed": 5,
            "evaluation": {"interval": 0}, "env_config": dict(env_config or {}),
            **{key: value for key, value in keys.items() if key not in own},
            "algo": {key: value for key, value in keys.items() if key in own},
        },
    )  # fmt: skip


def weights_after(
    algo: str, iterations: int = 2, env_config: Mapping[str, Any] | None = None, **keys: Any
) -> list[Any]:
    """All weights of all policies after some iterations of a small run."""
    with small_run(algo, env_config, **keys) as trainer:
        for _ in range(iterations):
            trainer.train()
        weights = trainer.get_weights()
    return [array for arrays in weights.values() for array in arrays.values()]


def same(a: list[Any], b: list[Any]) -> bool:
    """Equal to the last bit."""
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


ONE_UPDATE: Mapping[str, Any] = {
    "learning_starts": 1, "updates_per_step": 1 / 32, "num_sgd_iter": 1, "sgd_minibatch_size": 1_000, "policy_delay": 1,
    "traversals": 1, "regret_updates": 1, "average_updates": 1, "value_updates": 1,
}  # fmt: skip


def one_update(algo: str, env_config: Mapping[str, Any] | None = None, **keys: Any) -> Trainer:
    """A run whose first iteration, 8 steps in 4 copies, makes exactly one update of everything that learns."""
    # es plays whole episodes, and 16 env steps of them here before it moves; regrets are found in games of their own.
    own: dict[str, dict[str, Any]] = {"es": {"timesteps_per_iteration": 16}, "deep_cfr": {"timesteps_per_iteration": 1}}
    rounds = own.get(ALGOS[algo].family.name, {"rollout_fragment_length": 8})
    return small_run(algo, env_config, **{**rounds, **known(ALGOS[algo], ONE_UPDATE), **keys})


def found_in(thing: Any, wanted: type[Found], seen: set[int] | None = None) -> list[Found]:
    """All objects of a class that a learner holds, in dictionaries, lists and parts of its own at any depth."""
    seen = set() if seen is None else seen
    if id(thing) in seen or isinstance(thing, np.ndarray | torch.Tensor | str | Task | MultiAgentBatch):
        return []
    seen.add(id(thing))
    if isinstance(thing, wanted):
        return [thing]
    if isinstance(thing, Mapping):
        parts = list(thing.values())
    elif isinstance(thing, list | tuple):
        parts = list(thing)
    elif type(thing).__module__.startswith(("marl.algos", "tests.")):
        parts = list(vars(thing).values())
    else:
        parts = []
    return [found for part in parts for found in found_in(part, wanted, seen)]


def assert_stack_equals_alone(make: Callable[..., Trainer], iterations: int = 3) -> None:
    """Trains what ``make`` builds from keys by itself and in a stack: the same weights, to rounding."""

    def weights(**keys: Any) -> list[Any]:
        with make(**keys) as trainer:
            for _ in range(iterations):
                trainer.train()
            return [array for policy in trainer.get_weights().values() for array in policy.values()]

    for one, other in zip(weights(), weights(stacked=True), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
