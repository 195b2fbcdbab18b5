"""Layouts that are given instead of drawn."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import ArrayLike

from marl.data.task import Ints
from marl.envs.games.foraging.config import ForagingConfig
from marl.envs.games.foraging.layout import GONE, Layouts, too_near
from marl.errors import EnvError


def read_layout(env: str, config: ForagingConfig, players: ArrayLike, food: ArrayLike) -> Layouts:
    """One start, from row, column and level of every player and of all food."""
    rows, columns = config.field_size
    walkers = _rows_of_three(env, "players", players)
    lying = _rows_of_three(env, "food", food)
    if len(walkers) != config.players or len(lying) > config.max_num_food:
        raise EnvError(
            f"{env}: {len(walkers)} players and {len(lying)} food to place; expected {config.players} players and at most "
            f"{config.max_num_food} food."
        )
    _check_inside(env, "players", walkers, (0, rows - 1), (0, columns - 1))
    _check_inside(env, "food", lying, (1, rows - 2), (1, columns - 2))
    for one, other in itertools.combinations(lying.tolist(), 2):
        if too_near(np.array(one[0] - other[0]), np.array(one[1] - other[1])):
            raise EnvError(f"{env}: food at {one[:2]} and at {other[:2]} to place; expected no cell that touches both.")
    cell, food_cell = walkers[:, 0] * columns + walkers[:, 1], np.full(config.max_num_food, GONE)
    food_level = np.zeros(config.max_num_food, np.int64)
    lying = lying[np.lexsort((lying[:, 1], lying[:, 0]))]
    food_cell[: len(lying)], food_level[: len(lying)] = lying[:, 0] * columns + lying[:, 1], lying[:, 2]
    return Layouts(cell[None], walkers[None, :, 2], food_cell[None], food_level[None])


def _rows_of_three(env: str, what: str, given: ArrayLike) -> Ints:
    rows = np.asarray(given, np.int64)
    if rows.size == 0:
        return rows.reshape(0, 3)
    if rows.ndim != 2 or rows.shape[1] != 3:
        raise EnvError(f"{env}: {what} to place have shape {rows.shape}; expected a row, a column and a level each.")
    return rows


def _check_inside(env: str, what: str, given: Ints, rows: tuple[int, int], columns: tuple[int, int]) -> None:
    for row, column, level in given.tolist():
        if not rows[0] <= row <= rows[1] or not columns[0] <= column <= columns[1] or level < 1:
            raise EnvError(
                f"{env}: {what} to place in row {row}, column {column}, with level {level}; expected rows {rows[0]} to "
                f"{rows[1]}, columns {columns[0]} to {columns[1]} and a level of at least 1."
            )
