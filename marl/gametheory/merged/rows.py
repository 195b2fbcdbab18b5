"""Equal rows of a table of bytes, found by hashes and compared in full: exact, and faster than sorting whole rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from marl.data.task import Array, Ints
from marl.errors import ConfigError

Bytes = NDArray[np.uint8]
WORD = 8


def as_bytes(parts: Sequence[Array]) -> Bytes:
    """Arrays ``[n, ...]`` side by side as rows of bytes ``[n, w]``, with ``w`` a multiple of 8. -0.0 becomes 0.0."""
    count = len(parts[0])
    columns: list[Bytes] = []
    for part in parts:
        plain = np.ascontiguousarray(part)
        if plain.dtype.hasobject:
            raise ConfigError(
                f"an array among state_arrays holds Python objects (dtype {plain.dtype}), which cannot be compared as bytes. "
                "Keep the state of a native env in arrays of numbers, or build a tree, which compares nothing."
            )
        if plain.dtype.kind == "f":
            plain = plain + np.zeros((), plain.dtype)
        wide = math.prod(plain.shape[1:]) * plain.itemsize  # said, because no rows do not tell it
        columns.append(plain.reshape(-1).view(np.uint8).reshape(count, wide))
    width = sum(column.shape[1] for column in columns)
    columns.append(np.zeros((count, -width % WORD), np.uint8))
    return np.concatenate(columns, axis=1)


def distinct(rows: Bytes) -> tuple[Ints, Ints]:
    """Where each different row stands first, in that order, and the number ``[n]`` of each row among them."""
    if not len(rows):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    words = rows.view(np.uint64)
    order = np.argsort(_hashes(words), kind="stable")
    in_order = words[order]
    new = np.ones(len(rows), bool)
    new[1:] = (in_order[1:] != in_order[:-1]).any(axis=1)
    first, number = _by_first_place(order, np.cumsum(new) - 1, order[new])
    # Different rows of one hash may stand in turns, so that one of them begins twice: then rows are sorted themselves.
    if _repeats(words[first]):
        _, place, inverse = np.unique(words, axis=0, return_index=True, return_inverse=True)
        first, number = _by_first_place(np.arange(len(rows)), inverse.reshape(-1), place)
    return first, number


def _hashes(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A number per row that hardly ever is the same for different rows."""
    drawn = np.random.default_rng(7).integers(1, 2**63, words.shape[1], dtype=np.uint64)
    odd = np.bitwise_or(drawn, np.uint64(1))
    found = np.zeros(len(words), np.uint64)
    for column in range(words.shape[1]):
        found = (found ^ words[:, column]) * odd[column : column + 1]  # wraps around
        found ^= found >> np.uint64(29)
    return found


def _by_first_place(order: Ints, block: Ints, first: Ints) -> tuple[Ints, Ints]:
    """Blocks of equal rows numbered by where they begin; ``block[i]`` is the block of row ``order[i]``."""
    rank = np.argsort(first, kind="stable")
    number_of = np.empty(len(first), np.int64)
    number_of[rank] = np.arange(len(first))
    number = np.empty(len(order), np.int64)
    number[order] = number_of[block]
    return first[rank], number


def _repeats(words: NDArray[np.uint64]) -> bool:
    """Whether hashes of these rows, which should all be different, are not."""
    hashes = np.sort(_hashes(words))
    return bool((hashes[1:] == hashes[:-1]).any())
