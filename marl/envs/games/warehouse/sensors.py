"""What robots see: themselves, then the cells around them row by row.

Of itself a robot knows column and row, whether it carries a shelf, its direction (one-hot: up, down, left, right) and whether
it is in a corridor. Of every cell, its own included: whether a robot is there and its direction (up where nobody is), whether
a shelf is there and whether it is wanted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marl.data.task import Array, Bools, Floats, Ints
from marl.envs.games.warehouse.floor import Floor

OF_ITSELF = 8
PER_CELL = 7
NUM_DIRECTIONS = 4
NO_SHELF, SHELF, WANTED = range(3)
NUM_SIGNS = 3  # of shelves


def _cell_table() -> Floats:
    """``[codes, PER_CELL]``: a code is the shelf's sign plus ``NUM_SIGNS`` times 0 (nobody) or 1 + the robot's direction."""
    table = np.zeros((NUM_DIRECTIONS + 1, NUM_SIGNS, PER_CELL), np.float32)
    table[1:, :, 0] = 1.0
    table[0, :, 1] = 1.0
    for direction in range(NUM_DIRECTIONS):
        table[1 + direction, :, 1 + direction] = 1.0
    table[:, SHELF:, 5] = 1.0
    table[:, WANTED, 6] = 1.0
    return table.reshape(-1, PER_CELL)


CELLS = _cell_table()


class Sensors:
    """Observations ``[E, robots, width]`` of robots on a floor."""

    def __init__(self, num_envs: int, robots: int, floor: Floor, sensor_range: int, normalised: bool) -> None:
        reach = np.arange(-sensor_range, sensor_range + 1)
        self.around: Ints = (reach[:, None] * floor.width + reach).ravel()
        self.width = OF_ITSELF + PER_CELL * len(self.around)
        self.first_cell = np.arange(num_envs)[:, None] * len(floor.inside)  # of each env, in a list of all cells
        row, column = floor.place(np.arange(len(floor.inside)))
        places = np.stack([column, row], axis=1).astype(np.float64)
        if normalised:
            places /= np.maximum([floor.columns - 1, floor.rows - 1], 1)
        self.places: Floats = places.astype(np.float32)
        self.corridor: Floats = floor.corridor.astype(np.float32)
        self.directions: Floats = np.eye(NUM_DIRECTIONS, dtype=np.float32)
        self.shape = num_envs, robots, self.width

    def look(self, cell: Ints, direction: Ints, carries: Bools, shelves: NDArray[np.uint8]) -> Array:
        """Robots ``[E, robots]``, signs of shelves ``[E, cells]``."""
        seen = np.empty(self.shape, np.float32)
        seen[:, :, 0:2] = self.places.take(cell, axis=0)
        seen[:, :, 2] = carries
        seen[:, :, 3:7] = self.directions.take(direction, axis=0)
        seen[:, :, 7] = self.corridor.take(cell)
        at = cell + self.first_cell
        codes = shelves.ravel().copy()
        codes[at] += (NUM_SIGNS * (direction + 1)).astype(np.uint8)
        around = codes.take(at[:, :, None] + self.around)
        seen[:, :, OF_ITSELF:] = CELLS.take(around, axis=0).reshape(*cell.shape, -1)
        return seen
