"""What there is: every key with type, default and meaning, and the names of algorithms, envs, mappers, scenarios."""

from __future__ import annotations

import types
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

import marl.envs.catalog  # noqa: F401
from marl.algos.config import OptimizerConfig
from marl.algos.presets import ALGOS
from marl.config import Config, Named
from marl.envs.families import forms
from marl.envs.registry import ENVS
from marl.envs.wrappers import WRAPPERS
from marl.inputs import read_text
from marl.needs import Declared
from marl.policies.config import ExplorationConfig, ModelConfig, ScriptedConfig
from marl.populations.config import PopulationConfig
from marl.populations.exploit_config import ExploitabilityConfig
from marl.rollout.config import EvaluationConfig
from marl.scenario.config import MultiAgentConfig, Scenario, StageConfig
from marl.scenario.load import read_yaml
from marl.scenario.routing import NAMED

SECTIONS: dict[str, type[Config]] = {
    "model": ModelConfig,
    "multiagent": MultiAgentConfig,
    "exploration_config": ExplorationConfig,
    "evaluation": EvaluationConfig,
    "curriculum": StageConfig,
    "population": PopulationConfig,
    "exploitability": ExploitabilityConfig,
    "optimizer": OptimizerConfig,
    "scripted": ScriptedConfig,
}


def algorithm_keys(name: str) -> str:
    """Keys of one algorithm, with the defaults of its preset."""
    preset = ALGOS[name]
    head = (
        f"{preset.name}: {preset.summary}\nkeys of `algo: {{name: {preset.name}, ...}}`, all overridable per policy\n"
    )
    fits = f"\n\nexploration_config.type: {', '.join(preset.family.explorations)} (their keys: marl config)"
    section = "\n\nkeys of `optimizer:`\n" + "\n".join(_lines(OptimizerConfig))
    return head + "\n".join(_lines(preset.family.config, preset.defaults)) + fits + section


def scenario_keys() -> str:
    """Top-level keys of a scenario, and those of its sections."""
    parts = ["keys of a scenario\n" + "\n".join(_lines(Scenario))]
    parts += [f"keys of `{name}:`\n" + "\n".join(_lines(section)) for name, section in SECTIONS.items()]
    return "\n\n".join(parts)


def everything() -> str:
    return "\n\n".join([scenario_keys(), *(algorithm_keys(name) for name in ALGOS)])


def overview(scenarios: Path) -> str:
    """Names that a scenario may use."""
    lines = ["algorithms:", *(f"  {name:<10} {ALGOS[name].summary}" for name in ALGOS), "envs:"]
    lines += [f"  {name}" for name in ENVS]
    lines += [f"  {forms()}   (docs/optional_envs.md)"]
    lines += ["  package.module:Class   any Gymnasium id (CartPole-v1, ...)"]
    lines += ["wrappers:", f"  {', '.join(WRAPPERS)}, any of SuperSuit (frame_stack_v1, ...), package.module:function"]
    lines += ["mappers:", f'  {", ".join(NAMED)}, patterns {{"car_*": [car1, car2]}}, package.module:function']
    found = sorted(scenarios.glob("*.yaml")) if scenarios.is_dir() else []
    if found:
        lines += ["scenarios:", *(f"  {path}  {_first_comment(path)}" for path in found)]
    return "\n".join(lines)


def _first_comment(path: Path) -> str:
    read_yaml(path)  # a broken scenario is worth a clear error here as well
    first = read_text(path).partition("\n")[0]
    return first.lstrip("# ") if first.startswith("#") else ""


class Key(NamedTuple):
    """One key as a reader sees it."""

    name: str
    type: str
    default: str  # "required" where there is none
    meaning: str


def keys_of(model: type[Config], defaults: Mapping[str, Any] | None = None) -> list[Key]:
    """All keys of a config class, with the defaults of a preset where they differ, and with what they need."""
    values = {**model.defaults(), **(defaults or {})}
    declared = model.declared()
    return [
        _key(name, field, values[name], declared.get(name, Declared())) for name, field in model.model_fields.items()
    ]


def _key(name: str, field: FieldInfo, default: Any, declared: Declared) -> Key:
    shown = "required" if default is PydanticUndefined else _value(default)
    kind, meaning = type_name(field.annotation), str(field.description)
    if isinstance(field.json_schema_extra, Named):
        kind = " | ".join(field.json_schema_extra.names())
        meaning = field.json_schema_extra.told(meaning)
    return Key(name, kind, shown, " ".join([meaning, *declared.sentences()]))


def _lines(model: type[Config], defaults: Mapping[str, Any] | None = None) -> list[str]:
    return [_line(key) for key in keys_of(model, defaults)]


def _line(key: Key) -> str:
    shown = key.default if key.default == "required" else f"default {key.default}"
    return f"  {key.name} ({key.type}, {shown}): {key.meaning}"


def _value(value: Any) -> str:
    if isinstance(value, BaseModel):
        return "see below"
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    return str(value)


WORDS = {int: "integer", float: "number", str: "text", bool: "true/false", Any: "anything"}


def type_name(annotation: Any) -> str:
    """A type as a reader of YAML would say it."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " | ".join(map(str, args))
    if origin is Annotated:  # limits are told by the messages that refuse a value
        return type_name(args[0])
    if origin is not None:
        return _generic_name(origin, args)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section"
    return WORDS.get(annotation, str(annotation))


def _generic_name(origin: Any, args: tuple[Any, ...]) -> str:
    """``list[int]`` and the like."""
    names = [type_name(one) for one in args if one is not type(None)]
    if origin in (Union, types.UnionType):
        return " | ".join(dict.fromkeys(names))
    if origin is tuple:
        return f"[{', '.join(names)}]"
    if origin is list:
        return f"list of {names[0]}"
    return "map" if origin is dict else "Python function"
