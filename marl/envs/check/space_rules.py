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
    number = np.asarray(value).reshape(-1)[0]
    if np.asarray(value).dtype.kind not in "biu":
        yield "obs-type", f"{at}it is {_short(value)}, expected a whole number"
    elif not space.start <= number < space.start + space.n:
        yield "obs-range", f"{at}it is {number}, expected {space.start} to {space.start + space.n - 1}"
    elif np.ndim(value):
        yield "obs-precision", f"{at}it is an array of shape {np.shape(value)}, expected a number"


def _in_array(space: AnySpace, value: Obs, at: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, np.ndarray) and space.contains(value):
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
    if array.dtype.kind not in ("biuf" if wanted.kind == "f" else "biu"):
        yield "obs-type", f"{at}it has the type {array.dtype}, expected {wanted}"
        return
    if not isinstance(value, np.ndarray):
        yield "obs-precision", f"{at}it is a {type(value).__name__}, expected an array of {wanted}"
    elif not np.can_cast(array.dtype, wanted):
        yield "obs-precision", f"{at}it has the type {array.dtype}, expected {wanted}"
    yield from _out_of_bounds(space, array, at)


def _out_of_bounds(space: AnySpace, array: Array, at: str) -> Iterator[tuple[str, str]]:
    """The first number that is too small or too large by more than rounding."""
    low, high = bounds_of(space)
    too_small = array < low - ROUNDING * np.abs(low)
    too_large = array > high + ROUNDING * np.abs(high)
    outside = too_small | too_large
    if outside.any():
        place = tuple(np.argwhere(outside)[0].tolist())
        code = "obs-range" if isinstance(space, spaces.MultiDiscrete) else "obs-bounds"
        limits = f"{low[place]} to {high[place]}"
        yield code, f"{at}it holds {array[place]} at place {', '.join(map(str, place))}, expected {limits}"


def bounds_of(space: AnySpace) -> tuple[Array, Array]:
    """Lowest and highest value of each number of a Box, MultiDiscrete or MultiBinary."""
    if isinstance(space, spaces.Box):
        return space.low.astype(np.float64), space.high.astype(np.float64)
    if isinstance(space, spaces.MultiDiscrete):
        return np.asarray(space.start, np.float64), np.asarray(space.start + space.nvec - 1, np.float64)
    return np.zeros(space.shape or ()), np.ones(space.shape or ())


def not_finite(value: Any) -> bool:
    """Whether any number in an observation is NaN or infinite."""
    if isinstance(value, float):
        return not np.isfinite(value)
    return any(array.dtype.kind == "f" and not np.isfinite(array).all() for array in arrays_in(value))


def _short(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) < 80 else text[:77] + "..."
