"""A scenario in its complete, sorted form: what ``params.json`` and ``params.yaml`` hold and what replays a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import numpy as np

from marl.callbacks.callbacks import Callbacks
from marl.scenario.config import Scenario

CANNOT_REPLAY = "<python object>"
# What a reader of params.yaml looks for first; all other keys follow in the order of the config class.
FIRST_KEYS = ("name", "env", "env_config", "wrappers", "algo", "multiagent", "model", "exploration_config")


def describe(scenario: Scenario) -> dict[str, Any]:
    """Every key with its value, sections in order; Python objects become ``module:name`` where that finds them again."""
    plain: dict[str, Any] = {}
    for key in (*FIRST_KEYS, *type(scenario).model_fields):
        if key not in plain:
            plain[key] = to_plain(getattr(scenario, key))
    # With the defaults of the preset: a run has to repeat even after these have changed.
    preset = scenario.preset
    config = preset.configure(**scenario.algo_keys)
    plain["algo"] = {"name": preset.name, **to_plain(config)}
    return plain


def can_be_replayed(described: Any) -> bool:
    """Whether the files alone are enough, or a Python object was given that cannot be found again by name."""
    if isinstance(described, str):
        return not described.startswith(CANNOT_REPLAY)
    if isinstance(described, Mapping):
        return all(map(can_be_replayed, described.values()))
    if isinstance(described, list):
        return all(map(can_be_replayed, described))
    return True


def to_plain(value: Any) -> Any:
    """Numbers, strings, lists and dicts only."""
    if hasattr(value, "model_fields"):
        # Not model_dump: it would hand Python objects through, and leave tuples as they are.
        value = {key: getattr(value, key) for key in type(value).model_fields}
    if isinstance(value, Mapping):
        plain: dict[str, Any] = {}
        for key, item in value.items():
            plain[str(key)] = to_plain(item)
        return plain
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    return _plain_leaf(value)


def _plain_leaf(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Callbacks):
        # An instance has state of its own, which no name finds again.
        return f"{CANNOT_REPLAY} {type(value).__name__}"
    if isinstance(value, PurePath):
        return str(value)
    if callable(value):
        return _name(value)
    return value


def _name(value: Any) -> str:
    """``module:name``, where an import finds it: not in a script, and neither a lambda nor a local function."""
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None)
    if not name:
        return f"{CANNOT_REPLAY} {type(value).__name__}"
    if module in (None, "__main__") or "<" in name:
        return f"{CANNOT_REPLAY} {name}"
    return f"{module}:{name}"
