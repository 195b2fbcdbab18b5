"""How the ``env_config`` reaches the class or function that makes an env: as one dict, as keywords, or not at all."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym

from marl.envs.adapters.drawing import RENDER_MODE, build
from marl.errors import ConfigError

CONFIG_NAMES = ("config", "env_config", "cfg", "context")
CONFIG_TYPES = ("dict", "Dict", "Mapping", "EnvContext")


def call_creator(creator: Callable[..., Any], config: Mapping[str, Any], name: str = "env") -> Any:
    """The env. The config is given as one dict where a parameter stands for it, else entry by entry as keywords.

    One dict: to a first parameter that is a config by its name, its type or its default, and to the only parameter without a
    default, unless ``env_config`` has an entry of its name. Gymnasium's classes say ``size`` where they mean a key, so there
    only the looks count.
    """
    parameters = parameters_of(creator)
    if parameters is None:  # classes written in C have no signature
        return creator(config)
    if not parameters and not config:
        return creator()
    whole = config_parameter(creator, parameters, config)
    if whole is not None:
        return _with_whole(creator, whole, parameters, config)
    check_required(parameters, config, name)
    return build(creator, config)


def parameters_of(creator: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """What the creator takes; None where nobody can tell."""
    try:
        return list(inspect.signature(creator).parameters.values())
    except (TypeError, ValueError):
        return None


def config_parameter(
    creator: Callable[..., Any], parameters: Sequence[inspect.Parameter], config: Mapping[str, Any]
) -> inspect.Parameter | None:
    """The parameter that stands for the whole config, or None."""
    if not parameters:
        return None
    first = parameters[0]
    if first.kind is first.VAR_KEYWORD:
        return None
    if first.kind is first.VAR_POSITIONAL:
        # `(*args, **kwargs)` is what a decorator makes of a function; `(*args)` alone can take nothing but the dict.
        if len(parameters) == 1:
            return first
        return None
    if _is_config(first, config):
        return first
    # Gymnasium's classes mean a key by any other name.
    may_be_any_name = first.kind is not first.KEYWORD_ONLY and not _is_gymnasium(creator)
    is_the_only_one = names_without_default(parameters) == [first.name]
    if may_be_any_name and is_the_only_one and first.name not in config:
        return first
    return None


def _is_config(first: inspect.Parameter, config: Mapping[str, Any]) -> bool:
    """Whether a parameter is a config by its looks."""
    if first.name.strip("_") in CONFIG_NAMES:
        return True
    if first.name in config:  # a dict among other keys, such as the weights of a reward
        return False
    if isinstance(first.default, Mapping):
        return True
    annotation = str(first.annotation)  # a text already where its module postpones annotations
    return any(word in annotation for word in CONFIG_TYPES)


def _is_gymnasium(creator: object) -> bool:
    if not isinstance(creator, type):
        return False
    return issubclass(creator, gym.Env)


def names_without_default(parameters: Sequence[inspect.Parameter]) -> list[str]:
    """Names of the parameters that have to be given."""
    names: list[str] = []
    for parameter in parameters:
        is_named = parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if is_named and parameter.default is parameter.empty:
            names.append(parameter.name)
    return names


def check_required(parameters: Sequence[inspect.Parameter], config: Mapping[str, Any], name: str) -> None:
    """Say which keys are missing, and where they are written."""
    missing = [key for key in names_without_default(parameters) if key not in config]
    if not missing:
        return
    example = ", ".join(f"{key}: ..." for key in missing)
    raise ConfigError(
        f"env {name!r} cannot be built without {', '.join(missing)}. Write env_config: {{{example}}}; `marl config ENV` "
        "lists what it takes."
    )


def _with_whole(
    creator: Callable[..., Any],
    whole: inspect.Parameter,
    parameters: Sequence[inspect.Parameter],
    config: Mapping[str, Any],
) -> Any:
    """The creator with the whole config, and with the ``render_mode`` where it takes one beside it."""
    keywords: dict[str, Any] = {}
    mode = getattr(config, RENDER_MODE, None)
    takes_mode = any(parameter.name == RENDER_MODE for parameter in parameters)
    if mode is not None and takes_mode:
        keywords[RENDER_MODE] = mode
    if whole.kind is whole.KEYWORD_ONLY:
        return creator(**{whole.name: config}, **keywords)
    return creator(config, **keywords)
