"""A scenario in its complete, sorted form: what ``params.json`` and ``params.yaml`` hold and what replays a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from marl.callbacks.callbacks import Callbacks
from marl.scenario.config import Scenario

CANNOT_REPLAY = "<python object>"


def describe(scenario: Scenario) -> dict[str, Any]:
    """Every key with its value, sections in order; Python objects become ``module:name`` where that finds them again."""
    plain: dict[str, Any] = {}
    first = ("name", "env", "env_config", "wrappers", "algo", "multiagent", "model", "exploration_config")
    for key in [*first, *(k for k in type(scenario).model_fields if k not in first)]:
        plain[key] = to_plain(getattr(scenario, key))
    preset = scenario.preset
    plain["algo"] = {"name": preset.name, **to_plain(preset.configure(**scenario.algo_keys))}
    return plain


def can_be_replayed(described: Any) -> bool:
    """Whether the files alone are enough, or a Python object was given that cannot be found again by name."""
    if isinstance(described, Mapping):
        return all(can_be_replayed(value) for value in described.values())
    if isinstance(described, list):
        return all(can_be_replayed(value) for value in described)
    return not (isinstance(described, str) and described.startswith(CANNOT_REPLAY))


def to_plain(value: Any) -> Any:
    """Numbers, strings, lists and dicts only."""
    if hasattr(value, "model_fields"):
        return {key: to_plain(getattr(value, key)) for key in type(value).model_fields}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Callbacks):
        return f"{CANNOT_REPLAY} {type(value).__name__}"
    if callable(value):
        return _name(value)
    return value


def _name(value: Any) -> str:
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if module in (None, "__main__") or not name or "<" in name:
        return f"{CANNOT_REPLAY} {name or type(value).__name__}"
    return f"{module}:{name}"
