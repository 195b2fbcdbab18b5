"""Many observations or actions of a space at once: arrays with a first axis ``N``, in tuples and dicts where the space is one.

``rows_of`` makes stored rows of observations, ``actions_of`` makes actions of stored rows; each gives for ``N`` what the
env side gives for one (``envs/vector/layout.py``, ``data/actions.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.data.actions import columns_of
from marl.data.task import AnySpace, Array, obs_storage
from marl.errors import SpaceMismatchError


def rows_of(space: AnySpace, batch: Any, name: str = "obs") -> Array:
    """Observations as rows ``[N, obs_width]`` of the type in which they are stored."""
    width, dtype = obs_storage(space)
    if isinstance(space, spaces.Tuple | spaces.Dict):
        rows = _flat(space, batch, name)
    elif isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        rows = _choices(space, batch, name)
    elif isinstance(space, spaces.Box | spaces.MultiBinary):
        rows = _numbers(space, batch, name)
    else:
        raise SpaceMismatchError(f"{name}: batches of {space} are not read. Give a list of single observations.")
    return np.ascontiguousarray(rows.reshape(len(rows), width), dtype)


def _flat(space: AnySpace, batch: Any, name: str) -> Array:
    """What a Tuple or Dict stores: floats, choices one-hot, one part after the other."""
    pieces: list[Array] = []
    if isinstance(space, spaces.Tuple | spaces.Dict):
        _check_parts(space, batch, name)
        for key, part in named_parts(space):
            pieces.append(_flat(part, batch[key], f"{name}[{key!r}]"))
        _check_equally_many(pieces, name)
    elif isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        chosen = _choices(space, batch, name)
        for column, size in enumerate(columns_of(space).sizes):
            one_hot = np.eye(size, dtype=np.float32)
            pieces.append(one_hot[chosen[:, column]])
    else:
        pieces.append(rows_of(space, batch, name).astype(np.float32))
    return np.concatenate(pieces, axis=1)


def named_parts(space: spaces.Dict | spaces.Tuple[Any]) -> list[tuple[Any, AnySpace]]:
    """Key and space of each part, in the order in which they are stored."""
    if isinstance(space, spaces.Dict):
        return list(space.spaces.items())
    return list(enumerate(space.spaces))


def shape_of(space: AnySpace) -> tuple[int, ...]:
    """The shape of one value; a Discrete is a single number."""
    return tuple(space.shape or ())


def dtype_of(space: AnySpace) -> np.dtype[Any]:
    """The type of its numbers; only Tuples and Dicts have none."""
    return np.dtype(space.dtype)


def _check_parts(space: spaces.Dict | spaces.Tuple[Any], batch: Any, name: str) -> None:
    """Refuse anything but a dict of arrays for a Dict, and a tuple of arrays for a Tuple."""
    if isinstance(space, spaces.Dict):
        keys = ", ".join(map(repr, space.spaces))
        expected = f"a dict of arrays with {keys}"
        fits = isinstance(batch, Mapping) and batch.keys() >= space.spaces.keys()
    else:
        expected = f"a tuple of {len(space.spaces)} arrays"
        fits = isinstance(batch, tuple) and len(batch) == len(space.spaces)
    if not fits:
        raise SpaceMismatchError(f"{name} has {_outline(batch)}; expected {expected}, of {space}.")


def _check_equally_many(pieces: list[Array], name: str) -> None:
    lengths = list(map(len, pieces))
    # Parts of one observation lie in the same row of each array.
    if len(set(lengths)) > 1:
        raise SpaceMismatchError(f"the parts of {name} have {lengths} rows. Give equally many of each.")


def _numbers(space: AnySpace, batch: Any, name: str) -> Array:
    found = _shaped(space, batch, name)
    stored = np.dtype(obs_storage(space)[1])
    # A fraction would be cut off where whole numbers are stored, and a large number would wrap around.
    if stored.kind == "f":
        return found
    kept = found.astype(stored)
    if not np.array_equal(kept, found):
        raise SpaceMismatchError(f"{name} has numbers that do not fit {stored} of {space}. Keep to the space.")
    return kept


def _choices(space: AnySpace, batch: Any, name: str) -> Array:
    """Choices ``[N, choices]`` that count from 0."""
    columns = columns_of(space)
    given = _shaped(space, batch, name).reshape(-1, len(columns))
    counted = given - np.array(columns.starts)
    inside = (counted >= 0) & (counted < np.array(columns.sizes)) & (counted == np.floor(counted))
    if not inside.all():
        wrong = int(np.flatnonzero(~inside.all(axis=1))[0])
        raise SpaceMismatchError(f"row {wrong} of {name} is {given[wrong].tolist()}, which is not in {space}.")
    return np.asarray(counted, np.int64)


def _shaped(space: AnySpace, batch: Any, name: str) -> Array:
    """The values as an array ``[N, *shape]``."""
    try:
        found = np.asarray(batch)
    except ValueError:  # lists of different lengths
        found = np.zeros(())
    expected = shape_of(space)
    is_numbers = found.dtype.kind in "biuf"  # numpy's letters of their types
    has_shape = found.ndim > 0 and found.shape[1:] == expected
    if not (is_numbers and has_shape):
        shape = ", ".join(map(str, ("N", *expected)))
        raise SpaceMismatchError(
            f"{name} has {_outline(batch)}; expected numbers of shape ({shape}): N observations of {space}."
        )
    return found


def _outline(value: Any) -> str:
    """What somebody gave, in a few words."""
    if isinstance(value, Mapping):
        keys = ", ".join(map(repr, value))
        return f"the parts {keys}"
    if isinstance(value, np.ndarray):
        return f"shape {value.shape}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return f"the type {type(value).__name__}"


# -- actions -----------------------------------------------------------------------------------------------------------


def actions_of(space: AnySpace, rows: Array) -> Any:
    """Stored actions ``[N, ...]``, in the env's units, as arrays of the space: a tuple or dict of them where it is one."""
    if isinstance(space, spaces.Discrete):
        return rows.reshape(len(rows)).astype(np.int64) + int(space.start)
    if isinstance(space, spaces.Tuple | spaces.Dict):
        found = _pieces(space, rows)
        # A Tuple's keys are its places, in their order.
        return found if isinstance(space, spaces.Dict) else tuple(found.values())
    shape = (len(rows), *shape_of(space))
    if isinstance(space, spaces.Box):
        return _boxed(space, rows.reshape(shape))
    starts = np.array(columns_of(space).starts, np.int64)
    return (rows.reshape(len(rows), len(starts)).astype(np.int64) + starts).astype(space.dtype).reshape(shape)


def _pieces(space: spaces.Dict | spaces.Tuple[Any], rows: Array) -> dict[Any, Any]:
    """The actions of each part, by its key."""
    found: dict[Any, Any] = {}
    first = 0
    for key, part in named_parts(space):
        last = first + len(columns_of(part))
        found[key] = actions_of(part, rows[:, first:last])
        first = last
    return found


def _boxed(space: spaces.Box, rows: Array) -> Array:
    """Whole numbers are rounded; a double keeps to bounds that float32 rounding would just miss."""
    if space.dtype == np.float32:
        return rows.astype(np.float32)
    low, high = space.low, space.high
    doubles = rows.astype(np.float64)
    if np.issubdtype(space.dtype, np.integer):
        return np.clip(np.rint(doubles), low, high).astype(space.dtype)
    actions = doubles.astype(space.dtype)
    cut = np.clip(actions, low, high)
    missed = np.abs(actions - cut) <= 1e-6 * np.maximum(np.abs(cut), 1)
    return np.asarray(np.where(missed, cut, actions), space.dtype)
