"""Which cells of the grid ``[E, A_k]`` of one kind of agents a policy decides for now, and how their rows come and go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from marl.data.task import AgentType, Array, Bools, Ints


def any_of(flags: Bools) -> bool:
    """``flags.any()``; counting takes a quarter of the time, and a step asks such questions a dozen times."""
    return bool(np.count_nonzero(flags))


def all_of(flags: Bools) -> bool:
    """``flags.all()``, by counting too."""
    return bool(np.count_nonzero(flags) == flags.size)


class MarkedCells:
    """Any cells; ``mask`` ``[E, A_k]`` marks them."""

    def __init__(self, mask: Bools) -> None:
        self.mask = mask

    def rows(self, grid: Array) -> Array:
        """``[N, ...]`` out of ``[E, A_k, ...]``, copy by copy."""
        return np.asarray(grid[self.mask])

    def put(self, grid: Array, rows: Array) -> None:
        """Write ``[N, ...]`` into ``[E, A_k, ...]``."""
        grid[self.mask] = rows


class WholeColumns(MarkedCells):
    """Some seats in all copies, which is the usual case: their rows are copied in one stretch instead of being gathered."""

    def __init__(self, mask: Bools) -> None:
        super().__init__(mask)
        found = np.flatnonzero(mask[0])
        self.columns: slice | Ints = found
        if found.size == found[-1] - found[0] + 1:
            self.columns = slice(int(found[0]), int(found[-1]) + 1)
        self._shape = (len(mask), found.size)
        self.count = len(mask) * found.size  # rows

    def rows(self, grid: Array) -> Array:
        shape = (self.count, *grid.shape[2:])
        if not grid.size:  # masks where everything is legal, memories of those who have none
            return np.empty(shape, grid.dtype)
        # Always a copy, as gathering gives one: what a policy does with its inputs must not reach the env's arrays.
        return np.array(grid[:, self.columns], order="C").reshape(shape)

    def put(self, grid: Array, rows: Array) -> None:
        grid[:, self.columns] = rows.reshape(*self._shape, *grid.shape[2:])


class ColumnsOfSeveral(WholeColumns):
    """The seats of ``K`` policies, equally many each, in all copies: rows of one policy after the other."""

    def __init__(self, parts: Sequence[WholeColumns]) -> None:
        mask = np.zeros_like(parts[0].mask)
        columns: list[int] = []
        for part in parts:
            mask |= part.mask
            columns += np.flatnonzero(part.mask[0]).tolist()
        super().__init__(mask)
        copies, seats = self._shape
        self._split = (copies, len(parts), seats // len(parts))
        # Policies that play one seat each in the order of the seats are the usual case, and a slice.
        if columns != sorted(columns):
            self.columns = np.array(columns)

    def rows(self, grid: Array) -> Array:
        parts = grid[:, self.columns].reshape(*self._split, *grid.shape[2:])
        return np.array(parts.swapaxes(0, 1), order="C").reshape(self.count, *grid.shape[2:])

    def put(self, grid: Array, rows: Array) -> None:
        copies, policies, seats = self._split
        parts = rows.reshape(policies, copies, seats, *grid.shape[2:])
        grid[:, self.columns] = parts.swapaxes(0, 1).reshape(copies, policies * seats, *grid.shape[2:])


class Seating:
    """Who decides for which seats whenever everybody is asked; looked up anew only when ``policy_of`` has changed."""

    def __init__(self) -> None:
        self._known = b""
        self._columns: list[list[tuple[int, WholeColumns]]] = []

    def whole_columns(self, policy_of: Ints, kinds: Sequence[AgentType]) -> list[list[tuple[int, WholeColumns]]]:
        """Per kind the policies and their seats; empty where a seat is not played by the same policy in all copies."""
        now = policy_of.tobytes()  # comparing bytes is the fastest way to see that nothing has changed
        if now != self._known:
            self._known = now
            self._columns = [_columns_by_policy(policy_of[:, kind.seats]) for kind in kinds]
        return self._columns


def _columns_by_policy(policy_of: Ints) -> list[tuple[int, WholeColumns]]:
    alike = bool((policy_of == policy_of[0]).all())
    if not alike:
        return []
    found: list[tuple[int, WholeColumns]] = []
    for index in np.unique(policy_of[0]).tolist():  # in the order of the policies, as they are asked one by one
        found.append((index, WholeColumns(policy_of == index)))
    return found
