"""In which keys two scenarios differ: single keys with both values, never whole sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from marl.analysis.report.content import plural

MOST = 5  # keys that a message names
LONGEST = 60  # characters of a value in a message


class Difference(NamedTuple):
    """A dotted key and its two values; None: it is not given."""

    key: str
    first: Any
    second: Any


def differences(first: Any, second: Any, key: str = "") -> list[Difference]:
    """The leaves in which two trees differ. An empty section says as much as none."""
    # None as well: a section that is left out and an empty one are the same scenario.
    if not (isinstance(first, Mapping | None) and isinstance(second, Mapping | None)):
        if first == second:
            return []
        return [Difference(key, first, second)]
    here, there = first or {}, second or {}
    found: list[Difference] = []
    for name in dict.fromkeys([*here, *there]):
        below = f"{key}.{name}".removeprefix(".")
        found += differences(here.get(name), there.get(name), below)
    return found


def told(found: Sequence[Difference], first: str = "", second: str = "") -> str:
    """``algo.lr is 0.1 there and 0.5 now``, for the first few keys; ``first`` and ``second`` are words such as there, now."""
    parts = []
    for one in found[:MOST]:
        here = f"{_short(one.first)} {first}".rstrip()
        there = f"{_short(one.second)} {second}".rstrip()
        parts.append(f"{one.key} is {here} and {there}")
    more = len(found) - MOST
    if more > 0:
        parts.append(f"and {plural(more, 'more key')}")
    return "; ".join(parts)


def _short(value: Any) -> str:
    text = repr(value)
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - 3]}..."
