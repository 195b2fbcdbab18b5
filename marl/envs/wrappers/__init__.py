"""Wrappers by name: ours, SuperSuit's, or ``package.module:name`` of a function ``(env, **keys) -> env``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from pydantic import ValidationError

from marl.config import explain
from marl.envs.adapters.adapt import as_env, as_foreign, wraps_foreign
from marl.envs.base import MultiAgentEnv
from marl.envs.wrappers.joint import GroupedEnv
from marl.envs.wrappers.partial import KeepEntries
from marl.envs.wrappers.pixels import GreyFrames
from marl.errors import ConfigError, UnknownNameError, UserError, did_you_mean, let_through
from marl.registry import Registry, load_object
from marl.trust import Sort

Wrapper: TypeAlias = Callable[..., Any]
"""Takes an env and keys, gives an env."""

WRAPPERS: Registry[Wrapper] = Registry("wrapper")
WRAPPER = Sort("wrapper", (MultiAgentEnv,), creators=True, rooms=("marl.envs",))


class Wrapping(NamedTuple):
    """One entry of ``wrappers:``."""

    name: str
    keys: Mapping[str, Any]


def register_wrapper(name: str, wrapper: Wrapper) -> None:
    """Make ``wrappers: [{name: {...}}]`` work; ``wrapper(env, **keys)`` gets a ``MultiAgentEnv``."""
    WRAPPERS.put(name, wrapper)


def read_wrappers(given: Sequence[object]) -> tuple[Wrapping, ...]:
    """Entries such as ``flatten_v0`` or ``{frame_stack_v1: {stack_size: 2}}``, checked for their form and name."""
    found: list[Wrapping] = []
    for entry in given:
        if isinstance(entry, Wrapping):  # read before
            found.append(entry)
            continue
        if isinstance(entry, str):
            entry = {entry: {}}
        if not isinstance(entry, Mapping) or len(entry) != 1:
            raise ConfigError(
                f"wrappers holds {entry!r}. Expected a name, or one name with its keys: {{frame_stack_v1: {{stack_size: 2}}}}."
            )
        ((name, given_keys),) = entry.items()
        keys = given_keys or {}  # `- flatten_v0:` in YAML gives None
        if not isinstance(name, str) or not isinstance(keys, Mapping):
            raise ConfigError(f"wrapper {name!r} has the keys {given_keys!r}. Expected names and values.")
        _resolve(name)  # a name that does not exist is an error before any env is built
        found.append(Wrapping(name, dict(keys)))
    return tuple(found)


def wrap(env: object, wrappers: Sequence[Wrapping], name: str) -> MultiAgentEnv:
    """Apply the wrappers from first to last, so that the last one is outermost."""
    for place, (wrapper, keys) in enumerate(wrappers, start=1):
        apply, foreign = _resolve(wrapper)
        if foreign:
            inner = as_foreign(env)
        else:
            inner = as_env(env, name)
        next_is_foreign = False
        if place < len(wrappers):
            _, next_is_foreign = _resolve(wrappers[place].name)
        try:
            env = apply(inner, **keys)
            if not next_is_foreign:
                env = as_env(env, name)  # here, as some wrappers only look at the env in its first reset
        except UserError:
            raise
        except ValidationError as error:
            raise explain(error, f"wrapper {wrapper!r}", ()) from None
        except BaseException as error:
            let_through(error)
            raise ConfigError(
                f"wrapper {wrapper!r} with {dict(keys)} does not fit env {name!r}: {type(error).__name__}: {error}"
            ) from error
    return as_env(env, name)


def _resolve(name: str) -> tuple[Wrapper, bool]:
    """The wrapper, and whether it wants a PettingZoo or Gymnasium env rather than an env of ours."""
    if name in WRAPPERS:
        return WRAPPERS[name], False
    if ":" in name:
        found = load_object(name, WRAPPER)
        if not callable(found):
            raise ConfigError(f"wrapper {name!r} is a {type(found).__name__}; expected a function or a class.")
        return found, wraps_foreign(found)
    import supersuit  # takes a second to import: only where it is used

    in_supersuit = [n for n in dir(supersuit) if re.fullmatch(r"[a-z_]+_v\d+", n)]
    if name in in_supersuit:
        return getattr(supersuit, name), True
    known = [*WRAPPERS, *in_supersuit]
    raise UnknownNameError(
        f"unknown wrapper {name!r}.{did_you_mean(name, known)} Expected one of ours ({', '.join(WRAPPERS)}), of SuperSuit "
        "(pad_observations_v0, frame_stack_v1, ...), or package.module:name."
    )


def with_agent_groups(env: MultiAgentEnv, groups: Mapping[str, Sequence[str]]) -> MultiAgentEnv:
    """The wrapper of this name: each group is played as one agent."""
    return env.with_agent_groups(groups)


def show_members(env: MultiAgentEnv) -> MultiAgentEnv:
    """The members of an env whose groups were joined; how mixing algorithms see such an env."""
    if isinstance(env, GroupedEnv):
        return env.env
    return env


def hierarchy(env: MultiAgentEnv, **keys: Any) -> MultiAgentEnv:
    """Levels that set goals for each other."""
    from marl.envs.hierarchy.env import HierarchicalEnv  # needs networkx: only where it is used

    return HierarchicalEnv(env, **keys)


WRAPPERS.register("with_agent_groups", with_agent_groups)
WRAPPERS.register("show_members", show_members)
WRAPPERS.register("hierarchy", hierarchy)
WRAPPERS.register("keep_entries", KeepEntries)
WRAPPERS.register("grey_frames", GreyFrames)
