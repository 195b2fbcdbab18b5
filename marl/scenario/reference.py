"""What there is: every key with type, default and meaning, and the names of algorithms, envs, mappers, scenarios."""

from __future__ import annotations

import builtins
import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

import gymnasium as gym
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

import marl.envs.catalog  # noqa: F401
from marl.algos.config import OptimizerConfig
from marl.algos.intrinsic.config import IntrinsicConfig
from marl.algos.presets import ALGOS
from marl.config import Config, Named
from marl.envs.external.training import ExternalTraining
from marl.envs.families import family_of, forms
from marl.envs.keys import Parameter, keys_of_env
from marl.envs.registry import ENVS
from marl.envs.wrappers import WRAPPERS
from marl.errors import UnknownNameError, UserError, did_you_mean
from marl.inputs import read_text
from marl.needs import Declared
from marl.policies.config import ExplorationConfig, ModelConfig, ScriptedConfig
from marl.policies.language_config import LanguageModelConfig
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
    "external": ExternalTraining,
    "curriculum": StageConfig,
    "population": PopulationConfig,
    "exploitability": ExploitabilityConfig,
    "optimizer": OptimizerConfig,
    "intrinsic": IntrinsicConfig,
    "scripted": ScriptedConfig,
    "language_model": LanguageModelConfig,
}
PLAIN_TYPES = {int: "integer", float: "number", str: "text", bool: "true/false", Any: "anything"}


def algorithm_keys(name: str) -> str:
    """Keys of one algorithm, with the defaults of its preset."""
    preset = ALGOS[name]
    parts = [
        f"{preset.name}: {preset.summary}",
        f"keys of `algo: {{name: {preset.name}, ...}}`, all overridable per policy",
        *_lines(preset.family.config, preset.defaults),
        "",
        f"exploration_config.type: {', '.join(preset.family.explorations)} (their keys: marl config)",
        "",
        "keys of `optimizer:`",
        *_lines(OptimizerConfig),
        "",
        "keys of `intrinsic:`",
        *_lines(IntrinsicConfig),
    ]
    return "\n".join(parts)


def env_keys(env: str) -> str:
    """Keys of ``env_config`` for one env; of an env without a config class what its creator takes."""
    keys = keys_of_env(env)
    lines = [f"keys of `env_config:` for `env: {env}`"]
    if keys.config is not None:
        lines += _lines(keys.config)
    elif keys.whole:
        lines.append(
            f"  all of it is given to it as one dict, {keys.whole}; what it reads there is told by its own code. An env with "
            "config_class = a marl.config.Config is listed here key by key."
        )
    lines += [_parameter_line(parameter) for parameter in keys.parameters]
    if keys.takes_others:
        lines.append("  and others, which it hands on")
    if len(lines) == 1:
        lines.append("  none")
    return "\n".join(lines)


def _parameter_line(parameter: Parameter) -> str:
    if parameter.default is inspect.Parameter.empty:
        shown = "required"
    else:
        shown = f"default {_value(parameter.default)}"
    kinds = [parameter.type] if parameter.type else []
    return f"  {parameter.name} ({', '.join([*kinds, shown])})"


def keys_by_name(name: str) -> str:
    """Keys of an algorithm or of an env, whichever is called so."""
    if ":" in name:
        return _keys_by_path(name)
    if name in ALGOS:
        return algorithm_keys(name)
    try:
        return env_keys(name)
    except UnknownNameError as error:
        known = [*ALGOS, *ENVS, *gym.registry]
        raise UnknownNameError(
            f"{name!r} is neither an algorithm ({', '.join(ALGOS)}) nor an env (marl list).{did_you_mean(name, known)}"
        ) from error


def _keys_by_path(name: str) -> str:
    """``package.module:name`` may be a learner of the user's; everything else with a colon is an env."""
    is_env = name in ENVS or family_of(name) is not None
    if not is_env:
        try:
            return algorithm_keys(name)
        except UserError:
            pass  # it is an env, or what is wrong with it is told as of one
    return env_keys(name)


