"""Spaces as plain JSON and back, so that a policy's file alone says what it sees and does."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.data.actions import AnySpace, Array
from marl.errors import DataError
from marl.memory import free_memory, in_words

BYTES_PER_NUMBER = 18  # lower and upper bound as doubles, and whether each is finite


def space_to_json(space: AnySpace) -> dict[str, Any]:
    """The type of the space and all that ``space_from_json`` needs to build it again."""
    if isinstance(space, spaces.Box):
        bounds = {"low": _bound(space.low), "high": _bound(space.high)}
        return {"type": "Box", **bounds, "shape": list(space.shape), "dtype": np.dtype(space.dtype).name}
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        return {"type": "MultiDiscrete", "nvec": space.nvec.tolist(), "start": space.start.tolist()}
    if isinstance(space, spaces.MultiBinary):
        if isinstance(space.n, int):
            return {"type": "MultiBinary", "n": space.n}
        return {"type": "MultiBinary", "n": list(space.shape)}
    if isinstance(space, spaces.Tuple):
        return {"type": "Tuple", "spaces": [space_to_json(part) for part in space.spaces]}
    if isinstance(space, spaces.Dict):
        return {"type": "Dict", "spaces": [[name, space_to_json(part)] for name, part in space.spaces.items()]}
    raise DataError(
        f"a space of type {type(space).__name__} cannot be written as JSON. Expected Box, Discrete, MultiDiscrete, "
        "MultiBinary, Tuple or Dict."
    )


def space_from_json(plain: Mapping[str, Any]) -> AnySpace:
    """The space that ``space_to_json`` was given."""
    kind = plain["type"]
    if kind == "Box":
        return _box(plain)
    if kind == "Discrete":
        return spaces.Discrete(plain["n"], start=plain["start"])
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(np.array(plain["nvec"]), start=np.array(plain["start"]))
    if kind == "MultiBinary":
        n = plain["n"]
        if isinstance(n, int):
            return spaces.MultiBinary(_checked([n])[0])
        return spaces.MultiBinary(_checked(n))
    if kind == "Tuple":
        return spaces.Tuple([space_from_json(part) for part in plain["spaces"]])
    if kind == "Dict":
        return spaces.Dict(OrderedDict((name, space_from_json(part)) for name, part in plain["spaces"]))
    raise DataError(f"a space of type {kind!r} is unknown; a newer marl may have written it.")


def _box(plain: Mapping[str, Any]) -> spaces.Box:
    dtype, shape = np.dtype(plain["dtype"]), _checked(plain["shape"])
    if dtype.kind not in "biuf":  # a text may be a gigabyte long, each
        raise DataError(
            f"a space has numbers of the type {plain['dtype']!s:.80}; expected one such as float32 or uint8."
        )
    low = np.broadcast_to(np.array(_read(plain["low"]), dtype), shape)
    high = np.broadcast_to(np.array(_read(plain["high"]), dtype), shape)
    return spaces.Box(low, high, shape, dtype.type)


def _checked(shape: Sequence[int]) -> tuple[int, ...]:
    """A shape whose bounds fit into memory, whatever a file says."""
    for length in shape:
        if not isinstance(length, int) or length < 0:
            raise DataError(f"a space has the shape {list(shape)}; expected whole numbers.")
    needed, free = BYTES_PER_NUMBER * math.prod(shape), free_memory()
    if needed > free:
        raise DataError(
            f"a space of the shape {list(shape)} would take {in_words(needed)} of memory, and {in_words(free)} are free."
        )
    return tuple(shape)


def _bound(bound: Array) -> Any:
    """One number where all are equal, as the bounds of images are; infinities as texts, which every JSON reader takes."""
    first = bound.reshape(-1)[:1]
    if bound.size and (bound == first).all():
        return _plain(first.tolist()[0])
    return _plain(bound.tolist())


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not np.isfinite(value):
        return str(value)
    return value


def _read(value: Any) -> Any:
    if isinstance(value, list):
        return [_read(item) for item in value]
    if isinstance(value, str):  # an infinity
        return float(value)
    return value
