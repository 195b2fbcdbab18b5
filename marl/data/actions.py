"""How actions are stored: a number, or a row of numbers with one column per choice or coordinate.

Tuple, Dict, MultiDiscrete, MultiBinary and Box actions all become such rows, so nobody else has to know the shapes of
action spaces. A *choice* column holds ``0 .. size - 1``, a *number* column a coordinate of a Box.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from gymnasium import Space, spaces
from numpy.typing import DTypeLike, NDArray

from marl.errors import SpaceMismatchError

Array: TypeAlias = NDArray[Any]
AnySpace: TypeAlias = "Space[object]"


@dataclass(frozen=True)
class Columns:
    """The columns of one stored action, in the order of the leaves of its space."""

    sizes: tuple[int, ...]  # number of options of a choice; 0: a coordinate
    starts: tuple[int, ...]  # the env's name of option 0
    low: tuple[float, ...]  # bounds of a coordinate
    high: tuple[float, ...]
    whole: tuple[bool, ...]  # columns of whole numbers

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def choices(self) -> tuple[int, ...]:
        """Columns that hold choices."""
        return tuple(np.flatnonzero(self.sizes).tolist())

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """Columns that hold coordinates."""
        return tuple(np.flatnonzero(np.equal(self.sizes, 0)).tolist())

    @property
    def dtype(self) -> DTypeLike:
        return np.float32 if self.numbers else np.int64

    @property
    def options(self) -> int:
        """All options of all choices: the width of a legal-action mask."""
        return sum(self.sizes)

    @cached_property
    def bounds(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Lowest and highest value per column; no bounds for choices."""
        low, high = np.array(self.low, np.float32), np.array(self.high, np.float32)
        low[list(self.choices)], high[list(self.choices)] = -np.inf, np.inf
        return low, high

    @cached_property
    def bounded(self) -> NDArray[np.bool_]:
        """Coordinates with two finite bounds."""
        low, high = self.bounds
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(np.isfinite(low) & np.isfinite(high) & np.isfinite(high - low))

    def stretched(self, actions: Array) -> Array:
        """Bounded coordinates from -1..1 to their bounds; others are cut where they have one bound."""
        low, high = self.bounds
        with np.errstate(invalid="ignore", over="ignore"):
            stretched = low + (np.clip(actions, -1, 1) + 1) * 0.5 * (high - low)
            return np.clip(np.where(self.bounded, stretched, actions), low, high).astype(np.float32)

    def squeezed(self, actions: Array) -> Array:
        """The inverse of ``stretched``."""
        low, high = self.bounds
        with np.errstate(invalid="ignore", over="ignore"):
            moves = self.bounded & (high > low)
            squeezed = 2 * (actions - low) / np.where(moves, high - low, 1.0) - 1
        return np.where(moves, squeezed, actions).astype(np.float32)

    def cut(self, actions: Array) -> Array:
        """Coordinates cut to their bounds."""
        return np.clip(actions, *self.bounds)

    def contains(self, rows: Array) -> bool:
        """Whether a stored row (without starts), or all of several, are actions."""
        rows = rows.reshape(-1, max(1, len(self)))
        sizes, low, high = np.array(self.sizes), np.array(self.low, np.float32), np.array(self.high, np.float32)
        whole = (rows >= 0) & (rows < sizes) & (rows == np.floor(rows))
        inside = (rows >= low) & (rows <= high) & np.isfinite(rows)
        return bool(np.where(sizes > 0, whole, inside).all())

    def options_of(self, flat: Array) -> Iterator[tuple[int, Array]]:
        """Column and its part ``[N, size]`` of something with one entry per option ``[N, options]``."""
        at = 0
        for column in self.choices:
            yield column, flat[:, at : at + self.sizes[column]]
            at += self.sizes[column]


Column: TypeAlias = tuple[int, int, float, float, bool]
"""Size, start, lowest, highest and whether it holds whole numbers: one column of ``Columns``."""


def columns_of(space: AnySpace) -> Columns:
    """The columns of a space's actions."""
    found: list[Column] = []
    for leaf in _leaves(space):
        found += _columns_of_leaf(leaf)
    if not found:
        return Columns((), (), (), (), ())
    return Columns(*zip(*found, strict=True))


