"""Marks of a search: ``{grid_search: [...]}`` and its relatives in place of a value.

Tuning puts values in their place (``marl.tune``); a single run refuses them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from marl.errors import ConfigError

KINDS = ("grid_search", "choice", "uniform", "loguniform", "randint")
USERS_OWN = ("env_config", "wrappers")  # what stands below them may be called `choice` for reasons of its own

Path: TypeAlias = tuple[str | int, ...]


class Mark(NamedTuple):
    """Where a search stands, what it is, and what it was given."""

    path: Path
    kind: str
    values: Any


def find_marks(tree: Any, path: Path = ()) -> Iterator[Mark]:
    """All marks in a tree of dicts and lists, in the order in which they stand there."""
    if isinstance(tree, Mapping):
        if len(tree) == 1:  # a mark stands alone; among others it is a key that happens to be called so
            kind, values = next(iter(tree.items()))
            if kind in KINDS:
                yield Mark(path, kind, values)
                return
        for key, value in tree.items():
            yield from find_marks(value, (*path, key))
    elif isinstance(tree, list | tuple):
        for number, value in enumerate(tree):
            yield from find_marks(value, (*path, number))


def refuse_marks(keys: Mapping[str, Any], where: str) -> None:
    """A single run has one value for each key."""
    if "tune" in keys:
        raise ConfigError(
            f"{where}: the section 'tune' belongs to a search over values, and this is a single run. Start it with "
            "`marl tune FILE`, or drop the section."
        )
    for path, kind, _ in find_marks(keys):
        users_own = [part for part in path if part in USERS_OWN or str(part).startswith("custom_")]
        # No env calls a key of its own grid_search, so that one is always meant for us.
        if users_own and kind != "grid_search":
            continue
        raise ConfigError(
            f"{where}: {'.'.join(map(str, path))} is a search ({kind}), and a single run needs one value. Start the "
            "search with `marl tune FILE` or marl.tune.run, or give one value."
        )
