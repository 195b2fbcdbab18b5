"""Where everybody starts: drawn from seeds, for many episodes at once.

Players stand on different cells, anywhere. Food lies off the border, where nobody stands, and never so near to other food
that somebody could touch two: none of the eight cells around it and none two cells away in a straight line has any. Each is
put on one of the cells that are left, all alike; where none is left there is less food. ``lbforaging`` tries cells until one
is free, which comes to the same, but gives up after 1,000.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marl.data.task import Bools, Ints
from marl.envs.games.foraging.config import WEAKEST, ForagingConfig
from marl.envs.games.particles.seeding import Doubles, uniform

GONE = 2**30
"""The cell of food that has been eaten or has never been there: sorts last, is far from everywhere."""


class Layouts(NamedTuple):
    """Starts of ``N`` episodes. Cells count row by row; food is in the order of its cells."""

    cell: Ints  # [N, players]
    level: Ints  # [N, players]
    food_cell: Ints  # [N, food]
    food_level: Ints  # [N, food]; 0 where there is none


def draw_layouts(config: ForagingConfig, seeds: Ints) -> Layouts:
    """One start for each seed."""
    players, food = config.players, config.max_num_food
    luck = uniform(seeds, 3 * (players + food))
    of_players, of_food = np.split(luck, [3 * players], axis=1)
    level = _player_levels(config, of_players[:, players:])
    cell, food_cell = _cells(config, of_players[:, :players], of_food[:, :food])
    food_level = _food_levels(config, level, of_food[:, food:])
    food_level[food_cell == GONE] = 0
    order = np.argsort(food_cell, axis=1, kind="stable")
    food_cell = np.take_along_axis(food_cell, order, axis=1)
    return Layouts(cell, level, food_cell, np.take_along_axis(food_level, order, axis=1))


# -- places ----------------------------------------------------------------------------------------------------------


def _cells(config: ForagingConfig, for_players: Doubles, for_food: Doubles) -> tuple[Ints, Ints]:
    """Cells ``[N, players]`` and ``[N, food]``, one after the other, each among those that are still free."""
    rows, columns = config.field_size
    row, column = np.divmod(np.arange(rows * columns), columns)
    episodes = np.arange(len(for_players))
    free = np.ones((len(episodes), rows * columns), bool)
    cell = np.empty(for_players.shape, np.int64)
    for player, luck in enumerate(for_players.T):
        cell[:, player] = pick(free, luck)
        free[episodes, cell[:, player]] = False
    free &= (row > 0) & (row < rows - 1) & (column > 0) & (column < columns - 1)
    food_cell = np.empty(for_food.shape, np.int64)
    for number, luck in enumerate(for_food.T):
        food_cell[:, number] = pick(free, luck)
        at_row, at_column = np.divmod(food_cell[:, number, None], columns)
        free &= ~too_near(row - at_row, column - at_column)
    return cell, food_cell


def pick(free: Bools, luck: Doubles) -> Ints:
    """A free cell of each row ``[N]``, all alike, by numbers in [0, 1); ``GONE`` where none is free."""
    counted = free.cumsum(axis=1)
    rank = (luck * counted[:, -1]).astype(np.int64)
    cell: Ints = (counted <= rank[:, None]).sum(axis=1)
    cell[cell == free.shape[1]] = GONE
    return cell


def too_near(rows: Ints, columns: Ints) -> Bools:
    """Whether two pieces of food, so many rows and columns apart, could be touched from one cell, or lie in one."""
    near: Bools = np.abs(rows) + np.abs(columns) <= 2
    return near


# -- levels ----------------------------------------------------------------------------------------------------------


def _player_levels(config: ForagingConfig, luck: Doubles) -> Ints:
    """``[N, players]``: between limits that are dealt among the players."""
    dealt = np.argsort(luck[:, : config.players], axis=1)
    lowest = np.array(config.levels("min_player_level"))[dealt]
    highest = np.array(config.levels("max_player_level"))[dealt]
    return between(lowest, highest, luck[:, config.players :])


def _food_levels(config: ForagingConfig, level: Ints, luck: Doubles) -> Ints:
    """``[N, food]``: between limits that are dealt among the food; with ``force_coop`` the highest."""
    food = config.max_num_food
    dealt = np.argsort(luck[:, :food], axis=1)
    if config.max_food_level is None:
        together = np.sort(level, axis=1)[:, :WEAKEST].sum(axis=1)
        highest = np.repeat(together[:, None], food, axis=1)
    else:
        highest = np.array(config.levels("max_food_level"))[dealt]
    if config.force_coop:
        return highest
    lowest = np.array(config.levels("min_food_level"))[dealt]
    return between(lowest, highest, luck[:, food:])


def between(lowest: Ints, highest: Ints, luck: Doubles) -> Ints:
    """Whole numbers from the lowest to the highest, all alike, by numbers in [0, 1)."""
    return lowest + (luck * (highest - lowest + 1)).astype(np.int64)
