"""Memories of regrets and of strategies: a sample of single rows, or one row for everything that looks the same.

The losses of this family depend on rows that show the same by two numbers alone, the sum of their weights and the weighted
mean of their targets:

    sum_i w_i (R(o) - r_i)^2  =  W (R(o) - mean)^2 + constant            -sum_i w_i sigma_i log pi(o)  =  -W mean log pi(o)

So in a game with no more different views than there is memory, ``Merged`` keeps the whole past in one row per view, without
any noise of sampling: what a network is fitted to is the sum that CFR itself would keep.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from marl.algos.nfsp.reservoir import Reservoir
from marl.data.batch import SampleBatch
from marl.data.task import Array, Ints

VIEW = ("obs", "agent_index", "legal")
"""Columns that say what was shown; rows that agree in them are one."""
FIRST_ROOM = 1_024  # rows; doubled whenever it does not suffice


class Memory(Protocol):
    """What networks are fitted to."""

    def __len__(self) -> int: ...

    def add(self, rows: SampleBatch, rng: np.random.Generator) -> None: ...

    def sample(self, count: int, rng: np.random.Generator) -> SampleBatch: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


class Merged:
    """One row per view: the weighted mean of all targets, and the sum of their weights. Holds ``capacity`` views; those that
    appear later are left out."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.places: dict[bytes, int] = {}
        self.columns: dict[str, Array] = {}

    def __len__(self) -> int:
        return len(self.places)

    def add(self, rows: SampleBatch, rng: np.random.Generator) -> None:
        """Show it rows; nothing is drawn."""
        del rng
        if not len(rows):
            return
        keys = _keys(rows)
        unique, first, group = np.unique(keys, return_index=True, return_inverse=True)
        weight = np.asarray(rows["weight"], np.float64)
        weights = np.bincount(group, weight, len(unique))
        sums = np.zeros((len(unique), rows["target"].shape[1]))
        np.add.at(sums, group, weight[:, None] * rows["target"])
        places = self._places(rows, unique, first)
        known = places >= 0
        places, weights, sums = places[known], weights[known], sums[known]
        before = self.columns["weight"][places]
        after = before + weights
        means = self.columns["target"][places]
        self.columns["target"][places] = means + (sums - weights[:, None] * means) / after[:, None]
        self.columns["weight"][places] = after

    def _places(self, rows: SampleBatch, unique: NDArray[np.void], first: Ints) -> Ints:
        """Where each view is kept; -1 for new ones that there is no room for."""
        found = np.empty(len(unique), np.int64)
        new: list[int] = []
        for i, key in enumerate(unique):
            place = self.places.get(key.tobytes(), -1)
            if place < 0 and len(self.places) < self.capacity:
                place = self.places[key.tobytes()] = len(self.places)
                new.append(i)
            found[i] = place
        self._make_room(rows)
        for name in VIEW:
            self.columns[name][found[new]] = rows[name][first[new]]
        return found

    def sample(self, count: int, rng: np.random.Generator) -> SampleBatch:
        """All views where there are no more than ``count``; else so many, drawn by their weights and then of equal weight."""
        if len(self) <= count:
            return SampleBatch({name: _single(column[: len(self)]) for name, column in self.columns.items()})
        sums = np.cumsum(self.columns["weight"][: len(self)])
        places = np.searchsorted(sums, rng.random(count) * sums[-1], side="right")
        drawn = {name: _single(column[places]) for name, column in self.columns.items()}
        return SampleBatch({**drawn, "weight": np.ones(count, np.float32)})

    def _make_room(self, like: Mapping[str, Array]) -> None:
        room = len(self.columns["weight"]) if self.columns else 0
        if room >= len(self):
            return
        size = max(FIRST_ROOM, room)
        while size < len(self):
            size *= 2
        for name, column in like.items():
            kind = column.dtype if name in VIEW else np.dtype(np.float64)  # sums of a whole run
            grown = np.zeros((min(size, self.capacity), *column.shape[1:]), kind)
            grown[:room] = self.columns.get(name, grown)[:room]
            self.columns[name] = grown

    def state_dict(self) -> dict[str, Any]:
        return {"columns": {name: column[: len(self)] for name, column in self.columns.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.columns = {name: np.array(column) for name, column in state["columns"].items()}
        self.places = {}
        if self.columns:
            for place, key in enumerate(_keys(self.columns)):
                self.places[key.tobytes()] = place


def _keys(rows: Mapping[str, Array]) -> NDArray[np.void]:
    """What was shown, as one value per row that can be compared."""
    parts = []
    for name in VIEW:
        column = np.ascontiguousarray(rows[name]).reshape(len(rows["weight"]), -1)
        parts.append(column.view(np.uint8).reshape(len(column), -1))
    whole = np.ascontiguousarray(np.concatenate(parts, axis=1))
    return whole.view(np.dtype((np.void, whole.shape[1]))).ravel()


def _single(column: Array) -> Array:
    return column.astype(np.float32) if column.dtype == np.float64 else column


MEMORIES: dict[str, type[Reservoir] | type[Merged]] = {"rows": Reservoir, "views": Merged}
"""By the key ``memory_of``."""
