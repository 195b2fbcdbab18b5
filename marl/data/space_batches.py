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
    if isinstance(space, spaces.Tuple | spaces.Dict):
        pieces = [_flat(part, value, f"{name}[{key!r}]") for key, part, value in _parts(space, batch, name)]
        _check_equally_many(pieces, name)
        return np.concatenate(pieces, axis=1)
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        chosen = _choices(space, batch, name)
        return np.concatenate(
            [np.eye(size, dtype=np.float32)[chosen[:, c]] for c, size in enumerate(columns_of(space).sizes)], axis=1
        )
    numbers = rows_of(space, batch, name)
    return numbers.astype(np.float32)


def _parts(space: AnySpace, batch: Any, name: str) -> list[tuple[str | int, AnySpace, Any]]:
    """Name, space and values of each part of a Tuple or Dict."""
    if isinstance(space, spaces.Dict):
        if not isinstance(batch, Mapping) or not batch.keys() >= space.spaces.keys():
            got = f"the parts {', '.join(map(repr, batch))}" if isinstance(batch, Mapping) else _outline(batch)
            raise SpaceMismatchError(
                f"{name} has {got}; expected a dict of arrays with {', '.join(map(repr, space.spaces))}, of {space}."
            )
        return [(key, part, batch[key]) for key, part in space.spaces.items()]
    assert isinstance(space, spaces.Tuple)
    if not isinstance(batch, tuple) or len(batch) != len(space.spaces):
        raise SpaceMismatchError(
            f"{name} has {_outline(batch)}; expected a tuple of {len(space.spaces)} arrays, of {space}."
        )
    return [(i, part, value) for i, (part, value) in enumerate(zip(space.spaces, batch, strict=True))]


def _check_equally_many(pieces: list[Array], name: str) -> None:
    lengths = [len(piece) for piece in pieces]
    if len(set(lengths)) > 1:
        raise SpaceMismatchError(f"the parts of {name} have {lengths} rows. Give equally many of each.")


def _numbers(space: AnySpace, batch: Any, name: str) -> Array:
    found = _shaped(space, batch, name)
    stored = np.dtype(obs_storage(space)[1])
    # A fraction would be cut off where whole numbers are stored, and a large number would wrap around.
    whole = found.dtype.kind in "biu"
    if stored.kind != "f" and not (whole and (found.astype(stored) == found).all()):
        raise SpaceMismatchError(f"{name} has numbers that do not fit {stored} of {space}. Keep to the space.")
    if not whole and found.dtype.kind != "f":
        raise SpaceMismatchError(f"{name} has the type {found.dtype}; expected numbers of {space}.")
    return found


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
    expected = space.shape or ()
    if found.ndim == 0 or found.shape[1:] != expected or found.dtype.kind not in "biuf":
        shape = ", ".join(map(str, ("N", *expected)))
        raise SpaceMismatchError(
            f"{name} has {_outline(batch)}; expected numbers of shape ({shape}): N observations of {space}."
        )
    return found


def _outline(value: Any) -> str:
    if isinstance(value, tuple | list | Mapping):
        return f"a {type(value).__name__} of {len(value)}"
    return f"shape {np.shape(value)}" if isinstance(value, np.ndarray) else f"the type {type(value).__name__}"


# -- actions -----------------------------------------------------------------------------------------------------------


def actions_of(space: AnySpace, rows: Array) -> Any:
    """Stored actions ``[N, ...]``, in the env's units, as arrays of the space: a tuple or dict of them where it is one."""
    if isinstance(space, spaces.Discrete):
        return rows.reshape(len(rows)).astype(np.int64) + int(space.start)
    if isinstance(space, spaces.Tuple):
        return tuple(_pieces(list(space.spaces), rows))
    if isinstance(space, spaces.Dict):
        return dict(zip(space.spaces, _pieces(list(space.spaces.values()), rows), strict=True))
    shape = (len(rows), *(space.shape or ()))
    if isinstance(space, spaces.Box):
        return _boxed(space, rows.reshape(shape))
    starts = np.array(columns_of(space).starts, np.int64)
    return (rows.reshape(len(rows), len(starts)).astype(np.int64) + starts).astype(space.dtype).reshape(shape)


def _pieces(parts: list[AnySpace], rows: Array) -> list[Any]:
    found, first = [], 0
    for part in parts:
        last = first + len(columns_of(part))
        found.append(actions_of(part, rows[:, first:last]))
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
