"""How much the JSON of a space asks for, found out without building anything: it may come from a stranger."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from marl.errors import UserError

LARGEST_SPACE = 10_000_000  # numbers of one space that a client may ask for
# What goes wrong with JSON that is no space.
BROKEN = (UserError, KeyError, TypeError, ValueError, AssertionError, OverflowError, AttributeError, MemoryError)


def size_of(plain: Any) -> int | None:
    """Numbers that a policy sees or chooses from; None where it is no space."""
    try:
        return SIZES[plain["type"]](plain)
    except BROKEN:
        return None


def _whole(value: Any) -> int:
    # A text or a list times a number would be as long as the number says.
    if type(value) is not int or value < 0:
        raise TypeError(value)
    return value


def _product(shape: Any) -> int:
    if type(shape) is int:
        shape = [shape]
    return math.prod(map(_whole, shape))


def _options(nvec: Any) -> int:
    """Of a MultiDiscrete: each of its numbers is a choice between so many."""
    if isinstance(nvec, list):
        return sum(map(_options, nvec))
    return _whole(nvec)


def _sum(parts: Iterable[Any]) -> int:
    total = 0
    for part in parts:
        total += SIZES[part["type"]](part)
    return total


SIZES: dict[str, Callable[[Any], int]] = {
    "Box": lambda plain: _product(plain["shape"]),
    "Discrete": lambda plain: _whole(plain["n"]),
    "MultiDiscrete": lambda plain: _options(plain["nvec"]),
    "MultiBinary": lambda plain: _product(plain["n"]),
    "Tuple": lambda plain: _sum(plain["spaces"]),
    "Dict": lambda plain: _sum(part for _, part in plain["spaces"]),
}
