"""One observation against its space: which of shape, type, range and bounds is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.data.task import AnySpace, Array
from marl.envs.base import Obs
from marl.envs.check.traces import arrays_in
from marl.envs.vector.checks import ROUNDING


def mismatches(space: AnySpace, value: Obs, at: str = "") -> Iterator[tuple[str, str]]:
    """Rule and words for everything that is wrong; ``at`` is the path inside a nested observation."""
    if isinstance(space, spaces.Dict):
        yield from _in_dict(space, value, at)
    elif isinstance(space, spaces.Tuple):
        yield from _in_tuple(space, value, at)
    elif isinstance(space, spaces.Discrete):
        yield from _in_discrete(space, value, at)
    elif isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        yield from _in_array(space, value, at)
    elif not space.contains(value):
        yield "obs-shape", f"{at}it is {_short(value)}"


def _in_tuple(space: spaces.Tuple[Any], value: Obs, at: str) -> Iterator[tuple[str, str]]:
    expected = len(space.spaces)
    if not isinstance(value, tuple | list) or len(value) != expected:
        yield "obs-shape", f"{at}it is {_short(value)}, expected {expected} parts"
        return
    for i, part in enumerate(space.spaces):
        yield from mismatches(part, value[i], f"{at}[{i}] ")


def _in_dict(space: spaces.Dict, value: Obs, at: str) -> Iterator[tuple[str, str]]:
    if not isinstance(value, Mapping):
        yield "obs-shape", f"{at}it is a {type(value).__name__}, expected a dict"
        return
    wrong_key = _wrong_key(space, value)
    if wrong_key:
        yield "obs-shape", f"{at}it comes {wrong_key}"
    for key, part in space.spaces.items():
        if key in value:
            yield from mismatches(part, value[key], f"{at}[{key!r}] ")


def _wrong_key(space: spaces.Dict, value: Mapping[str, Obs]) -> str:
    """The first key that is missing or else the first that is too many; empty: there is none."""
    for key in space.spaces:
        if key not in value:
            return f"without the key {key!r}"
    for key in value:
        if key not in space.spaces:
            return f"with the key {key!r}, which it does not have"
    return ""


def _in_discrete(space: spaces.Discrete, value: Obs, at: str) -> Iterator[tuple[str, str]]:
    if np.size(value) != 1:
        yield "obs-shape", f"{at}it has shape {np.shape(value)}, expected one number"
        return
    array = np.asarray(value)
    number = array.reshape(-1)[0]
    largest = space.start + space.n - 1
    if array.dtype.kind not in "biu":
        yield "obs-type", f"{at}it is {_short(value)}, expected a whole number"
    elif not space.start <= number <= largest:
        yield "obs-range", f"{at}it is {number}, expected {space.start} to {largest}"
    elif np.ndim(value):
        yield "obs-precision", f"{at}it is an array of shape {np.shape(value)}, expected a number"


def _in_array(space: AnySpace, value: Obs, at: str) -> Iterator[tuple[str, str]]:
    is_array = isinstance(value, np.ndarray)
    if is_array and space.contains(value):
        return  # large pictures go by fast
    try:
        array = np.asarray(value)
        shape = array.shape
    except ValueError:  # lists of different lengths
        yield "obs-shape", f"{at}it is {_short(value)}, expected shape {space.shape}"
        return
    if shape != space.shape:
        yield "obs-shape", f"{at}it has shape {shape}, expected {space.shape}"
        return
    wanted = np.dtype(space.dtype)
    fitting_kinds = "biu"
    if wanted.kind == "f":
        fitting_kinds = "biuf"
    if array.dtype.kind not in fitting_kinds:
        yield "obs-type", f"{at}it has the type {array.dtype}, expected {wanted}"
        return
    if not is_array:
        yield "obs-precision", f"{at}it is a {type(value).__name__}, expected an array of {wanted}"
    elif not np.can_cast(array.dtype, wanted):
        yield "obs-precision", f"{at}it has the type {array.dtype}, expected {wanted}"
    yield from _out_of_bounds(space, array, at)


def _out_of_bounds(space: AnySpace, array: Array, at: str) -> Iterator[tuple[str, str]]:
    """The first number that is too small or too large by more than rounding."""
    low, high = bounds_of(space)
    # Rounding: float32 arithmetic at a bound ends a hair beyond it, and that breaks nothing.
    too_small = array < low - ROUNDING * np.abs(low)
    too_large = array > high + ROUNDING * np.abs(high)
    outside = np.argwhere(too_small | too_large)
    if not len(outside):
        return
    place = tuple(outside[0].tolist())
    where = ", ".join(map(str, place))
    code = "obs-bounds"
    if isinstance(space, spaces.MultiDiscrete):
        code = "obs-range"
    yield code, f"{at}it holds {array[place]} at place {where}, expected {low[place]} to {high[place]}"


def bounds_of(space: AnySpace) -> tuple[Array, Array]:
    """Lowest and highest value of each number of a Box, MultiDiscrete or MultiBinary."""
    if isinstance(space, spaces.Box):
        return space.low.astype(np.float64), space.high.astype(np.float64)
    if isinstance(space, spaces.MultiDiscrete):
        largest = space.start + space.nvec - 1
        return np.asarray(space.start, np.float64), np.asarray(largest, np.float64)
    shape = space.shape or ()
    return np.zeros(shape), np.ones(shape)


def not_finite(value: Any) -> bool:
    """Whether any number in an observation is NaN or infinite."""
    if isinstance(value, float):
        return not np.isfinite(value)
    floats = [array for array in arrays_in(value) if array.dtype.kind == "f"]
    return not all(np.isfinite(array).all() for array in floats)


def _short(value: object) -> str:
    text = " ".join(repr(value).split())  # arrays print over several lines
    if len(text) < 80:
        return text
    return text[:77] + "..."
