"""What a file may ask of other libraries: their own worlds, and none of the files that some of these can read.

The prefixes (``pettingzoo:``, ``openspiel:``, ...) and Gymnasium's ids stand for packages that are installed. They are no
way around ``--allow``: ``gymnasium.make`` imports whatever stands before a colon in an id, and some games read a file whose
path is one of their keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium as gym

from marl.errors import ConfigError, printable
from marl.trust import check_module, current

KNOWN = ("gymnasium", "lbforaging")  # whose registered ids need no --allow
_PETTINGZOO = re.compile(r"[a-z][a-z0-9_]*/[a-z][a-z0-9_]*_v\d+", re.ASCII)
_PLACE = re.compile(r"(^|_)(file|filename|path|dir|directory|folder|url|host|address|rom)(_|$)", re.IGNORECASE)
_INNER = re.compile(r"(\w+)\s*=\s*([^,()]+)")  # repeated_game(stage_game=efg_game(filename=/tmp/x))


def check_gymnasium(env_id: str) -> None:
    """Refuse an id out of a file that would import a module which is neither Gymnasium's own nor allowed."""
    trust = current()
    if trust is None or env_id in trust.words:
        return
    before, colon, _ = env_id.rpartition(":")
    if colon:
        check_module(before, f"env {env_id!r}")
        return
    if env_id not in gym.registry:
        return  # Gymnasium says that there is no such id
    for entry in (gym.registry[env_id].entry_point, gym.registry[env_id].vector_entry_point):
        home = entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", None)
        if home is not None and home.partition(".")[0] not in KNOWN:
            check_module(str(home), f"env {env_id!r}")


def check_pettingzoo(path: str) -> None:
    """Refuse anything but ``FAMILY/NAME_vN`` behind ``pettingzoo:`` in a file: other modules are no worlds."""
    if current() is not None and not _PETTINGZOO.fullmatch(path):
        raise ConfigError(f"env 'pettingzoo:{printable(path)}' comes from a file; expected pettingzoo:FAMILY/NAME_vN.")


def check_places(env: str, keys: Mapping[str, Any]) -> None:
    """Refuse keys that name a file or a host, unless the user gave the same again: a path in a file is not followed."""
    trust = current()
    if trust is None:
        return
    for key, value in [*_INNER.findall(env), *_texts(keys)]:
        if _PLACE.search(key) and value not in trust.words:
            raise ConfigError(
                f"env {printable(env)!r}: the file sets {key} to {value!r}. A place that stands in a file is not followed "
                f"unless you give it again: --set env_config.{key}={printable(value)}"
            )


def _texts(keys: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Texts by their keys, at any depth, also inside of OpenSpiel's ``game(key=value)``."""
    for key, value in keys.items():
        if isinstance(value, Mapping):
            yield from _texts(value)
        elif isinstance(value, str):
            yield str(key), value
            yield from _INNER.findall(value)