def scenario_keys() -> str:
    """Top-level keys of a scenario, and those of its sections."""
    lines = ["keys of a scenario", *_lines(Scenario)]
    for name, section in SECTIONS.items():
        lines += ["", f"keys of `{name}:`", *_lines(section)]
    return "\n".join(lines)


def everything() -> str:
    parts = [scenario_keys()]
    parts += [algorithm_keys(name) for name in ALGOS]
    return "\n\n".join(parts)


def overview(scenarios: Path) -> str:
    """Names that a scenario may use."""
    lines = ["algorithms:"]
    lines += [f"  {name:<10} {ALGOS[name].summary}" for name in ALGOS]
    lines.append("envs:")
    lines += [f"  {name}" for name in ENVS]
    lines += [
        f"  {forms()}   (docs/optional_envs.md)",
        "  package.module:Class   any Gymnasium id (CartPole-v1, ...)",
        "wrappers:",
        f"  {', '.join(WRAPPERS)}, any of SuperSuit (frame_stack_v1, ...), package.module:function",
        "mappers:",
        f'  {", ".join(NAMED)}, patterns {{"car_*": [car1, car2]}}, package.module:function',
    ]
    files = sorted(scenarios.rglob("*.yaml"))  # none where there is no such folder
    if files:
        lines.append("scenarios:")
        lines += [f"  {file}  {_first_comment(file)}" for file in files]
    return "\n".join(lines)


def _first_comment(path: Path) -> str:
    read_yaml(path)  # a broken scenario is worth a clear error here as well
    first = read_text(path).partition("\n")[0]
    if not first.startswith("#"):
        return ""
    return first.lstrip("# ")


class Key(NamedTuple):
    """One key as a reader sees it."""

    name: str
    type: str
    default: str  # "required" where there is none
    meaning: str


def keys_of(model: type[Config], defaults: Mapping[str, Any] | None = None) -> list[Key]:
    """All keys of a config class, with the defaults of a preset where they differ, and with what they need."""
    values = model.defaults()
    values.update(defaults or {})
    declared = model.declared()
    found = []
    for name, field in model.model_fields.items():
        found.append(_key(name, field, values[name], declared.get(name, Declared())))
    return found


def _key(name: str, field: FieldInfo, default: Any, declared: Declared) -> Key:
    shown = "required"
    if default is not PydanticUndefined:
        shown = _value(default)
    kind, meaning = type_name(field.annotation), str(field.description)
    if isinstance(field.json_schema_extra, Named):
        # Names that users may add to by registering: the list and its sentence are those of the moment.
        kind = " | ".join(field.json_schema_extra.names())
        meaning = field.json_schema_extra.told(meaning)
    return Key(name, kind, shown, " ".join([meaning, *declared.sentences()]))


def _lines(model: type[Config], defaults: Mapping[str, Any] | None = None) -> list[str]:
    lines = []
    for key in keys_of(model, defaults):
        shown = key.default
        if shown != "required":
            shown = f"default {shown}"
        lines.append(f"  {key.name} ({key.type}, {shown}): {key.meaning}")
    return lines


def _value(value: Any) -> str:
    """A default as it would be written in YAML; sections have a list of their own."""
    if isinstance(value, BaseModel):
        return "see below"
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def type_name(annotation: Any) -> str:
    """A type as a reader of YAML would say it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section"
    arguments = get_args(annotation)
    match get_origin(annotation):
        case None:
            return PLAIN_TYPES.get(annotation, str(annotation))
        case typing.Annotated:
            return type_name(arguments[0])
        case typing.Literal:
            return " | ".join(map(str, arguments))
        case typing.Union | types.UnionType:
            return _either(arguments)
        case builtins.list:
            return f"list of {type_name(arguments[0])}"
        case builtins.tuple:
            return f"[{', '.join(map(type_name, arguments))}]"
        case builtins.dict:
            return "map"
    return "Python function"  # Callable[...]


def _either(choices: Sequence[Any]) -> str:
    """All names, each once. None is left out: a key that may be left out need not be set to nothing."""
    names = [type_name(choice) for choice in choices if choice is not type(None)]
    return " | ".join(dict.fromkeys(names))
