"""Nested state to JSON and arrays, and back: how checkpoints stay free of pickle."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from marl.data.task import Array

ARRAY, TUPLE, MAP = "__array__", "__tuple__", "__map__"
DEEPEST = 200  # levels; what is nested more deeply could not be walked through by every reader of a state


def pack(tree: Any) -> tuple[Any, dict[str, Array]]:
    """The tree as plain JSON values, with every array moved into a dict under the path where it first stood."""
    arrays = _Arrays()
    return _pack(tree, "", arrays), arrays.by_path


def unpack(plain: Any, arrays: dict[str, Array]) -> Any:
    """The tree that ``pack`` was given (numpy scalars have become Python numbers)."""
    return _unpack(plain, arrays, DEEPEST)


def _unpack(plain: Any, arrays: dict[str, Array], levels: int) -> Any:
    if not isinstance(plain, list | dict):
        return plain
    if not levels:
        raise ValueError(f"nested more than {DEEPEST} levels deep")
    below = levels - 1
    if isinstance(plain, list):
        return _unpack_items(plain, arrays, below)
    if ARRAY in plain:
        return arrays[plain[ARRAY]]
    if TUPLE in plain:
        return tuple(_unpack_items(plain[TUPLE], arrays, below))
    if MAP in plain:
        return _unpack_map(plain[MAP], arrays, below)
    tree: dict[str, Any] = {}
    for key, value in plain.items():
        tree[key] = _unpack(value, arrays, below)
    return tree


def _unpack_items(items: Any, arrays: dict[str, Array], levels: int) -> list[Any]:
    unpacked = []
    for item in items:
        unpacked.append(_unpack(item, arrays, levels))
    return unpacked


def _unpack_map(pairs: Any, arrays: dict[str, Array], levels: int) -> dict[Any, Any]:
    """A dict whose keys JSON cannot hold."""
    tree: dict[Any, Any] = {}
    for packed_key, value in pairs:
        key = _unpack(packed_key, arrays, levels)
        tree[key] = _unpack(value, arrays, levels)
    return tree


class _Arrays:
    """Arrays by the path where they first stood; one array that stands in several places is kept once."""

    def __init__(self) -> None:
        self.by_path: dict[str, Array] = {}
        self._path_of: dict[int, str] = {}

    def keep(self, array: Array, path: str) -> str:
        if id(array) not in self._path_of:
            self._path_of[id(array)] = path
            self.by_path[path] = array if array.flags.c_contiguous else array.copy()  # one without axes stays as it is
        return self._path_of[id(array)]


def _pack(tree: Any, path: str, arrays: _Arrays) -> Any:
    if path.count("/") >= DEEPEST // 3:  # a tuple or a dict with keys of its own takes three levels of JSON
        raise ValueError(f"state is nested more than {DEEPEST // 3} levels deep. Flatten it in get_state().")
    if isinstance(tree, np.ndarray):
        return {ARRAY: arrays.keep(tree, path or ".")}
    if isinstance(tree, np.generic):
        return tree.item()
    if isinstance(tree, dict):
        return _pack_dict(tree, path, arrays)
    if isinstance(tree, list):
        return _pack_items(tree, path, arrays)
    if isinstance(tree, tuple):
        return {TUPLE: _pack_items(tree, path, arrays)}
    if isinstance(tree, bool | int | float | str | None):
        return tree
    raise _cannot_be_stored(tree, path)


def _pack_items(items: Iterable[Any], path: str, arrays: _Arrays) -> list[Any]:
    packed = []
    for i, item in enumerate(items):
        packed.append(_pack(item, f"{path}/{i}", arrays))
    return packed


def _cannot_be_stored(tree: Any, path: str) -> TypeError:
    return TypeError(
        f"state at {path or 'top'} is a {type(tree).__name__}; a checkpoint holds numbers, strings, None, lists, "
        "tuples, dicts and numpy arrays. Turn it into one of these in get_state()."
    )


def _pack_dict(tree: dict[Any, Any], path: str, arrays: _Arrays) -> Any:
    if not all(map(_is_plain, tree)):
        return {MAP: _pack_pairs(tree, path, arrays)}
    packed = {}
    for key, value in tree.items():
        packed[key] = _pack(value, f"{path}/{_escaped(key)}", arrays)
    return packed


def _pack_pairs(tree: dict[Any, Any], path: str, arrays: _Arrays) -> list[list[Any]]:
    """Keys that JSON cannot hold stand beside their values. A key is no array, so it needs no place among them."""
    pairs = []
    for i, (key, value) in enumerate(tree.items()):
        pairs.append([_pack(key, "", _Arrays()), _pack(value, f"{path}/{i}", arrays)])
    return pairs


def _is_plain(key: Any) -> bool:
    """Whether a key can be one of JSON; our own marks begin with two underscores."""
    return isinstance(key, str) and not key.startswith("__")


def _escaped(key: str) -> str:
    """A key as part of a path: two different keys never give the same path."""
    return key.replace("~", "~0").replace("/", "~1")
