"""Which keys the ``env_config`` of an env has: for ``marl config ENV``."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from marl.config import Config
from marl.envs.adapters.creators import config_parameter, parameters_of
from marl.envs.adapters.gymnasium_ids import gymnasium_keys
from marl.envs.adapters.pettingzoo_names import with_parameters
from marl.envs.families import KeySource, family_of
from marl.envs.registry import resolve_env


@dataclass(frozen=True)
class Parameter:
    """One key of an env that has no config class."""

    name: str
    type: str
    default: Any = inspect.Parameter.empty  # empty: it has to be given


@dataclass(frozen=True)
class EnvKeys:
    """``config`` where the env declares its keys; else ``parameters`` of what builds it, and whether it takes others, too.

    ``whole``: it takes all keys as one dict under this name, and nobody knows which they are.
    """

    config: type[Config] | None = None
    parameters: list[Parameter] = field(default_factory=list)
    takes_others: bool = False
    whole: str = ""


def keys_of_env(env: str) -> EnvKeys:
    """The keys of an env as it stands behind ``env:``. Nothing is built."""
    creator = resolve_env(env)
    found_family = family_of(env)
    if found_family is not None:
        family, name = found_family
        if family.keys is not None:
            return _of_source(family.keys(name))
    made_by = getattr(creator, "func", None)
    is_id = isinstance(creator, partial) and getattr(made_by, "__module__", "").endswith(".gymnasium_ids")
    if is_id:
        entry, given = gymnasium_keys(env)
        return _of_source(entry, given)
    return _of_source(_own_class(creator, env))


def _own_class(creator: Callable[..., Any], env: str) -> Callable[..., Any]:
    """What has the parameters: a PettingZoo function of ``**kwargs`` stands beside the class that it makes."""
    parameters = parameters_of(creator) or []
    hands_on = [parameter.kind for parameter in parameters] == [inspect.Parameter.VAR_KEYWORD]
    home, _, _ = env.partition(":")
    module = sys.modules.get(home)
    if hands_on and hasattr(module, "raw_env"):
        return with_parameters(module, home)
    return creator


def _of_source(source: KeySource, given: Mapping[str, Any] | None = None) -> EnvKeys:
    """``given`` are defaults that somebody else has set."""
    if isinstance(source, Mapping):
        parameters = [Parameter(name, "", default) for name, default in source.items()]
        return EnvKeys(parameters=parameters)
    config: type[Config] | None = getattr(source, "config_class", None)
    if isinstance(source, type) and issubclass(source, Config):
        config = source
    if config is None:
        return _of_parameters(source, given or {})
    hands_on = bool(getattr(source, "hands_on_keys", False))
    return EnvKeys(config=config, takes_others=hands_on)


def _of_parameters(creator: Callable[..., Any], given: Mapping[str, Any]) -> EnvKeys:
    parameters = parameters_of(creator) or []
    whole = config_parameter(creator, parameters, {})
    if whole is not None:
        return EnvKeys(whole=whole.name)
    found: list[Parameter] = []
    takes_others = False
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_others = True
        elif parameter.kind is not parameter.VAR_POSITIONAL:
            default = given.get(parameter.name, parameter.default)
            found.append(Parameter(parameter.name, _type_of(parameter), default))
    return EnvKeys(parameters=found, takes_others=takes_others)


def _type_of(parameter: inspect.Parameter) -> str:
    """As its author wrote it; nothing where he did not."""
    if parameter.annotation is parameter.empty:
        return ""
    if isinstance(parameter.annotation, type):
        return parameter.annotation.__name__
    return str(parameter.annotation).strip("'\"")
