"""Families of envs: whoever knows the envs behind ``prefix:name``.

``pettingzoo:``, ``vmas:``, ``openspiel:``, ``lbforaging:`` and ``fast:`` are registered by ``catalog.py``. One from outside::

    marl.register_env_family("grid", lambda name: functools.partial(GridEnv, name), form="WIDTHxHEIGHT")

makes ``env: grid:5x5`` work, with its keys in ``env_config``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from marl.config import Config
from marl.envs.adapters.permits import check_places
from marl.errors import ConfigError
from marl.failures import call_own
from marl.registry import Registry

Factory: TypeAlias = Callable[[str], Callable[..., Any]]
"""From what stands behind the colon to what builds the env, as ``register_env`` takes it."""


KeySource: TypeAlias = type[Config] | Callable[..., Any] | Mapping[str, Any]
"""What tells the keys of an env: a config class, a function whose parameters they are, or keys and their defaults."""


@dataclass(frozen=True)
class EnvFamily:
    """``form`` is what stands behind the colon, for messages and the reference."""

    prefix: str
    factory: Factory
    form: str = "NAME"
    keys: Callable[[str], KeySource] | None = None  # what lists the keys of an env, where its creator does not tell

    def creator(self, name: str) -> Callable[..., Any]:
        """What builds the env called ``prefix:name``."""
        # A factory is code from outside: what it raises is reported with the family's name and the line.
        found = call_own(f"the env family {self.prefix!r}, asked for {name!r},", self.factory, name)
        if not callable(found):
            env = f"{self.prefix}:{name}"
            raise ConfigError(
                f"env {env!r}: its family gave a {type(found).__name__}; expected a class or a function that makes the env."
            )
        return found


ENV_FAMILIES: Registry[EnvFamily] = Registry("env family")


def register_env_family(prefix: str, factory: Factory, form: str = "NAME") -> None:
    """Make ``env: prefix:name`` work for every name that ``factory`` knows.

    ``factory(name)`` gets what stands behind the colon and gives what builds the env: a class or a function of the
    ``env_config``, or a ``BatchedEnv`` class. For a name that it does not know it raises an error that says which there are.
    ``form`` says in messages what stands behind the colon. A module called like the prefix can no longer be named by
    ``prefix:Class``. A checkpoint of somebody else may hold any name, so a factory must not run or open what a name says.
    """
    import marl.envs.catalog  # noqa: F401  (the built-in families, whose names are taken)

    if not callable(factory):
        raise ConfigError(
            f"env family {prefix!r} is {factory!r}; expected a function from a name to what builds the env."
        )
    ENV_FAMILIES.add(prefix, EnvFamily(prefix, factory, form))


def family_of(env: str) -> tuple[EnvFamily, str] | None:
    """The family of an env and its name there; None where the word before the colon is none, or there is no colon."""
    prefix, colon, name = env.partition(":")
    if not colon or prefix not in ENV_FAMILIES:
        return None
    return ENV_FAMILIES[prefix], name


def added_families(envs: Iterable[object]) -> dict[str, EnvFamily]:
    """The families from outside that these envs belong to: what workers of other processes have to be told."""
    used: set[str] = set()
    for env in envs:
        if not isinstance(env, str):
            continue  # a class is pickled with all that it needs
        found = family_of(env)
        if found is not None:
            family, _ = found
            used.add(family.prefix.lower())
    # Workers know the built-in families from their own imports.
    return {prefix: family for prefix, family in ENV_FAMILIES.added.items() if prefix in used}


def check_family_places(env: object, env_config: Mapping[str, Any]) -> None:
    """Places that a stranger's file names are not followed, by no family; see ``permits``."""
    if not isinstance(env, str):
        return
    if family_of(env) is not None:
        check_places(env, env_config)


def forms() -> str:
    """``pettingzoo:family/name_vN, vmas:NAME, ...``: all there are."""
    return ", ".join(f"{prefix}:{ENV_FAMILIES[prefix].form}" for prefix in ENV_FAMILIES.names)
