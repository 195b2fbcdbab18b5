"""Starts that are given instead of drawn."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from marl.data.task import Bools, Ints
from marl.envs.games.warehouse.floor import Floor
from marl.envs.games.warehouse.sensors import NUM_DIRECTIONS
from marl.errors import EnvError


def read_robots(env: str, count: int, floor: Floor, robots: ArrayLike) -> tuple[Ints, Ints]:
    """Cells and directions, from row, column and direction of every robot."""
    given = np.asarray(robots, np.int64)
    if given.shape != (count, 3):
        raise EnvError(
            f"{env}: robots to place have shape {given.shape}; expected ({count}, 3), a row, a column and a direction each."
        )
    limits = np.array([floor.rows, floor.columns, NUM_DIRECTIONS])
    wrong = ((given < 0) | (given >= limits)).any(axis=1)
    if wrong.any():
        raise EnvError(
            f"{env}: a robot to place at row, column and direction {given[wrong][0].tolist()}; expected numbers from 0, below "
            f"{limits.tolist()}."
        )
    cell = (given[:, 0] + floor.border) * floor.width + given[:, 1] + floor.border
    if len(np.unique(cell)) < count:
        raise EnvError(f"{env}: two robots to place on one cell; expected a cell for each.")
    return cell, given[:, 2]


def read_wanted(env: str, count: int, floor: Floor, wanted: ArrayLike) -> Bools:
    """Which shelves are wanted, from their numbers."""
    numbers = np.unique(np.asarray(wanted, np.int64))
    shelves = len(floor.shelves)
    if len(numbers) != count or numbers[0] < 0 or numbers[-1] >= shelves:
        raise EnvError(
            f"{env}: wanted shelves {numbers.tolist()} to place; expected {count} different numbers from 0 to {shelves - 1}."
        )
    found = np.zeros(shelves, bool)
    found[numbers] = True
    return found
