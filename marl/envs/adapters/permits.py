"""What a file may ask of other libraries: their own envs, and none of the files that some of these can read.

The prefixes (``pettingzoo:``, ``openspiel:``, ...) and Gymnasium's ids stand for packages that are installed. They are no
way around ``--allow``: ``gymnasium.make`` imports whatever stands before a colon in an id, and some games read a file whose
path is one of their keys.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import find_highest_version, get_env_id, parse_env_id

from marl.errors import ConfigError, printable
from marl.trust import Trust, check_module, current

KNOWN = ("ale_py", "gymnasium", "lbforaging", "rware")  # whose registered ids need no --allow
_PETTINGZOO = re.compile(r"[a-z][a-z0-9_]*/[a-z][a-z0-9_]*_v\d+", re.ASCII)
_PLACE = re.compile(r"(^|_)(file|filename|path|dir|directory|folder|url|host|address|rom)(_|$)", re.IGNORECASE)
_INNER = re.compile(r"(\w+)\s*=\s*([^,()]+)")  # repeated_game(stage_game=efg_game(filename=/tmp/x))
_PLAIN = re.compile(r"(?=.*[/(])[A-Za-z/][\w./()=+@-]*([ :][\w./(][\w./()=+@-]*)*")  # a text for YAML, too


def check_gymnasium(env_id: str) -> None:
    """Refuse an id out of a file that would import a module which is neither Gymnasium's own nor allowed."""
    trust = current()
    if trust is None or env_id in trust.words:
        return
    before, colon, _ = env_id.rpartition(":")
    if colon:
        if before not in KNOWN:
            check_module(before, f"env {env_id!r}")
        return
    spec = gym.registry.get(_meant(env_id))
    if spec is None:
        return  # Gymnasium says that there is no such id
    # Both of them: whoever registered the id chose what either imports.
    for entry in (spec.entry_point, spec.vector_entry_point):
        home: str | None = getattr(entry, "__module__", None)  # of a class or a function
        if isinstance(entry, str):
            home = entry.partition(":")[0]
        if home is None:
            continue
        package = home.partition(".")[0]
        if package not in KNOWN:
            check_module(str(home), f"env {env_id!r}")


def _meant(env_id: str) -> str:
    """The id that ``gymnasium.make`` takes: without a version the newest one, whichever package has registered it."""
    try:
        namespace, name, version = parse_env_id(env_id)
    except gym.error.Error:
        return env_id
    if version is not None:
        return env_id
    newest = find_highest_version(namespace, name)
    if newest is None:
        return env_id
    return get_env_id(namespace, name, newest)


def check_pettingzoo(path: str) -> None:
    """Refuse anything but ``FAMILY/NAME_vN`` behind ``pettingzoo:`` in a file: other modules are no envs."""
    from_a_file = current() is not None
    if from_a_file and not _PETTINGZOO.fullmatch(path):
        raise ConfigError(f"env 'pettingzoo:{printable(path)}' comes from a file; expected pettingzoo:FAMILY/NAME_vN.")


@dataclass(frozen=True)
class _Place:
    """A file or a host in a scenario."""

    key: str
    value: str
    option: str  # the dotted key of the scenario that holds it
    text: str  # all of the text: the value itself, or ``game(key=value)``
    inside: object = None  # the list that the text stands in


def check_places(env: str, keys: Mapping[str, Any], where: str = "env_config") -> None:
    """Refuse keys that name a file or a host, unless the user gave the same again: a path in a file is not followed.

    ``where`` is the dotted key of the scenario under which ``keys`` stand.
    """
    trust = current()
    if trust is None:
        return
    texts = list(_texts(keys, where))
    _, _, name = env.partition(":")
    if name not in trust.words:  # envs are also told without their prefix
        option = where.removesuffix("_config")
        inner = [_Place(key, value, option, env) for key, value in _INNER.findall(env)]
        texts = inner + texts
    for place in texts:
        if not _PLACE.search(place.key):
            continue
        given_again = {place.value, place.text} & trust.words
        if not given_again:
            raise ConfigError(
                f"env {printable(env)!r}: the file sets {place.key} to {place.value!r}. A place that stands in a file is not "
                f"followed unless you give it again: {printable(_again(place, trust))}"
            )


def places_given(env: object, keys: Mapping[str, Any], where: str = "env_config") -> list[str]:
    """``key=value`` of everything that ``check_places`` would ask for, as it is typed behind ``--set``."""
    found: list[tuple[str, object]] = []
    if isinstance(env, str):
        in_name = any(_PLACE.search(key) for key, _ in _INNER.findall(env))
        if in_name:
            found.append((where.removesuffix("_config"), env))
    found.extend(_places_in(keys, where))
    return [shlex.quote(f"{option}={_typed(value)}") for option, value in found]


def _places_in(value: object, option: str) -> Iterator[tuple[str, object]]:
    """Options whose values hold a file or a host, each with all of its value: a list, or values that are searched over."""
    if not isinstance(value, Mapping):
        if any(_PLACE.search(place.key) for place in _texts(value, option)):
            yield option, value
        return
    for key, item in value.items():
        below = f"{option}.{key}"
        names_a_place = _PLACE.search(str(key)) is not None
        if names_a_place and any(_texts(item, below)):
            yield below, item
        else:
            yield from _places_in(item, below)


def _texts(value: object, option: str) -> Iterator[_Place]:
    """Texts by their keys, at any depth, also inside of OpenSpiel's ``game(key=value)``."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(item, f"{option}.{key}")
    elif isinstance(value, list | tuple):
        for item in value:
            for place in _texts(item, option):
                # The whole list has to be given again, not one of its entries.
                in_list = replace(place, option=option, inside=value)
                yield in_list
    elif isinstance(value, str):
        own_key = option.rpartition(".")[2]
        yield _Place(own_key, value, option, value)
        for key, inner in _INNER.findall(value):
            yield _Place(key, inner, option, value)


def _again(place: _Place, trust: Trust) -> str:
    """The option with which the owner of a file gives a place again."""
    if trust.options is not None:
        return trust.options
    whole: object = place.text
    if place.inside is not None:
        whole = place.inside
    setting = f"{place.option}={_typed(whole)}"
    top_key, _, _ = place.option.partition(".")
    return f"--set {shlex.quote(setting)} (in Python: give {top_key} again)"


def _typed(value: object) -> str:
    """As YAML, and so ``--set``, reads it."""
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    return json.dumps(value)  # with quotes: YAML would read a bare `1e3` or `no` as something else
