"""Values of spaces as JSON or msgpack, and back: one codec per space, made once.

It takes only what is in its space: the shape, whole numbers where the space has them, no NaN, no infinities, nothing
beyond the bounds. What it refuses it names by the key within the value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np
from gymnasium import spaces

from marl.data.task import AnySpace, Array
from marl.errors import DataError
from marl.serve.refused import shortly

PACKED = "__nd__"  # msgpack: an array as its bytes
PACKED_KEYS = frozenset((PACKED, "dtype", "shape", "data"))
WIRE_NAMES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
]
WIRE_TYPES = {name: np.dtype(name).newbyteorder("<") for name in WIRE_NAMES}
WHOLE, NUMBER, BIT = frozenset((int,)), frozenset((int, float)), frozenset((int, bool))


class Unfit(Exception):
    """A value that is not in its space: where in it, what was got, what was expected."""

    def __init__(self, got: str, expected: str, key: str = "") -> None:
        super().__init__(got, expected, key)
        self.got, self.expected, self.key = got, expected, key

    def below(self, key: str) -> Unfit:
        """The same, seen from the part of the value that holds this one under ``key``."""
        return Unfit(self.got, self.expected, key + self.key)


class Codec(Protocol):
    """Reads and writes values of one space."""

    def read(self, value: Any) -> Any:
        """From what a client sent to a value of the space; raises ``Unfit``."""
        ...

    def write(self, value: Any) -> Any:
        """From a value of the space to JSON."""
        ...


def codec(space: AnySpace) -> Codec:
    """How values of this space are sent."""
    for kind, make in MAKERS.items():
        if isinstance(space, kind):
            return make(space)
    raise DataError(f"values of a space of type {type(space).__name__} cannot be sent.")


def writer(space: AnySpace) -> Callable[[Any], Any]:
    """From values of the space to JSON."""
    return codec(space).write


class ChoiceCodec:
    """A Discrete space: Python's own whole numbers."""

    def __init__(self, space: spaces.Discrete) -> None:
        self.first = int(space.start)
        self.last = self.first + int(space.n) - 1
        self.write = int

    def read(self, value: Any) -> int:
        # True is an int to Python, and no choice.
        if type(value) is int and self.first <= value <= self.last:
            return value
        raise Unfit(shortly(value), f"a whole number from {self.first} to {self.last}")


class TupleCodec:
    """A Tuple: a list with one value for each part."""

    def __init__(self, space: spaces.Tuple[Any]) -> None:
        self.parts = [codec(part) for part in space.spaces]

    def read(self, value: Any) -> tuple[Any, ...]:
        if type(value) is not list or len(value) != len(self.parts):
            raise Unfit(shortly(value), f"a list of {len(self.parts)}")
        found = []
        for i, part in enumerate(self.parts):
            found.append(_read_part(part, value[i], f"[{i}]"))
        return tuple(found)

    def write(self, value: Any) -> list[Any]:
        return [part.write(item) for part, item in zip(self.parts, value, strict=True)]


