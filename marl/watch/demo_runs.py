"""The runs of the demo: what is trained, and how."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from marl.scenario.config import Scenario
from marl.scenario.describe import describe
from marl.scenario.load import load_scenario
from marl.watch.demo_notes import STEPS

BASIS = "two_step_uniform"
STEPS_PER_ITERATION = 256
KEYS = (
    "env", "env_config", "algo.name", "algo.lr", "algo.lr_schedule", "algo.gamma", "algo.train_batch_size",
    "algo.updates_per_step", "algo.target_update_every", "algo.learning_starts", "algo.dueling", "model.fcnet_hiddens",
    "exploration_config", "num_envs_per_worker", "stop", "seed",
)  # fmt: skip
"""Shown on the page under "How it is trained"."""


def changes(algo: str, seed: int, steps: int = STEPS) -> dict[str, Any]:
    """What the demo changes of the shipped scenario, as behind ``--set``.

    The learning rate sinks in the second half: no sum fits the risky branch, so VDN's gradients never vanish, and with a
    constant rate its entries wander by 0.3.
    """
    wanted: dict[str, Any] = {
        "name": f"two_step_{algo}",
        "algo.name": algo,
        "algo.lr_schedule": [[0, 0.001], [steps // 2, 0.001], [steps, 0.00001]],
        "seed": seed,
        "timesteps_per_iteration": STEPS_PER_ITERATION,
        "evaluation.interval": 4,
        "checkpoint_freq": 0,
        "stop.timesteps_total": steps,
    }
    return wanted


def demo_scenario(algo: str, seed: int, steps: int = STEPS) -> Scenario:
    """QMIX, VDN or independent DQN on the two-step game, with every action drawn uniformly."""
    return load_scenario(BASIS, changes=changes(algo, seed, steps))


def command(algo: str, seed: int, steps: int = STEPS) -> str:
    """The same as a command."""
    words = ["marl", "run", BASIS]
    for key, value in changes(algo, seed, steps).items():
        told = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        words += ["--set", f"'{key}={told}'" if "[" in told else f"{key}={told}"]
    return " ".join(words)


def shown_keys(scenario: Scenario) -> dict[str, Any]:
    """Keys that decide what is learned here, as they stand in the scenario; those that it leaves out have their defaults."""
    told = describe(scenario)
    found = {}
    for key in KEYS:
        value = _told(told, key)
        if value not in (None, {}):
            found[key] = value
    return found


def _told(told: Mapping[str, Any], key: str) -> Any:
    section, _, name = key.partition(".")
    value = told.get(section)
    if name:
        return (value or {}).get(name)
    if isinstance(value, Mapping):  # of keys that do not count here nothing is said
        return {inner: content for inner, content in value.items() if content is not None}
    return value
