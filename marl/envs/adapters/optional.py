"""Envs that live in packages of their own: ``vmas:...``, ``openspiel:...`` and ``lbforaging:...``.

Their adapters import these packages, so they are loaded when such an env is first asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym

from marl.errors import ConfigError, EnvError

EXTRAS = {"vmas": "vmas", "openspiel": "open_spiel", "lbforaging": "lbforaging"}
"""Prefix of the env's name to the package that has it."""

PIP = {
    "ale_py": "'gymnasium[atari]'",
    "gymnasium_robotics": "gymnasium-robotics",
    "lbforaging": "lbforaging",
    "magent2": "magent2",
    "momaland": "momaland",
    "mpe2": "mpe2",
    "rware": "rware",
}
"""Modules whose envs are named by their path or id, to what pip calls their packages."""


def vmas_family(scenario: str) -> Callable[..., Any]:
    from marl.envs.adapters.vmas import vmas_env

    return vmas_env(scenario)


def openspiel_family(game: str) -> Callable[..., Any]:
    from marl.envs.adapters.openspiel import openspiel_env

    return openspiel_env(game)


def foraging_family(env_id: str) -> Callable[..., Any]:
    from marl.envs.adapters.lbforaging import foraging_env

    return foraging_env(env_id)


def openspiel_keys(game: str) -> dict[str, Any]:
    """Parameters of the game and their defaults; of those that have to be given, what is wanted."""
    openspiel_family(game)  # an unknown game is told with its neighbours
    name, _, _ = game.partition("(")
    wanted: dict[str, Any] = {}
    for known in need("pyspiel", "openspiel").registered_games():
        if known.short_name == name:
            wanted = dict(known.parameter_specification)
    return wanted


def foraging_keys(env_id: str) -> Callable[..., Any]:
    """The env's class with what the id says as defaults."""
    foraging_family(env_id)
    env = need("lbforaging.foraging", "lbforaging").ForagingEnv
    return partial(env, **gym.spec(env_id).kwargs)


def need(package: str, prefix: str) -> Any:
    """The imported package of an optional env; a ``ConfigError`` with the pip command where it is missing."""
    try:
        return importlib.import_module(package)
    except ImportError as error:  # also of a package that is there but lacks one of its own
        raise ConfigError(
            f"env {prefix}:... needs the package {package!r}, which cannot be imported ({error}). Install it: "
            f"pip install {EXTRAS[prefix]}"
        ) from error


def pip_hint(module: str) -> str:
    """`` Install it: pip install NAME``, for packages of envs that we know; else nothing."""
    if module not in PIP:
        return ""
    return f" Install it: pip install {PIP[module]}"


def undrawable(env: str, error: BaseException) -> EnvError:
    """What to say where OpenGL fails."""
    return EnvError(
        f"env {env!r} cannot be drawn here: {type(error).__name__}: {error}. It draws with OpenGL: install libegl1 and libgl1 "
        "for drawing without a display, or start the command under xvfb-run."
    )
