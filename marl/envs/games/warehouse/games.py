"""Robot warehouses: robots fetch wanted shelves, bring them to a goal and carry them back.

A robot stays, drives forward, turns left or right on the spot, or takes up the shelf on its cell or puts it down. Robots
without a shelf drive below shelves that stand; those with one do not. Who may go where others are or wish to go is told in
``right_of_way.py``. Shelves are put down anywhere but in corridors. When a wanted shelf is on a goal, its carrier is paid and
another one, drawn among all that are not wanted, is wanted instead.

Episodes have no natural end: they are truncated after ``max_steps``, or after ``max_inactivity_steps`` without a delivery.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from marl.data.task import AgentID, AgentType, Array, Bools, Floats, Ints, number_seats
from marl.envs.batched import NativeEnv, State, StepOutput
from marl.envs.games.foraging.layout import pick
from marl.envs.games.particles.seeding import Doubles, uniform
from marl.envs.games.warehouse.config import WarehouseConfig
from marl.envs.games.warehouse.placing import read_robots, read_wanted
from marl.envs.games.warehouse.right_of_way import right_of_way
from marl.envs.games.warehouse.scene import warehouse_scene, warehouse_text
from marl.envs.games.warehouse.sensors import NO_SHELF, NUM_DIRECTIONS, SHELF, WANTED, Sensors

ACTIONS = ("nothing", "forward", "left", "right", "load")
STAY, FORWARD, LEFT, RIGHT, TOGGLE_LOAD = range(len(ACTIONS))
# Directions are up, down, left and right; a turn leads from each to the one beside it.
TURNED = np.array([[0, 1, 2, 3], [0, 1, 2, 3], [2, 3, 1, 0], [3, 2, 0, 1], [0, 1, 2, 3]])  # [action, direction]
NOTHING = -1  # carried


class WarehouseGames(NativeEnv):
    """``num_envs`` warehouses. Global state: everybody's observations in a row."""

    config_class = WarehouseConfig

    name = "fast:rware"
    state_arrays = (
        "robot_cell", "direction", "carried", "has_delivered", "shelf_cell", "wanted", "clock", "idle", "seed", "draws",
    )  # fmt: skip

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        config = WarehouseConfig(**env_config)
        self.num_envs = num_envs
        self.config = config
        self.floor = config.floor()
        robots, shelves = config.n_agents, len(self.floor.shelves)
        self.sensors = Sensors(num_envs, robots, self.floor, config.sensor_range, config.normalised_coordinates)
        sees = spaces.Box(-np.inf, np.inf, (self.sensors.width,), np.float32)
        agents = tuple(f"agent_{i}" for i in range(robots))
        self.kinds = number_seats([AgentType("agent", agents, sees, spaces.Discrete(len(ACTIONS)))])
        self.state_size = robots * self.sensors.width
        self.robot_cell: Ints = np.tile(np.flatnonzero(self.floor.inside)[:robots], (num_envs, 1))
        self.direction: Ints = np.zeros((num_envs, robots), np.int64)
        self.carried: Ints = np.full((num_envs, robots), NOTHING)
        self.has_delivered: Bools = np.zeros((num_envs, robots), bool)
        self.shelf_cell: Ints = np.tile(self.floor.shelves, (num_envs, 1))
        self.wanted: Bools = np.zeros((num_envs, shelves), bool)
        self.clock, self.idle = np.zeros(num_envs, np.int64), np.zeros(num_envs, np.int64)
        self.seed, self.draws = np.zeros(num_envs, np.int64), np.zeros(num_envs, np.int64)
        self._signs: NDArray[np.uint8] = np.zeros((num_envs, len(self.floor.inside)), np.uint8)  # of shelves, by cell
        self._forward = np.array([-self.floor.width, self.floor.width, -1, 1])
        self._columns_and_rows = np.stack(self.floor.place(np.arange(len(self.floor.inside)))[::-1], axis=1)
        self._legal = [np.ones((num_envs, robots, 0), bool)]

    # -- starting ------------------------------------------------------------------------------------------------------

    def _start(self, env_ids: Ints, seeds: Ints) -> None:
        """Robots on cells of their own, turned anywhere; some of the shelves are wanted."""
        robots, requests = self.config.n_agents, self.config.request_queue_size
        luck = uniform(seeds, 2 * robots + requests)
        rows = np.arange(len(env_ids))
        free = np.tile(self.floor.inside, (len(rows), 1))
        cell = np.empty((len(rows), robots), np.int64)
        for robot in range(robots):
            cell[:, robot] = pick(free, luck[:, robot])
            free[rows, cell[:, robot]] = False
        wanted = np.zeros((len(rows), self.wanted.shape[1]), bool)
        for number in range(requests):
            wanted[rows, pick(~wanted, luck[:, 2 * robots + number])] = True
        direction = (luck[:, robots : 2 * robots] * NUM_DIRECTIONS).astype(np.int64)
        self.seed[env_ids] = seeds
        self._begin(env_ids, cell, direction, wanted)

    def _begin(self, env_ids: Ints, cell: Ints, direction: Ints, wanted: Bools) -> None:
        """New episodes with all shelves at home."""
        self.robot_cell[env_ids], self.direction[env_ids] = cell, direction
        self.shelf_cell[env_ids], self.wanted[env_ids] = self.floor.shelves, wanted
        self.carried[env_ids], self.has_delivered[env_ids] = NOTHING, False
        self.clock[env_ids], self.idle[env_ids], self.draws[env_ids] = 0, 0, 0
        self._put_up_signs(env_ids)

    def place(self, env_id: int, robots: ArrayLike, wanted: ArrayLike) -> StepOutput:
        """Start the env's episode anew with these robots, row, column and direction (0 to 3: up, down, left, right) of each,
        and these shelves wanted; shelves are numbered row by row."""
        cell, direction = read_robots(self.name, self.config.n_agents, self.floor, robots)
        requests = read_wanted(self.name, self.config.request_queue_size, self.floor, wanted)
        self._begin(np.array([env_id]), cell[None], direction[None], requests[None])
        return self._still()

    def _put_up_signs(self, env_ids: Ints) -> None:
        """Show all shelves of these envs where they are."""
        self._signs[env_ids] = NO_SHELF
        signs = np.where(self.wanted[env_ids], WANTED, SHELF)
        self._signs[env_ids[:, None], self.shelf_cell[env_ids]] = signs

    def set_state(self, state: State) -> StepOutput:
        for name in self.state_arrays:
            getattr(self, name)[...] = state[name]
        self._put_up_signs(np.arange(self.num_envs))
        return self._still()

    def reseed(self, seeds: Ints) -> bool:
        """What will be wanted next is drawn anew."""
        self.seed[:], self.draws[:] = seeds, 0
        return True

    # -- playing -------------------------------------------------------------------------------------------------------

    def _play(self, actions: Sequence[Array]) -> tuple[Floats, Bools, Bools, Bools]:
        chosen = np.asarray(actions[0])
        rewards = np.zeros(chosen.shape, np.float32)
        self._drive(chosen == FORWARD)
        self.direction = TURNED.ravel().take(chosen * NUM_DIRECTIONS + self.direction)
        self._load(chosen == TOGGLE_LOAD, rewards)
        delivered = self._deliver(rewards)
        self.clock += 1
        self.idle += 1
        self.idle[delivered] = 0
        over = np.zeros(self.num_envs, bool)
        if self.config.max_steps is not None:
            over |= self.clock >= self.config.max_steps
        if self.config.max_inactivity_steps is not None:
            over |= self.idle >= self.config.max_inactivity_steps
        return rewards, np.zeros(chosen.shape, bool), np.repeat(over[:, None], chosen.shape[1], axis=1), over

    def _drive(self, forward: Bools) -> None:
        cell = self.robot_cell
        ahead = cell + self._forward.take(self.direction)
        wished = np.where(forward & self.floor.inside.take(ahead), ahead, cell)
        loaded = self.carried != NOTHING
        env_ids, robots = np.nonzero(loaded & (wished != cell))
        if env_ids.size:
            blocked = self._blocked(env_ids, wished[env_ids, robots], loaded)
            wished[env_ids[blocked], robots[blocked]] = cell[env_ids[blocked], robots[blocked]]
        # Wherever somebody wishes for a cell of another one, or for the same as another one: who may move?
        others = ~np.eye(cell.shape[1], dtype=bool)
        meets = (wished[:, :, None] == cell[:, None]) | (wished[:, :, None] == wished[:, None])
        crowded = np.flatnonzero((meets & others).any(axis=(1, 2)))
        if crowded.size:
            moves = right_of_way(cell[crowded], wished[crowded], self._columns_and_rows)
            wished[crowded] = np.where(moves, wished[crowded], cell[crowded])
        self._carry(wished, loaded)
        self.robot_cell = wished

    def _blocked(self, env_ids: Ints, wished: Ints, loaded: Bools) -> Bools:
        """Whether a shelf stands where these robots, which carry one, wish to go; one that is carried may move on."""
        somebody = (self.robot_cell[env_ids] == wished[:, None]) & loaded[env_ids]
        blocked: Bools = (self._signs[env_ids, wished] != NO_SHELF) & ~somebody.any(axis=1)
        return blocked

    def _carry(self, new_cell: Ints, loaded: Bools) -> None:
        """Shelves move with their robots."""
        env_ids, robots = np.nonzero(loaded & (new_cell != self.robot_cell))
        if not env_ids.size:
            return
        old, new = self.robot_cell[env_ids, robots], new_cell[env_ids, robots]
        self.shelf_cell[env_ids, self.carried[env_ids, robots]] = new
        signs = self._signs[env_ids, old]
        self._signs[env_ids, old] = NO_SHELF  # all first, for one may come to where another one was
        self._signs[env_ids, new] = signs

    def _load(self, toggled: Bools, rewards: Floats) -> None:
        """Take up what stands here, or put down what is carried; where shelves may not stand nothing happens."""
        env_ids, robots = np.nonzero(toggled)
        cell, carried = self.robot_cell[env_ids, robots], self.carried[env_ids, robots]
        takes = (carried == NOTHING) & (self._signs[env_ids, cell] != NO_SHELF)
        puts = (carried != NOTHING) & ~self.floor.corridor[cell]
        here = self.shelf_cell[env_ids[takes]] == cell[takes, None]
        self.carried[env_ids[takes], robots[takes]] = here.argmax(axis=1)
        put = env_ids[puts], robots[puts]
        self.carried[put] = NOTHING
        if self.config.reward_type == "two_stage":
            rewards[put] += 0.5 * self.has_delivered[put]
        self.has_delivered[put] = False

    # -- deliveries ----------------------------------------------------------------------------------------------------

    def _deliver(self, rewards: Floats) -> Ints:
        """Pay for wanted shelves that are on a goal, and want others; in which envs there were any."""
        found: list[Ints] = [np.zeros(0, np.int64)]
        for goal in self.floor.goals:
            env_ids = np.flatnonzero(self._signs[:, goal] == WANTED)
            if env_ids.size:
                self._pay(env_ids, int(goal), rewards)
                found.append(env_ids)
        return np.concatenate(found)

    def _pay(self, env_ids: Ints, goal: int, rewards: Floats) -> None:
        robot = (self.robot_cell[env_ids] == goal).argmax(axis=1)
        shelf = self.carried[env_ids, robot]
        new = self._draw_request(env_ids)
        self.wanted[env_ids, shelf] = False
        self.wanted[env_ids, new] = True
        self._signs[env_ids, goal] = SHELF
        self._signs[env_ids, self.shelf_cell[env_ids, new]] = WANTED
        if self.config.reward_type == "global":
            rewards[env_ids] += 1.0
        elif self.config.reward_type == "individual":
            rewards[env_ids, robot] += 1.0
        else:
            rewards[env_ids, robot] += 0.5
            self.has_delivered[env_ids, robot] = True

    def _draw_request(self, env_ids: Ints) -> Ints:
        """A shelf in each of these envs that is not wanted yet."""
        luck: Doubles = uniform(self.seed[env_ids] + (self.draws[env_ids] + 1) * 2**32, 1)[:, 0]  # seeds are below 2^32
        self.draws[env_ids] += 1
        return pick(~self.wanted[env_ids], luck)

    def _view(self) -> tuple[Sequence[Array], Sequence[Bools], Bools, Floats]:
        obs = self.sensors.look(self.robot_cell, self.direction, self.carried != NOTHING, self._signs)
        present = np.ones(self.robot_cell.shape, bool)
        return [obs], self._legal, present, obs.reshape(self.num_envs, self.state_size)

    # -- drawing -------------------------------------------------------------------------------------------------------

    def scene(self, env_id: int, viewer: AgentID | None = None) -> dict[str, Any]:
        return warehouse_scene(self, env_id, viewer)

    def render(self, env_id: int) -> str:
        return warehouse_text(self, env_id)

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        del agent
        return ACTIONS