def _columns_of_leaf(leaf: AnySpace) -> list[Column]:
    if isinstance(leaf, spaces.Discrete):
        return [(int(leaf.n), int(leaf.start), 0.0, 0.0, True)]
    if isinstance(leaf, spaces.MultiDiscrete):
        options = zip(leaf.nvec.reshape(-1).tolist(), leaf.start.reshape(-1).tolist(), strict=True)
        return [(int(size), int(start), 0.0, 0.0, True) for size, start in options]
    if isinstance(leaf, spaces.MultiBinary):
        return [(2, 0, 0.0, 0.0, True)] * int(np.prod(leaf.shape))
    assert isinstance(leaf, spaces.Box)
    bounds = zip(leaf.low.reshape(-1).tolist(), leaf.high.reshape(-1).tolist(), strict=True)
    whole = bool(np.issubdtype(leaf.dtype, np.integer))
    return [(0, 0, low, high, whole) for low, high in bounds]


def _leaves(space: AnySpace) -> Iterator[AnySpace]:
    if isinstance(space, spaces.Tuple):
        for part in space.spaces:
            yield from _leaves(part)
    elif isinstance(space, spaces.Dict):
        for part in space.spaces.values():
            yield from _leaves(part)
    elif isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary | spaces.Box):
        yield space
    else:
        raise SpaceMismatchError(
            f"action space {space} is not supported. Expected Discrete, MultiDiscrete, MultiBinary, Box, or a Tuple or Dict "
            "of these: wrap the env so that it takes one of them."
        )


def action_storage(space: AnySpace) -> tuple[tuple[int, ...], DTypeLike]:
    """Shape and type of one action as stored."""
    if isinstance(space, spaces.Discrete):
        return (), np.int64
    columns = columns_of(space)
    return (len(columns),), columns.dtype


def decoder(space: AnySpace) -> Callable[[Any], Any]:
    """From a stored action (an int, or a list of numbers) to what the env's action space contains."""
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        return (lambda a: a + start) if start else (lambda a: a)
    if isinstance(space, spaces.Tuple | spaces.Dict):
        return _nested_decoder(space)
    if isinstance(space, spaces.Box):
        return _box_decoder(space)
    shape, dtype = space.shape or (), space.dtype
    offset: Array | int = 0
    if isinstance(space, spaces.MultiDiscrete):
        offset = space.start.reshape(-1)
    return lambda a: (np.asarray(a, dtype) + offset).astype(dtype, copy=False).reshape(shape)


def _box_decoder(space: spaces.Box) -> Callable[[Any], Any]:
    """Whole numbers are rounded; a double keeps to bounds that float32 rounding would just miss."""
    shape, dtype = space.shape, space.dtype
    if dtype == np.float32:
        return lambda a: np.asarray(a, dtype).reshape(shape)
    low, high = space.low, space.high
    if np.issubdtype(dtype, np.integer):
        return lambda a: np.clip(np.rint(np.asarray(a)).reshape(shape), low, high).astype(dtype)

    def decode(a: Any) -> Array:
        action = np.asarray(a, dtype).reshape(shape)
        cut = np.clip(action, low, high)
        return np.asarray(np.where(np.abs(action - cut) <= 1e-6 * np.maximum(np.abs(cut), 1), cut, action), dtype)

    return decode


def _nested_decoder(space: AnySpace) -> Callable[[Any], Any]:
    assert isinstance(space, spaces.Tuple | spaces.Dict)
    parts: Iterable[AnySpace] = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
    pieces, first = [], 0
    for part in parts:
        last = first + len(columns_of(part))
        pieces.append((_row_decoder(part), first, last))
        first = last

    def decode(row: Sequence[float]) -> tuple[Any, ...]:
        return tuple(read(row[first:last]) for read, first, last in pieces)

    if isinstance(space, spaces.Tuple):
        return decode
    names = list(space.spaces)
    return lambda row: dict(zip(names, decode(row), strict=True))


def _row_decoder(space: AnySpace) -> Callable[[Any], Any]:
    """Like ``decoder``, but a Discrete comes as a row of one number."""
    read = decoder(space)
    if isinstance(space, spaces.Discrete):
        return lambda row: read(int(row[0]))
    return read


def action_encoder(space: AnySpace) -> Callable[[Any], Array]:
    """From an action as the env takes it to its stored form: the inverse of ``decoder``."""
    shape, dtype = action_storage(space)
    starts = np.array(columns_of(space).starts).reshape(shape)

    def encode(action: Any) -> Array:
        flat = action
        if isinstance(space, spaces.Tuple | spaces.Dict):
            flat = np.concatenate([np.asarray(value, np.float64).reshape(-1) for value in _values(space, action)])
        return np.asarray((np.asarray(flat).reshape(shape) - starts).astype(dtype))

    return encode


def _values(space: AnySpace, action: Any) -> Iterator[Any]:
    if isinstance(space, spaces.Tuple):
        for part, value in zip(space.spaces, action, strict=True):
            yield from _values(part, value)
    elif isinstance(space, spaces.Dict):
        for name, part in space.spaces.items():
            yield from _values(part, action[name])
    else:
        yield action
