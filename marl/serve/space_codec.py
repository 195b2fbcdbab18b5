"""Values of spaces as JSON or msgpack, and back: one reader and one writer per space, made once.

A reader takes only what is in its space: the shape, whole numbers where the space has them, no NaN, no infinities, nothing
beyond the bounds. What it refuses it names by the key within the value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces

from marl.data.task import AnySpace, Array
from marl.errors import DataError
from marl.serve.refused import shortly

Read: TypeAlias = Callable[[Any], Any]
Write: TypeAlias = Callable[[Any], Any]

PACKED = "__nd__"  # msgpack: an array as its bytes
PACKED_KEYS = frozenset((PACKED, "dtype", "shape", "data"))
WIRE_TYPES = frozenset(
    ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
)
WHOLE, NUMBER, BIT = frozenset((int,)), frozenset((int, float)), frozenset((int, bool))


class Unfit(Exception):
    """A value that is not in its space: where in it, what was got, what was expected."""

    def __init__(self, got: str, expected: str, key: str = "") -> None:
        super().__init__(got, expected, key)
        self.got, self.expected, self.key = got, expected, key

    def below(self, key: str) -> Unfit:
        """The same, seen from the part of the value that holds this one under ``key``."""
        return Unfit(self.got, self.expected, key + self.key)


def reader(space: AnySpace) -> Read:
    """From what a client sent to a value of the space; raises ``Unfit``."""
    if isinstance(space, spaces.Discrete):
        first = int(space.start)
        return partial(_read_choice, first, first + int(space.n) - 1)
    if isinstance(space, spaces.Tuple):
        return partial(_read_tuple, [reader(part) for part in space.spaces])
    if isinstance(space, spaces.Dict):
        return partial(_read_dict, {str(key): reader(part) for key, part in space.spaces.items()})
    return NumbersReader(space).read


def writer(space: AnySpace) -> Write:
    """From a value of the space to JSON."""
    if isinstance(space, spaces.Discrete):
        return int
    if isinstance(space, spaces.Tuple):
        return partial(_write_tuple, [writer(part) for part in space.spaces])
    if isinstance(space, spaces.Dict):
        return partial(_write_dict, {str(key): writer(part) for key, part in space.spaces.items()})
    return partial(_write_numbers, np.dtype(space.dtype))


def _read_choice(first: int, last: int, value: Any) -> int:
    if type(value) is not int or not first <= value <= last:  # True is an int to Python, and no choice
        raise Unfit(shortly(value), f"a whole number from {first} to {last}")
    return value


def _read_tuple(parts: list[Read], value: Any) -> tuple[Any, ...]:
    if type(value) is not list or len(value) != len(parts):
        raise Unfit(shortly(value), f"a list of {len(parts)}")
    return tuple(_read_part(read, item, f"[{i}]") for i, (read, item) in enumerate(zip(parts, value, strict=True)))


def _read_dict(parts: Mapping[str, Read], value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or value.keys() != parts.keys():
        got = shortly(value)
        if isinstance(value, dict):
            got = f"the keys {', '.join(shortly(key) for key in list(value)[:8]) or 'none'}"
        raise Unfit(got, f"an object with the keys {', '.join(map(repr, parts))}")
    return {key: _read_part(read, value[key], f".{key}") for key, read in parts.items()}


def _read_part(read: Read, value: Any, key: str) -> Any:
    try:
        return read(value)
    except Unfit as unfit:
        raise unfit.below(key) from None


def _write_tuple(parts: list[Write], value: Any) -> list[Any]:
    return [write(item) for write, item in zip(parts, value, strict=True)]


def _write_dict(parts: Mapping[str, Write], value: Any) -> dict[str, Any]:
    return {key: write(value[key]) for key, write in parts.items()}


def _write_numbers(dtype: np.dtype[Any], value: Any) -> Any:
    # In the type of the space: a float32 is then the same number again when it is read back.
    return np.asarray(value, dtype).tolist()


class NumbersReader:
    """Values of a Box, a MultiDiscrete or a MultiBinary."""

    def __init__(self, space: AnySpace) -> None:
        low, high = _bounds(space)
        self.shape, self.dtype = low.shape, np.dtype(space.dtype)
        self.size = math.prod(self.shape)
        self.whole = self.dtype.kind != "f"
        self.types = NUMBER
        self.between = self.dtype  # in which values are held against the bounds
        if self.whole:
            self.types = WHOLE
            # Wider than the space's own type, so that 300 is seen as 300 and not as the byte 44.
            self.between = np.dtype(np.uint64 if self.dtype == np.uint64 else np.int64)
        if isinstance(space, spaces.MultiBinary) or self.dtype.kind == "b":
            self.types = BIT
        self.low, self.high = _finite(low, self.between), _finite(high, self.between)

    def read(self, value: Any) -> Array:
        if isinstance(value, dict):
            found = self._unpacked(value)
        else:
            self._check_lists(value, 0)
            try:
                with np.errstate(over="ignore"):
                    found = np.array(value, self.between)
            except (OverflowError, ValueError):
                raise Unfit("a number that is too large", self.words()) from None
        fits = (found >= self.low) & (found <= self.high)  # NaN and infinities do not fit either
        if not fits.all():
            raise self._beyond(found, fits)
        if found.dtype is self.dtype:
            return found
        return found.astype(self.dtype)

    def words(self) -> str:
        numbers = "whole numbers" if self.whole else "finite numbers"
        if not self.size:
            return f"an empty list of the shape {list(self.shape)}"
        lowest, highest = self.low.min().item(), self.high.max().item()
        bounds = f"from {lowest:g} to {highest:g}"
        if not self.shape:
            return f"one of the {numbers} {bounds}"
        return f"{numbers} {bounds} in lists of the shape {list(self.shape)}"

    def _check_lists(self, value: Any, axis: int) -> None:
        """Lists of the right lengths down to numbers of the right type; numpy alone would take texts and ragged lists."""
        if axis == len(self.shape):
            if type(value) not in self.types:
                raise Unfit(shortly(value), self.words())
            return
        if type(value) is not list or len(value) != self.shape[axis]:
            raise Unfit(shortly(value), self.words())
        if axis == len(self.shape) - 1:
            if not self.types.issuperset(map(type, value)):
                wrong = next(i for i, item in enumerate(value) if type(item) not in self.types)
                raise Unfit(shortly(value[wrong]), self.words(), f"[{wrong}]")
            return
        for i, item in enumerate(value):
            try:
                self._check_lists(item, axis + 1)
            except Unfit as unfit:
                raise unfit.below(f"[{i}]") from None

    def _unpacked(self, packed: Mapping[str, Any]) -> Array:
        """An array that came as its bytes, lowest byte first."""
        name, data = packed.get("dtype"), packed.get("data")
        told = packed.keys() == PACKED_KEYS and packed[PACKED] is True and isinstance(name, str) and name in WIRE_TYPES
        if not told or not isinstance(data, bytes) or packed["shape"] != list(self.shape):
            raise Unfit(
                f"an object with the shape {shortly(packed.get('shape'))} and the dtype {shortly(name)}",
                f"{self.words()}, or {{__nd__: true, dtype, shape: {list(self.shape)}, data: bytes}}",
            )
        given = np.dtype(str(name))
        fraction_for_whole = self.whole and given.kind == "f"
        if fraction_for_whole or len(data) != self.size * given.itemsize:
            raise Unfit(f"{len(data)} bytes of {name}", self.words())
        found = np.frombuffer(data, given.newbyteorder("<")).reshape(self.shape)
        if given == np.uint64 and self.between == np.int64 and (found > np.uint64(2**63 - 1)).any():
            raise Unfit("a number that is too large", self.words())
        if self.between == np.uint64 and given.kind == "i" and (found < 0).any():
            raise Unfit("a number below 0", self.words())
        with np.errstate(over="ignore"):
            return found.astype(self.between)

    def _beyond(self, found: Array, fits: Array) -> Unfit:
        at = tuple(int(i) for i in np.argwhere(~fits)[0])
        low, high = self.low[at].item(), self.high[at].item()
        key = "".join(f"[{i}]" for i in at)
        numbers = "a whole number" if self.whole else "a finite number"
        return Unfit(shortly(found[at].item()), f"{numbers} from {low:g} to {high:g}", key)


def _bounds(space: AnySpace) -> tuple[Array, Array]:
    if isinstance(space, spaces.Box):
        return space.low, space.high
    if isinstance(space, spaces.MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    if isinstance(space, spaces.MultiBinary):
        return np.zeros(space.shape, np.int8), np.ones(space.shape, np.int8)
    raise DataError(f"values of a space of type {type(space).__name__} cannot be sent.")


def _finite(bound: Array, dtype: np.dtype[Any]) -> Array:
    """Bounds in which infinities became the largest numbers, so that one comparison refuses infinities as well."""
    if dtype.kind != "f":
        return bound.astype(dtype)
    largest = np.finfo(dtype).max
    return np.clip(bound, -largest, largest).astype(dtype)
