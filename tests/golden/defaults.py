"""Recorded defaults of keys (with their bounds) and of public arguments in the rooms of learning, acting, collecting and games.

They are part of every published result. ``python -m tests.golden.defaults``, from the root of the project, records them anew; do
so only when one was changed on purpose, and look at the difference before it is committed.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from marl.algos.config import OptimizerConfig
from marl.algos.presets import ALGOS
from marl.policies.config import ExplorationConfig, ModelConfig, ScriptedConfig
from marl.rollout.config import EvaluationConfig, RolloutConfig

FILE = Path(__file__).with_name("defaults.json")
ROOMS = ("marl.data", "marl.algos", "marl.rollout", "marl.policies", "marl.gametheory")
WORDS = ("description", "title", "needs")


def keys_of(model: type[BaseModel]) -> dict[str, Any]:
    """Type, bounds and default of every key, as JSON schema says them."""
    schema = model.model_json_schema(mode="serialization")
    return {key: _without_words(told) for key, told in schema["properties"].items()}


def _without_words(told: Any) -> Any:
    if isinstance(told, dict):
        return {key: _without_words(value) for key, value in told.items() if key not in WORDS}
    return [_without_words(value) for value in told] if isinstance(told, list) else told


def arguments_of(room: str) -> dict[str, Any]:
    """Defaults of the arguments of everything public in a room: functions, methods, fields of dataclasses."""
    found: dict[str, Any] = {}
    for info in pkgutil.walk_packages(importlib.import_module(room).__path__, f"{room}."):
        module = importlib.import_module(info.name)
        for name, thing in sorted(vars(module).items()):
            if getattr(thing, "__module__", "") == info.name and not name.startswith("_"):
                found |= _arguments(thing, f"{info.name}.{name}")
    return found


def _arguments(thing: Any, name: str) -> dict[str, Any]:
    if inspect.isclass(thing):
        methods = {key: value for key, value in vars(thing).items() if key == "__init__" or not key.startswith("_")}
        functions = {f"{name}.{key}": getattr(value, "__func__", value) for key, value in methods.items()}
    else:
        functions = {name: thing}
    found = {}
    for place, function in functions.items():
        if inspect.isfunction(function):
            for key, argument in inspect.signature(function).parameters.items():
                if isinstance(argument.default, bool | int | float | str):
                    found[f"{place}({key})"] = argument.default
    return found


def now() -> dict[str, dict[str, Any]]:
    """What the package says today."""
    found: dict[str, dict[str, Any]] = {}
    for model in (ModelConfig, ExplorationConfig, ScriptedConfig, OptimizerConfig, EvaluationConfig, RolloutConfig):
        found[model.__name__] = keys_of(model)
    for name in ALGOS:
        preset = ALGOS[name]
        found[preset.family.config.__name__] = keys_of(preset.family.config)
        found[name] = {
            **{f"default {key}": value for key, value in preset.configure().model_dump(mode="json").items()},
            "fixed": list(preset.fixed),
            "asynchronous": preset.asynchronous,
            "exploration": preset.exploration,
            "acts": preset.family.acts,
            "explorations": list(preset.family.explorations),
            "on_policy": preset.family.on_policy,
        }
    found |= {room: arguments_of(room) for room in ROOMS}
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


if __name__ == "__main__":
    FILE.write_text(json.dumps(now(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
