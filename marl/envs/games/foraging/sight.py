"""What agents see: food first, then themselves, then the others, three numbers each: row, column, level.

An agent sees a window of ``sight`` cells in each direction that ends at the edge of the field. Rows and columns count from
the window's upper left corner, so with a sight of the whole field they are those of the field. Food is told row by row and
other agents in the order of their numbers; slots of what is not seen are left out and filled up at the end by -1, -1, 0.

As in ``lbforaging``, other agents are seen as long as they are at most ``2 sight`` rows and columns from the window's corner:
near the upper and the left edge that is farther than food is seen.
"""

from __future__ import annotations

import numpy as np

from marl.data.task import Bools, Floats, Ints
from marl.envs.games.foraging.config import ForagingConfig
from marl.envs.games.foraging.layout import GONE

NOTHING = np.array([-1.0, -1.0, 0.0], np.float32)[:, None]  # what an empty slot shows
PER_FOOD = 3


class Sight:
    """Writes observations ``[players, width, E]``."""

    def __init__(self, num_envs: int, config: ForagingConfig) -> None:
        self.config = config
        self.columns = config.field_size[1]
        self.per_player = 3 if config.observe_agent_levels else 2
        self.food_width = PER_FOOD * config.max_num_food
        self.width = self.food_width + self.per_player * config.players
        self.sheet: Floats = np.zeros((config.players, self.width, num_envs), np.float32)
        self.food: Floats = np.zeros((config.max_num_food, PER_FOOD, num_envs), np.float32)
        self.players: Floats = np.zeros((config.players, 3, num_envs), np.float32)
        slots = config.max_num_food, PER_FOOD, num_envs
        self.food_slots = self.sheet[:, : self.food_width].reshape(config.players, *slots)
        slots = config.players, self.per_player, num_envs
        self.player_slots = self.sheet[:, self.food_width :].reshape(config.players, *slots)
        everybody = np.arange(config.players)
        self.own_first: Ints = np.array([[i, *everybody[everybody != i]] for i in everybody])

    def notice_food(self, env_ids: Ints, cell: Ints, level: Ints) -> None:
        """Food ``[food, len(env_ids)]`` in these envs has changed."""
        row, column = np.divmod(cell, self.columns)
        shown = np.stack([row, column, level], axis=1)
        self.food[:, :, env_ids] = np.where((cell == GONE)[:, None], NOTHING, shown)

    def notice_levels(self, env_ids: Ints, level: Ints) -> None:
        """Levels of players ``[players, len(env_ids)]`` in these envs."""
        self.players[:, 2, env_ids] = level

    def look(self, cell: Ints) -> None:
        """Fill the sheet, with players on the cells ``[players, E]``."""
        np.floor_divide(cell, self.columns, out=self.players[:, 0], casting="unsafe")
        np.remainder(cell, self.columns, out=self.players[:, 1], casting="unsafe")
        if self.config.sees_all:
            self.food_slots[:] = self.food
            self.player_slots[:] = self.players[:, : self.per_player].take(self.own_first, axis=0)
        else:
            self._look_around()

    def _look_around(self) -> None:
        sight = float(self.config.sight or 0)
        own = self.players[:, None, :2]  # [viewer, 1, 2, E]
        corner = np.maximum(own - sight, 0.0)
        near = (np.abs(self.food[:, :2] - own) <= sight).all(axis=2)
        near &= self.food[:, 2] > 0
        _fill(self.food_slots, self.food, corner, near)
        players = self.players.take(self.own_first, axis=0)
        window = players[:, :, :2] - corner
        near = ((window >= 0) & (window <= 2 * sight)).all(axis=2)
        _fill(self.player_slots, players[:, :, : self.per_player], corner, near)


def _fill(slots: Floats, shown: Floats, corner: Floats, near: Bools) -> None:
    """What is near, from the first slot on, counted from the window's corner; the rest of the slots is empty."""
    slots[:] = NOTHING[: slots.shape[2]]
    moved = np.broadcast_to(shown, slots.shape).copy()
    moved[:, :, :2] -= corner
    slot = near.cumsum(axis=1) - 1
    viewer, number, env_id = np.nonzero(near)
    slots[viewer, slot[near], :, env_id] = moved[viewer, number, :, env_id]
