"""From ``pettingzoo:family/name_vN`` and modules of PettingZoo to what makes the env."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from marl.envs.adapters.drawing import build
from marl.envs.adapters.permits import check_pettingzoo, check_places
from marl.envs.adapters.pettingzoo import from_pettingzoo
from marl.envs.base import MultiAgentEnv
from marl.errors import ConfigError, did_you_mean, let_through

APART = ("mpe2",)  # families that are packages of their own


def make_pettingzoo(path: str, env_config: Mapping[str, Any]) -> MultiAgentEnv:
    """The env behind ``pettingzoo:family/name_vN``; MPE games live in the package ``mpe2``."""
    check_pettingzoo(path)
    check_places(f"pettingzoo:{path}", env_config)
    creator = pettingzoo_creator(_module(path), f"pettingzoo:{path}")
    return from_pettingzoo(build(creator, env_config))


def pettingzoo_keys(path: str) -> Callable[..., Any]:
    """What has the keys of ``pettingzoo:path`` as parameters: the env's own class, as ``env(**kwargs)`` tells nothing."""
    check_pettingzoo(path)
    return with_parameters(_module(path), f"pettingzoo:{path}")


def with_parameters(module: object, name: str) -> Callable[..., Any]:
    """``raw_env`` of a PettingZoo module, where it has one, else what makes its env."""
    found = getattr(module, "raw_env", None)
    if callable(found):
        creator: Callable[..., Any] = found
        return creator
    return pettingzoo_creator(module, name)


def pettingzoo_creator(module: object, name: str) -> Callable[..., Any]:
    """``parallel_env`` of a module, or, where everybody takes turns, its ``env``."""
    for attribute in ("parallel_env", "env"):  # one step for all agents, where there is such a form, is faster
        found = getattr(module, attribute, None)
        if callable(found):
            creator: Callable[..., Any] = found
            return creator
    raise ConfigError(f"{name} has neither parallel_env nor env, so it is no PettingZoo env.")


def _module(path: str) -> ModuleType:
    family, _, name = path.partition("/")
    package = family if family in APART else f"pettingzoo.{family}"
    try:
        return importlib.import_module(f"{package}.{name}")
    except BaseException as error:  # modules of games fail in many ways: pygame, roms or a licence may be missing
        let_through(error)
        raise ConfigError(
            f"pettingzoo:{path} cannot be loaded ({type(error).__name__}: {error}).{_hint(package, name)} Expected "
            "pettingzoo:FAMILY/NAME_vN, for instance pettingzoo:mpe2/simple_spread_v3; the family's own packages "
            "must be installed (pip install 'pettingzoo[FAMILY]', or mpe2 for the MPE games)."
        ) from error


def _hint(package: str, name: str) -> str:
    """A name of the family that is near the wrong one, for instance a newer version."""
    folder = getattr(sys.modules.get(package), "__path__", [])
    known = [module.name for module in pkgutil.iter_modules(folder) if "_v" in module.name]
    if name in known:
        return ""
    return did_you_mean(name, known)
