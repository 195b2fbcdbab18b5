"""Random changes of nested values (JSON, YAML): types, sizes, names, keys, depth."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

Place: TypeAlias = tuple[Any, ...]
"""Keys and positions from the top to a value."""

NUMBERS = (
    0, -1, 1, 2, 3, -(2**31), 2**31, 2**53, 2**63, 2**64, 10**30, 10**400, 0.5, -0.0, 1e-300, 1e300, float("nan"),
    float("inf"), float("-inf"), True, False,
)  # fmt: skip
TEXTS = (
    "", " ", "0", "-1", "nan", "null", "true", "None", "x" * 5000, "\x00", "\n", "ü", "日本", "🦊", "{}", "[]", "../..",
    ".", "/", "~", "%s", "{0}", "$HOME",
    "a.b.c", "a:b", ":", "#", "__class__", "__init__", "__array__", "random", "ppo", "qmix",
    "CartPole-v1", "two_step_game", "auto", "best",
)  # fmt: skip
OTHERS: tuple[Any, ...] = (
    None,
    [],
    {},
    [None],
    [[]],
    {"": None},
    {"a": 1},
    [1, 2, 3],
    {"name": "ppo"},
    [{}],
    {"type": "x"},
)


def places(tree: Any, before: Place = ()) -> Iterator[Place]:
    """Every value below the top, the containers among them."""
    items: Sequence[tuple[Any, Any]] = ()
    if isinstance(tree, dict):
        items = list(tree.items())
    elif isinstance(tree, list):
        items = list(enumerate(tree))
    for key, value in items:
        yield (*before, key)
        yield from places(value, (*before, key))


def look(tree: Any, place: Place) -> Any:
    for key in place:
        tree = tree[key]
    return tree


def put(tree: Any, place: Place, value: Any) -> None:
    look(tree, place[:-1])[place[-1]] = value


def _another_value(tree: Any, place: Place, draw: random.Random) -> str:
    pool = draw.choice([NUMBERS, TEXTS, OTHERS])
    value = copy.deepcopy(draw.choice(pool))
    put(tree, place, value)
    return f"{_named(place)} = {str(value)[:30]!r}"


def _nearby_value(tree: Any, place: Place, draw: random.Random) -> str:
    """Of the same type, but wrong."""
    value = look(tree, place)
    if isinstance(value, bool) or value is None:
        return _another_value(tree, place, draw)
    if isinstance(value, int | float):
        new: Any = draw.choice([-value, value + 1, value - 1, value * 1000, value / 3, 0, 1, 10**9])
    elif isinstance(value, str):
        at = draw.randrange(len(value) + 1)
        new = draw.choice([value[:at], value[:at] + "x" + value[at:], value.upper(), value + value, value[::-1]])
    elif isinstance(value, list):
        new = draw.choice([value[:-1], value + value, value * 50, value[::-1], [value], *value[:1]])
    else:
        return _rename_key(tree, (*place, ""), draw)
    put(tree, place, new)
    return f"{_named(place)} = {str(new)[:30]!r}"


def _delete(tree: Any, place: Place, _: random.Random) -> str:
    del look(tree, place[:-1])[place[-1]]
    return f"{_named(place)} deleted"


def _rename_key(tree: Any, place: Place, draw: random.Random) -> str:
    parent = look(tree, place[:-1])
    if not isinstance(parent, dict) or not parent:
        return _another_value(tree, place[:-1], draw) if len(place) > 1 else "nothing"
    old = draw.choice(list(parent))
    new = draw.choice([f"{old}x", str(old)[:-1], str(old).upper(), *TEXTS[:6], 7, draw.choice(list(parent))])
    parent[new] = parent.pop(old)
    return f"{_named((*place[:-1], old))} renamed {new!r}"


def _insert(tree: Any, place: Place, draw: random.Random) -> str:
    parent = look(tree, place[:-1])
    value = copy.deepcopy(draw.choice((*NUMBERS, *TEXTS, *OTHERS)))
    if isinstance(parent, list):
        parent.insert(draw.randrange(len(parent) + 1), value)
    else:
        parent[draw.choice(TEXTS)] = value
    return f"{_named(place[:-1])} got {str(value)[:30]!r}"


def _move(tree: Any, place: Place, draw: random.Random) -> str:
    """A value from elsewhere in the tree."""
    other = draw.choice(list(places(tree)))
    put(tree, place, copy.deepcopy(look(tree, other)))
    return f"{_named(place)} = what stood at {_named(other)}"


def _nest(tree: Any, place: Place, draw: random.Random) -> str:
    value, depth = look(tree, place), draw.choice([1, 2, 50, 400])
    for _ in range(depth):
        value = [value] if draw.random() < 0.5 else {"a": value}
    put(tree, place, value)
    return f"{_named(place)} nested {depth} times"


CHANGES: dict[Callable[[Any, Place, random.Random], str], int] = {
    _another_value: 6, _nearby_value: 6, _delete: 3, _rename_key: 2, _insert: 2, _move: 2, _nest: 1,
}  # fmt: skip


def mutate(tree: Any, draw: random.Random, times: int = 1, below: Place = ()) -> list[str]:
    """Change the tree in place, somewhere below a place; gives what was done."""
    told = []
    for _ in range(times):
        found = [(*below, *place) for place in places(look(tree, below))]
        if not found:
            break
        (change,) = draw.choices(list(CHANGES), list(CHANGES.values()))
        told.append(change(tree, draw.choice(found), draw))
    return told


def _named(place: Place) -> str:
    return ".".join(str(key)[:30] for key in place) or "top"
