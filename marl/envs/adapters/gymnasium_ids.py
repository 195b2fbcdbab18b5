"""Gymnasium's ids: ``CartPole-v1``, ``package:id`` of a package that registers it when imported, and ``ALE/Pong-v5``."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

from marl.envs.adapters.drawing import build
from marl.envs.adapters.optional import pip_hint
from marl.envs.adapters.permits import KNOWN, check_gymnasium, check_places
from marl.errors import ConfigError, UnknownNameError, did_you_mean
from marl.registry import import_module

_ID = re.compile(r"(?:[\w-]+/)?[\w.-]+-v\d+", re.ASCII)
_ATARI = re.compile(r"ALE/.*|\w+(NoFrameskip|Deterministic|-ram.*)-v\d+", re.ASCII)


def gymnasium_creator(env: str) -> Callable[[Mapping[str, Any]], Any] | None:
    """What builds the env of this id; None where Gymnasium knows no such id."""
    package, colon, env_id = env.rpartition(":")
    if not _ID.fullmatch(env_id):
        return partial(_make, env) if env in gym.registry else None
    if colon:
        _import_home(env)
        known = list(gym.registry)
        if env_id not in known:
            raise UnknownNameError(
                f"env {env!r}: the package {package!r} registers no id {env_id!r}.{did_you_mean(env_id, known)}"
            )
    elif env_id not in gym.registry:
        _register_atari(env_id)
    return partial(_make, env) if env_id in gym.registry else None


def _make(env: str, config: Mapping[str, Any]) -> Any:
    """The env itself; a worker imports the package that registers it by itself."""
    package, _, env_id = env.rpartition(":")
    if package:
        _import_home(env)
    elif env_id not in gym.registry:
        _register_atari(env_id)
    if not package or package in KNOWN:
        check_gymnasium(env_id)
    check_places(env_id, config)
    return build(partial(gym.make, env_id), config)


def gymnasium_keys(env: str) -> tuple[Callable[..., Any], Mapping[str, Any]]:
    """The class or function behind an id, whose parameters are the keys, and what the id itself gives it."""
    _, _, env_id = env.rpartition(":")
    check_gymnasium(env_id)
    spec = gym.spec(env_id)
    entry: Any = spec.entry_point
    if isinstance(entry, str):
        entry = load_env_creator(entry)
    return entry, spec.kwargs


def _import_home(env: str) -> None:
    """Import the package before the colon, which registers the id; one out of a file has to be known or allowed."""
    package, _, _ = env.rpartition(":")
    check_gymnasium(env)
    try:
        if package in KNOWN:
            importlib.import_module(package)
        else:
            import_module(package, f"env {env!r}")
    except ImportError as error:
        raise ConfigError(f"env {env!r}: cannot import {package!r} ({error}).{pip_hint(package)}") from error


def _register_atari(env_id: str) -> None:
    """Atari's ids are known to Gymnasium once ale_py has been imported, which nobody but us does."""
    try:
        importlib.import_module("ale_py")
    except ImportError as error:
        if _ATARI.fullmatch(env_id):
            raise ConfigError(
                f"env {env_id!r} is an Atari game, which needs the package ale_py ({error}).{pip_hint('ale_py')}"
            ) from error
