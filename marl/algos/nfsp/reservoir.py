"""An even sample of everything that was ever seen (Vitter, 1985, algorithm R).

Row number ``n`` (from 0) is kept if there is room; else it draws one of ``n + 1`` places and replaces what lies there, or
is dropped where that place does not exist. So after ``n`` rows each of them is kept with the chance ``capacity / n``,
however long ago it was seen: imitating the sample is imitating the average over all of the past.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from marl.data.batch import SampleBatch
from marl.data.task import Array, Ints

FIRST_ROOM = 1_024  # rows; doubled whenever it does not suffice


class Reservoir:
    """At most ``capacity`` of the rows that were added; memory grows with them."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.seen = 0  # rows ever added
        self.columns: dict[str, Array] = {}

    def __len__(self) -> int:
        return min(self.seen, self.capacity)

    def add(self, rows: SampleBatch, rng: np.random.Generator) -> None:
        """Show it rows, in the order of time."""
        if not len(rows):
            return
        numbers = self.seen + np.arange(len(rows))
        # One draw per row that comes too late, none before: a filling reservoir leaves the generator alone.
        places: Ints = np.where(numbers < self.capacity, numbers, 0)
        late = numbers >= self.capacity
        if late.any():
            places[late] = (rng.random(int(late.sum())) * (numbers[late] + 1)).astype(np.int64)
        self.seen += len(rows)
        self._make_room(rows)
        kept = places < self.capacity
        for name, column in rows.items():
            self.columns[name][places[kept]] = column[kept]  # of two rows in one place the later one stays

    def sample(self, count: int, rng: np.random.Generator) -> SampleBatch:
        """Random rows; all of them, once each, where there are no more than ``count``."""
        places = np.arange(len(self)) if len(self) <= count else rng.integers(0, len(self), count)
        return SampleBatch({name: column[places] for name, column in self.columns.items()})

    def _make_room(self, like: Mapping[str, Array]) -> None:
        room = len(next(iter(self.columns.values()))) if self.columns else 0
        if room >= len(self):
            return
        size = max(FIRST_ROOM, room)
        while size < len(self):
            size *= 2
        for name, column in like.items():
            grown = np.zeros((min(size, self.capacity), *column.shape[1:]), column.dtype)
            grown[:room] = self.columns.get(name, grown)[:room]
            self.columns[name] = grown

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen, "columns": {name: column[: len(self)] for name, column in self.columns.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.seen, self.columns = int(state["seen"]), {}
        kept = {name: np.asarray(column) for name, column in state["columns"].items()}
        if kept:
            self._make_room(kept)
        for name, column in kept.items():
            self.columns[name][: len(self)] = column
