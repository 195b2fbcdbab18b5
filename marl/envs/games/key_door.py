"""A key and a door: two errands in the right order, and one reward at the end.

A walker moves to one of four neighbours; walls stop it. It takes the key by stepping on it. The door pays 1 and ends the
episode, but only for somebody who has the key; without it nothing happens there. Nothing else pays, and after ``limit`` steps
the episode is truncated. So the reward of an episode is whether the door was opened::

    ###############
    #D.....#.....K#      D door, K key, S start, # wall, anything else is free
    #......#......#
    #.............#
    #......#......#
    #S.....#......#
    ###############

Whoever walks at random hardly ever does both, so there is nothing to learn from; who has learned to walk to a thing has
only two things to put in order (as in Kulkarni et al., 2016). The walker sees its row and column in tens of cells, and whether
it has the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from pydantic import Field, PositiveInt

from marl.config import Config
from marl.data.task import AgentID, AnySpace
from marl.envs.base import Action, Info, MultiAgentEnv, Obs, StepResult
from marl.envs.batched import State
from marl.errors import ConfigError

WALKER = "walker_0"
NAMES = ("north", "east", "south", "west")
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))
PLACES = {"up": 0, "right": 1, "down": 2, "left": 3}  # the same, as they are drawn
CELLS_PER_UNIT = 10.0  # of the position in observations
MAP = [
    "#################",
    "#D......#......K#",
    "#.......#.......#",
    "#.......#.......#",
    "#...............#",
    "#.......#.......#",
    "#.......#.......#",
    "#S......#.......#",
    "#################",
]


class KeyDoorConfig(Config):
    """Keys of ``env_config``."""

    map: list[str] = Field(MAP, description="Lines of # (wall), S (start), K (key), D (door), anything else is free.")
    limit: PositiveInt = Field(100, description="Env steps until the episode is truncated.")


class KeyDoor(MultiAgentEnv):
    """One walker; nothing in it is random."""

    config_class = KeyDoorConfig

    possible_agents = (WALKER,)

    def __init__(self, env_config: Mapping[str, Any]) -> None:
        self.config = KeyDoorConfig(**env_config)
        self.lines = list(self.config.map)
        self.start, self.key, self.door = (self._find(mark) for mark in "SKD")
        high = max(len(self.lines), *map(len, self.lines), CELLS_PER_UNIT) / CELLS_PER_UNIT
        self._observation_space = spaces.Box(0.0, high, (3,), np.float32)
        self._action_space = spaces.Discrete(len(MOVES))
        self.place, self.has_key, self.clock = self.start, False, 0

    def _find(self, mark: str) -> tuple[int, int]:
        found: list[tuple[int, int]] = []
        for row, line in enumerate(self.lines):
            found += [(row, column) for column, letter in enumerate(line) if letter == mark]
        if len(found) != 1:
            raise ConfigError(f"key_door: the map has {len(found)} cells {mark!r}; expected one. Lines: {self.lines}.")
        return found[0]

    def observation_space(self, agent: AgentID) -> AnySpace:
        del agent
        return self._observation_space

    def action_space(self, agent: AgentID) -> AnySpace:
        del agent
        return self._action_space

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        del agent
        return NAMES

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        del seed, options
        self.place, self.has_key, self.clock = self.start, False, 0
        return self._observe(), {}

    def _observe(self) -> dict[AgentID, Obs]:
        row, column = self.place
        return {WALKER: np.array([row / CELLS_PER_UNIT, column / CELLS_PER_UNIT, self.has_key], np.float32)}

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        self.clock += 1
        self.place = self._next(actions[WALKER])
        self.has_key = self.has_key or self.place == self.key
        opened = self.has_key and self.place == self.door
        late = not opened and self.clock >= self.config.limit
        return StepResult(self._observe(), {WALKER: float(opened)}, {WALKER: opened}, {WALKER: late}, {})

    def _next(self, move: int) -> tuple[int, int]:
        """Where a move leads; outside of the lines there is wall."""
        (row, column), (down, right) = self.place, MOVES[move]
        row, column = row + down, column + right
        inside = 0 <= row < len(self.lines) and 0 <= column < len(self.lines[row])
        if not inside or self.lines[row][column] == "#":
            return self.place
        return row, column

    def scene(self, viewer: AgentID | None = None) -> Mapping[str, Any]:
        """The rooms from above; the key lies there until it is taken."""
        del viewer  # there is one walker
        row, column = self.place
        told = "with the key" if self.has_key else "without the key"
        things = [_thing("door", self.door, "exit"), _thing(WALKER, self.place, "walker")]
        if not self.has_key:
            things.insert(0, _thing("key", self.key, "food"))
        width = max(map(len, self.lines))
        return {
            "kind": "maze",
            "text": f"Key and door, step {self.clock}: the walker is in row {row}, column {column}, {told}.",
            "lines": [line.ljust(width, "#") for line in self.lines],
            "things": things,
            "actions": PLACES,
        }

    def goal_place(self, wanted: Mapping[int, float]) -> tuple[int, int] | None:
        """The cell at which the entries of the observation have these values, for hierarchies that ask for a place."""
        if set(wanted) != {0, 1}:
            return None
        return round(wanted[0] * CELLS_PER_UNIT), round(wanted[1] * CELLS_PER_UNIT)

    def get_state(self) -> State:
        return {"place": list(self.place), "has_key": self.has_key, "clock": self.clock}

    def set_state(self, state: State) -> None:
        row, column = state["place"]
        self.place, self.has_key, self.clock = (row, column), state["has_key"], state["clock"]


def _thing(name: str, place: tuple[int, int], sort: str) -> dict[str, Any]:
    row, column = place
    return {"name": name, "row": row, "column": column, "sort": sort}
