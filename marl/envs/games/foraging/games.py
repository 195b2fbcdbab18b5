"""Level-based foraging: agents walk over a grid and load food together, which takes levels that add up to the food's.

An agent stays, walks to one of four neighbours or loads. Walls and food stop it, and so does whoever else would come to stand
on the same cell, or stays there: then all of them stay where they are. It is the wish that counts, not who ends up where, so
two may change places, and one that follows another may run into it when that one is stopped: then both stand on one cell.

Food is loaded by all agents next to it that choose ``load`` in the same step, if their levels are at least its level together.
It pays its level, shared by the agents' levels and divided by the levels of all food at the start, so an episode pays at most
1. The episode terminates when all food is gone and is truncated after ``max_episode_steps``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from marl.data.task import AgentID, AgentType, AnySpace, Array, Bools, Floats, Ints, number_seats
from marl.envs.batched import NativeEnv, State, StepOutput
from marl.envs.games.foraging.config import ForagingConfig
from marl.envs.games.foraging.layout import GONE, Layouts, draw_layouts
from marl.envs.games.foraging.placing import read_layout
from marl.envs.games.foraging.scene import Food, Walker, foraging_scene, foraging_text
from marl.envs.games.foraging.sight import Sight

ACTIONS = ("nothing", "north", "south", "west", "east", "load")
STEPS = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1), (0, 0))  # rows and columns
LOAD = 5


class ForagingGames(NativeEnv):
    """``num_envs`` games. Global state: everybody's observations in a row.

    Arrays end with the axis of the copies; the names in ``state_arrays`` are views of them that begin with it.
    """

    config_class = ForagingConfig

    name = "fast:lbf"
    state_arrays = ("player_cell", "player_level", "food_cell", "food_level", "levels_at_start", "clock")

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        config = ForagingConfig(**env_config)
        self.num_envs = num_envs
        self.config = config
        self.sight = Sight(num_envs, config)
        agents = tuple(f"agent_{i}" for i in range(config.players))
        self.kinds = number_seats([AgentType("agent", agents, _sees(config), spaces.Discrete(len(ACTIONS)))])
        self.state_size = config.players * self.sight.width
        self._cell: Ints = np.zeros((config.players, num_envs), np.int64)
        self._level: Ints = np.ones((config.players, num_envs), np.int64)
        self._food_cell: Ints = np.full((config.max_num_food, num_envs), GONE)  # in ascending order
        self._food_level: Ints = np.zeros((config.max_num_food, num_envs), np.int64)
        self.player_cell, self.player_level = self._cell.T, self._level.T
        self.food_cell, self.food_level = self._food_cell.T, self._food_level.T
        self.levels_at_start = np.zeros(num_envs, np.int64)
        self.clock = np.zeros(num_envs, np.int64)
        self._next_cell = _next_cells(*config.field_size).ravel()
        self._legal = [np.ones((num_envs, config.players, 0), bool)]

    # -- starting ------------------------------------------------------------------------------------------------------

    def _start(self, env_ids: Ints, seeds: Ints) -> None:
        self._begin(env_ids, draw_layouts(self.config, seeds))

    def _begin(self, env_ids: Ints, layouts: Layouts) -> None:
        self.player_cell[env_ids] = layouts.cell
        self.player_level[env_ids] = layouts.level
        self.food_cell[env_ids] = layouts.food_cell
        self.food_level[env_ids] = layouts.food_level
        self.levels_at_start[env_ids] = layouts.food_level.sum(axis=1)
        self.clock[env_ids] = 0
        self._notice(env_ids)

    def _notice(self, env_ids: Ints) -> None:
        """Let agents see what changes rarely."""
        self.sight.notice_food(env_ids, self._food_cell[:, env_ids], self._food_level[:, env_ids])
        self.sight.notice_levels(env_ids, self._level[:, env_ids])

    def place(self, env_id: int, players: ArrayLike, food: ArrayLike) -> StepOutput:
        """Start the env's episode anew with these players and this food: row, column and level of each."""
        self._begin(np.array([env_id]), read_layout(self.name, self.config, players, food))
        return self._still()

    def set_state(self, state: State) -> StepOutput:
        for name in self.state_arrays:
            getattr(self, name)[...] = state[name]
        self._notice(np.arange(self.num_envs))
        return self._still()

    # -- playing -------------------------------------------------------------------------------------------------------

    def _play(self, actions: Sequence[Array]) -> tuple[Floats, Bools, Bools, Bools]:
        chosen = np.ascontiguousarray(actions[0].T)  # [players, E]
        self._walk(chosen)
        rewards = self._load(chosen == LOAD)
        self.clock += 1
        all_eaten = self._food_cell[0] == GONE  # the first one, for what is gone comes last
        late = (self.clock >= self.config.max_episode_steps) & ~all_eaten
        seats = self.config.players
        terminated, truncated = (np.repeat(flag[:, None], seats, axis=1) for flag in (all_eaten, late))
        return rewards, terminated, truncated, all_eaten | late

    def _walk(self, chosen: Ints) -> None:
        cells = len(self._next_cell) // len(ACTIONS)
        wished = self._next_cell.take(chosen * cells + self._cell)
        food_there = (wished == self._food_cell[:, None]).any(axis=0)
        np.copyto(wished, self._cell, where=food_there)
        # Compared with everybody's wish, each meets its own; one more, and nobody gets there.
        alone = (wished == wished[:, None]).sum(axis=0) == 1
        np.copyto(self._cell, wished, where=alone)

    def _load(self, loading: Bools) -> Floats:
        """Rewards ``[E, players]``; food that was loaded is gone."""
        # Off the border, where food lies, cells that are 1 or a row apart are neighbours.
        apart = np.abs(self._food_cell[:, None] - self._cell)
        beside = (apart == 1) | (apart == self.config.field_size[1])
        beside &= loading  # [food, players, E]; no cell touches two pieces of food
        rewards = np.zeros((self.num_envs, self.config.players), np.float32)
        busy = np.flatnonzero(beside.any(axis=(0, 1)))
        if busy.size:
            rewards[busy] = self._share_out(busy, beside[:, :, busy]).T
        return rewards

    def _share_out(self, env_ids: Ints, loaders: Bools) -> Array:
        """Pay those who load in these envs ``[food, players, N]``, and take away what they have loaded: ``[players, N]``."""
        level, food_level = self._level[:, env_ids], self._food_level[:, env_ids]
        strength = (loaders * level).sum(axis=1)  # [food, N]
        loaded = (strength >= food_level) & (strength > 0)
        paid = (level * food_level[:, None]).astype(np.float64)
        if self.config.normalize_reward:
            paid /= np.maximum(strength * self.levels_at_start[env_ids], 1)[:, None]
        rewards: Array = np.where(loaded[:, None], paid, -self.config.penalty)
        rewards = (rewards * loaders).sum(axis=0)
        if loaded.any():
            self._take_away(env_ids, loaded)
        return rewards

    def _take_away(self, env_ids: Ints, loaded: Bools) -> None:
        cell = np.where(loaded, GONE, self._food_cell[:, env_ids])
        level = np.where(loaded, 0, self._food_level[:, env_ids])
        order = np.argsort(cell, axis=0, kind="stable")
        self._food_cell[:, env_ids] = np.take_along_axis(cell, order, axis=0)
        self._food_level[:, env_ids] = np.take_along_axis(level, order, axis=0)
        self._notice(env_ids)

    def _view(self) -> tuple[Sequence[Array], Sequence[Bools], Bools, Floats]:
        self.sight.look(self._cell)
        players = self.config.players
        state = np.ascontiguousarray(self.sight.sheet.reshape(self.state_size, self.num_envs).T)
        obs = state.reshape(self.num_envs, players, self.sight.width)
        return [obs], self._legal, np.ones((self.num_envs, players), bool), state

    # -- drawing -------------------------------------------------------------------------------------------------------

    def walkers(self, env_id: int) -> list[Walker]:
        """Name, row, column and level of every agent."""
        found: list[Walker] = []
        for name, cell, level in zip(self.seat_names, self.player_cell[env_id], self.player_level[env_id], strict=True):
            row, column = divmod(int(cell), self.config.field_size[1])
            found.append((name, row, column, int(level)))
        return found

    def food_left(self, env_id: int) -> list[Food]:
        """Row, column and level of all food."""
        found: list[Food] = []
        for cell, level in zip(self.food_cell[env_id], self.food_level[env_id], strict=True):
            row, column = divmod(int(cell), self.config.field_size[1])
            if level:
                found.append((row, column, int(level)))
        return found

    def scene(self, env_id: int, viewer: AgentID | None = None) -> dict[str, Any]:
        walkers, food = self.walkers(env_id), self.food_left(env_id)
        sight = self.config.sight
        if sight is None:
            sight = max(self.config.field_size)
        return foraging_scene(self.config.field_size, walkers, food, sight, viewer)

    def render(self, env_id: int) -> str:
        return foraging_text(self.config.field_size, self.walkers(env_id), self.food_left(env_id))

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        del agent
        return ACTIONS


def _next_cells(rows: int, columns: int) -> Ints:
    """``[actions, cells]``: where an action leads to if nobody and no food is in the way."""
    row, column = np.divmod(np.arange(rows * columns), columns)
    leads_to = np.empty((len(ACTIONS), rows * columns), np.int64)
    for action, (down, right) in enumerate(STEPS):
        leads_to[action] = np.clip(row + down, 0, rows - 1) * columns + np.clip(column + right, 0, columns - 1)
    return leads_to


def _sees(config: ForagingConfig) -> AnySpace:
    """The original's space: -1 for what is not seen, else rows, columns and levels."""
    rows, columns = config.field_size
    of_player = [rows - 1, columns - 1, max(config.levels("max_player_level"))]
    per_player = 3 if config.observe_agent_levels else 2
    low = [-1, -1, 0] * config.max_num_food + [-1, -1, 0][:per_player] * config.players
    high = [rows - 1, columns - 1, config.highest_food] * config.max_num_food + of_player[:per_player] * config.players
    return spaces.Box(np.array(low, np.float32), np.array(high, np.float32), dtype=np.float32)
