"""In which keys two scenarios differ: single keys with both values, never whole sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

MOST = 5  # keys that a message names
LONGEST = 60  # characters of a value in a message


class Difference(NamedTuple):
    """A dotted key and its two values; None: it is not given."""

    key: str
    first: Any
    second: Any


def differences(first: Any, second: Any, key: str = "") -> list[Difference]:
    """The leaves in which two trees differ. An empty section says as much as none."""
    trees = [tree or {} for tree in (first, second) if isinstance(tree, Mapping) or tree is None]
    if len(trees) == 2:
        a, b = trees
        keys = dict.fromkeys([*a, *b])
        return [d for k in keys for d in differences(a.get(k), b.get(k), f"{key}.{k}" if key else str(k))]
    return [] if first == second else [Difference(key, first, second)]


def told(found: Sequence[Difference], first: str = "", second: str = "") -> str:
    """``algo.lr is 0.1 there and 0.5 now``, for the first few keys; ``first`` and ``second`` are words such as there, now."""
    parts = [
        f"{d.key} is {' '.join(filter(None, (_short(d.first), first)))} and "
        f"{' '.join(filter(None, (_short(d.second), second)))}"
        for d in found[:MOST]
    ]
    more = len(found) - MOST
    return "; ".join([*parts, f"and {more} more {'key' if more == 1 else 'keys'}"] if more > 0 else parts)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