class DictCodec:
    """A Dict: an object with exactly its keys."""

    def __init__(self, space: spaces.Dict) -> None:
        self.parts: dict[str, Codec] = {}
        for key, part in space.spaces.items():
            self.parts[str(key)] = codec(part)

    def read(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Unfit(shortly(value), self.words())
        if value.keys() != self.parts.keys():
            keys = ", ".join(map(shortly, list(value)[:8]))
            raise Unfit(f"an object with the keys {keys}", self.words())
        found = {}
        for key, part in self.parts.items():
            found[key] = _read_part(part, value[key], f".{key}")
        return found

    def words(self) -> str:
        return f"an object with the keys {', '.join(self.parts)}"

    def write(self, value: Any) -> dict[str, Any]:
        return {key: part.write(value[key]) for key, part in self.parts.items()}


def _read_part(part: Codec, value: Any, key: str) -> Any:
    try:
        return part.read(value)
    except Unfit as unfit:
        raise unfit.below(key) from None


class NumbersCodec:
    """A Box, a MultiDiscrete or a MultiBinary: numbers in nested lists, or an array's bytes."""

    def __init__(self, low: Array, high: Array, dtype: np.dtype[Any], types: frozenset[type]) -> None:
        self.shape, self.dtype, self.types = low.shape, dtype, types
        self.size = math.prod(self.shape)
        self.numbers, self.between = "finite numbers", dtype
        self.casting: Literal["same_kind", "safe"] = "same_kind"
        if dtype.kind != "f":
            self.numbers, self.casting = "whole numbers", "safe"
            # Wider than the space's own type, so that 300 is seen as 300 and not as the byte 44.
            self.between = np.result_type(dtype, np.int64) if dtype != np.uint64 else dtype
        self.low, self.high = _finite(low, self.between), _finite(high, self.between)

    def write(self, value: Any) -> Any:
        # In the type of the space: a float32 is then the same number again when it is read back.
        return np.asarray(value, self.dtype).tolist()

    def read(self, value: Any) -> Array:
        if isinstance(value, dict):
            found = self._unpacked(value)
        else:
            found = self._listed(value)
        fits = (found >= self.low) & (found <= self.high)  # NaN and infinities do not fit either
        if not fits.all():
            raise self._beyond(found, fits)
        return found.astype(self.dtype, copy=False)

    def words(self) -> str:
        if not self.size:
            return f"an empty list of the shape {list(self.shape)}"
        lowest, highest = self.low.min().item(), self.high.max().item()
        return f"{self.numbers} from {lowest:g} to {highest:g} in lists of the shape {list(self.shape)}"

    def _listed(self, value: Any) -> Array:
        self._check_lists(value, self.shape)
        try:
            with np.errstate(over="ignore"):
                return np.array(value, self.between)
        except (OverflowError, ValueError):
            raise Unfit("a number that is too large", self.words()) from None

    def _check_lists(self, value: Any, lengths: Sequence[int]) -> None:
        """Lists of the right lengths down to numbers of the right type; numpy alone would take texts and ragged lists."""
        if not lengths:
            self._check_number(value)
            return
        if type(value) is not list or len(value) != lengths[0]:
            raise Unfit(shortly(value), self.words())
        if self.types.issuperset(map(type, value)) and len(lengths) == 1:
            return
        for i, item in enumerate(value):
            self._check_item(item, i, lengths[1:])

    def _check_item(self, item: Any, i: int, lengths: Sequence[int]) -> None:
        try:
            self._check_lists(item, lengths)
        except Unfit as unfit:
            raise unfit.below(f"[{i}]") from None

    def _check_number(self, value: Any) -> None:
        if type(value) not in self.types:
            raise Unfit(shortly(value), self.words())

    def _unpacked(self, packed: Mapping[str, Any]) -> Array:
        """An array that came as its bytes, lowest byte first."""
        name, data, shape = packed.get("dtype"), packed.get("data"), packed.get("shape")
        given = WIRE_TYPES.get(str(name))
        if given is None or packed.keys() != PACKED_KEYS or packed[PACKED] is not True:
            raise Unfit(
                shortly(packed),
                f"{self.words()}, or {{__nd__: true, dtype, shape, data: bytes}}",
            )
        if type(data) is not bytes or [shape, len(data)] != [list(self.shape), self.size * given.itemsize]:
            raise Unfit(
                f"{shortly(data)} of {name} with the shape {shape!s:.80}",
                f"bytes of {self.words()}",
            )
        if not np.can_cast(given, self.between, self.casting):
            raise Unfit(
                f"an array of {name}",
                f"{self.words()}, such as an array of {self.dtype}",
            )
        with np.errstate(over="ignore"):
            flat: Array = np.frombuffer(data, given)
            return flat.reshape(self.shape).astype(self.between)

    def _beyond(self, found: Array, fits: Array) -> Unfit:
        at = tuple(np.argwhere(~fits)[0].tolist())
        low, high = self.low[at].item(), self.high[at].item()
        key = "".join(f"[{i}]" for i in at)
        return Unfit(shortly(found[at].item()), f"{self.numbers} from {low:g} to {high:g}", key)


def _box(space: spaces.Box) -> Codec:
    dtype = np.dtype(space.dtype)
    types = {"f": NUMBER, "b": BIT}.get(dtype.kind, WHOLE)
    return NumbersCodec(space.low, space.high, dtype, types)


def _choices(space: spaces.MultiDiscrete) -> Codec:
    return NumbersCodec(space.start, space.start + space.nvec - 1, np.dtype(space.dtype), WHOLE)


def _bits(space: spaces.MultiBinary) -> Codec:
    zeros = np.zeros(space.shape, np.int8)
    return NumbersCodec(zeros, zeros + 1, np.dtype(np.int8), BIT)


def _finite(bound: Array, dtype: np.dtype[Any]) -> Array:
    """Bounds in which infinities became the largest numbers, so that one comparison refuses infinities as well."""
    if dtype.kind != "f":
        return bound.astype(dtype)
    largest = np.finfo(dtype).max
    return np.clip(bound, -largest, largest).astype(dtype)


MAKERS: dict[type, Callable[[Any], Codec]] = {
    spaces.Discrete: ChoiceCodec,
    spaces.Tuple: TupleCodec,
    spaces.Dict: DictCodec,
    spaces.Box: _box,
    spaces.MultiDiscrete: _choices,
    spaces.MultiBinary: _bits,
}
