"""Windy maze: a long way through rooms to one reward, and a wind that pushes at random.

The walker starts in the first room and looks for the exit in the last one. It stays or moves to one of four neighbours;
a wall stops it. Then, with the chance ``wind``, the wind carries it one cell further; and with the chance ``turn`` the
wind turns anywhere. Reaching the exit pays 1 and ends the episode, nothing else pays; after ``limit`` steps it is
truncated. So the reward of an episode is whether the exit was found.

Rooms lie on a grid and are joined in one long snake, by doors in the middle of their walls::

    #############    rooms: [2, 3], room_size: 3
    #...#...#...#
    #.S.........#    A map of one's own is given as such lines:
    #...#...#...#    # wall, S start, E exit, anything else is free.
    ##########.##
    #...#...#...#
    #.E.........#
    #...#...#...#
    #############

The walker sees its row and column in tens of cells, the wind's direction (one-hot) and walls to its north, east, south
and west. With ``shows: cell`` it is told the number of its cell and nothing else, so that no two places look alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from pydantic import Field, PositiveInt

from marl.config import Config
from marl.data.task import AgentID, AnySpace, Array
from marl.envs.base import Action, Info, MultiAgentEnv, Obs, StepResult
from marl.envs.batched import State
from marl.errors import ConfigError

WALKER = "walker_0"
NAMES = ("stay", "north", "east", "south", "west")
MOVES = ((0, 0), (-1, 0), (0, 1), (1, 0), (0, -1))  # stay, north, east, south, west
PLACES = {"stay": 0, "up": 1, "right": 2, "down": 3, "left": 4}  # the same, as they are drawn
BLOWS_TO = ("up", "right", "down", "left")
CELLS_PER_UNIT = 10.0  # of the position in observations
PIXELS = 8  # per cell of a picture
WALL, FREE, EXIT, HERE, BLOWN = (60, 60, 70), (240, 240, 235), (60, 160, 80), (200, 60, 50), (120, 150, 220)


class WindyMazeConfig(Config):
    """Keys of ``env_config``."""

    rooms: tuple[PositiveInt, PositiveInt] = Field((2, 3), description="Rows and columns of rooms.")
    room_size: int = Field(5, ge=1, description="Cells along a side of a room; doors are in the middle.")
    map: list[str] | None = Field(None, description="Lines of # (wall), S (start), E (exit), anything else is free.")
    wind: float = Field(0.1, ge=0, le=1, description="Chance per step that the wind carries the walker one cell.")
    turn: float = Field(0.1, ge=0, le=1, description="Chance per step that the wind turns to a random direction.")
    shows: Literal["position", "cell"] = Field(
        "position", description="position: row, column, wind and walls as numbers. cell: the number of the free cell."
    )
    limit: PositiveInt = Field(200, description="Env steps until the episode is truncated.")


class WindyMaze(MultiAgentEnv):
    """One walker. The wind of an episode follows from the seed of its reset."""

    config_class = WindyMazeConfig

    possible_agents = (WALKER,)

    def __init__(self, env_config: Mapping[str, Any]) -> None:
        self.config = config = WindyMazeConfig(**env_config)
        if config.map is None:
            self.lines = room_lines(*config.rooms, config.room_size)
        else:
            self.lines = list(config.map)
        self.height = len(self.lines)
        self.width = max(map(len, self.lines), default=0)
        self.start = _find(self.lines, "S")
        self.exit = _find(self.lines, "E")
        self.places = _free_places(self.lines)
        self.cell_of = {place: i for i, place in enumerate(self.places)}
        # Tables by cell, made once: a step is then a few look-ups.
        self.leads: list[list[int]] = []  # the cell that each move leads to
        self.seen: list[list[Array]] = []  # the observation under each wind
        for cell, (r, c) in enumerate(self.places):
            self.leads.append([self.cell_of.get((r + dr, c + dc), cell) for dr, dc in MOVES])
            self.seen.append([self._describe(cell, wind) for wind in range(4)])
        high = max(self.height, self.width, CELLS_PER_UNIT) / CELLS_PER_UNIT
        self._observation_space: AnySpace = spaces.Box(0.0, high, (10,), np.float32)
        if config.shows == "cell":
            self._observation_space = spaces.Discrete(len(self.places))
        self._action_space = spaces.Discrete(len(MOVES))
        self.seed = self.clock = self.wind = 0
        self.cell = self.cell_of[self.start]
        self.luck: list[list[float]] = []

    def _describe(self, cell: int, wind: int) -> Array:
        r, c = self.places[cell]
        blows = [float(wind == direction) for direction in range(4)]
        walls = [float(self.leads[cell][move] == cell) for move in range(1, 5)]
        return np.array([r / CELLS_PER_UNIT, c / CELLS_PER_UNIT, *blows, *walls], np.float32)

    def observation_space(self, agent: AgentID) -> AnySpace:
        del agent
        return self._observation_space

    def action_space(self, agent: AgentID) -> AnySpace:
        del agent
        return self._action_space

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        del options
        if seed is None:
            seed = int(np.random.default_rng().integers(2**31))
        self._draw_luck(seed)
        self.clock = 0
        self.cell = self.cell_of[self.start]
        return self._observe(), {}

    def _draw_luck(self, seed: int) -> None:
        """The wind's first direction, and for each step whether it carries and where it turns."""
        rng = np.random.default_rng(seed)
        self.seed = seed
        self.wind = int(rng.integers(4))
        # All of it at once: then the seed and the clock are a whole state, and no generator has to be saved.
        self.luck = rng.random((self.config.limit, 2)).tolist()

    def reseed(self, seed: int) -> bool:
        """Another wind from now on; it blows where it blows at present."""
        blows = self.wind
        self._draw_luck(seed)
        self.wind = blows
        return True

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        del agent
        return NAMES

    def _observe(self) -> dict[AgentID, Obs]:
        if self.config.shows == "cell":
            return {WALKER: self.cell}
        return {WALKER: self.seen[self.cell][self.wind].copy()}

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        carries, turns = self.luck[self.clock]
        self.clock += 1
        out = self.cell_of[self.exit]
        self.cell = self.leads[self.cell][actions[WALKER]]
        if self.cell != out and carries < self.config.wind:
            self.cell = self.leads[self.cell][self.wind + 1]
        if turns < self.config.turn:
            self.wind = int(4 * turns / self.config.turn)
        found = self.cell == out
        late = not found and self.clock >= self.config.limit
        return StepResult(self._observe(), {WALKER: float(found)}, {WALKER: found}, {WALKER: late}, {})

    def scene(self, viewer: AgentID | None = None) -> Mapping[str, Any]:
        """The maze from above; the wind blows in one of four directions."""
        del viewer  # there is one walker
        r, c = self.places[self.cell]
        told = f"the walker is in row {r}, column {c}; the wind blows {NAMES[self.wind + 1]}"
        out_r, out_c = self.exit
        return {
            "kind": "maze",
            "text": f"Windy maze, step {self.clock}: {told}.",
            "lines": [line.ljust(self.width, "#") for line in self.lines],
            "things": [
                {"name": "exit", "row": out_r, "column": out_c, "sort": "exit"},
                {"name": WALKER, "row": r, "column": c, "sort": "walker"},
            ],
            "wind": BLOWS_TO[self.wind],
            "actions": PLACES,
        }

    def goal_place(self, wanted: Mapping[int, float]) -> tuple[int, int] | None:
        """The cell at which the entries of the observation have these values, for hierarchies that ask for a place."""
        if set(wanted) != {0, 1}:
            return None
        return round(wanted[0] * CELLS_PER_UNIT), round(wanted[1] * CELLS_PER_UNIT)

    def render(self) -> Array:
        """Walls dark, the exit green, the walker red with a blue edge on the side that the wind blows to."""
        picture = np.full((self.height, self.width, 3), WALL, np.uint8)
        for r, c in self.places:
            picture[r, c] = FREE
        picture[self.exit] = EXIT
        large = picture.repeat(PIXELS, axis=0).repeat(PIXELS, axis=1)
        r, c = self.places[self.cell]
        walker = large[r * PIXELS : (r + 1) * PIXELS, c * PIXELS : (c + 1) * PIXELS]
        walker[1:-1, 1:-1] = HERE
        edges = (walker[:2], walker[:, -2:], walker[-2:], walker[:, :2])
        edges[self.wind][:] = BLOWN
        return large

    def get_state(self) -> State:
        return {"seed": self.seed, "clock": self.clock, "cell": self.cell, "wind": self.wind}

    def set_state(self, state: State) -> None:
        self._draw_luck(state["seed"])
        self.clock = state["clock"]
        self.cell = state["cell"]
        self.wind = state["wind"]


def room_lines(rows: int, columns: int, size: int) -> list[str]:
    """Rooms of ``size`` x ``size`` cells in a snake: along the first row, down, back along the second, and so on."""
    pitch = size + 1  # a room and one of its walls
    middle = pitch // 2
    cells = [["#"] * (columns * pitch + 1) for _ in range(rows * pitch + 1)]
    centres: list[tuple[int, int]] = []
    for r in range(rows):
        way = list(range(columns))
        if r % 2 == 1:
            way.reverse()
        for c in way:
            centres.append((r * pitch + middle, c * pitch + middle))
            for line in cells[r * pitch + 1 : (r + 1) * pitch]:
                line[c * pitch + 1 : (c + 1) * pitch] = "." * size
    for (r, c), (r2, c2) in itertools.pairwise(centres):
        if r == r2:
            cells[r][max(c, c2) - middle] = "."  # a door in the wall between two rooms of a row
        else:
            cells[r2 - middle][c] = "."
    (r, c), (r2, c2) = centres[0], centres[-1]
    cells[r2][c2] = "E"
    if (r, c) == (r2, c2):
        raise ConfigError("windy_maze: one room has no way to go. Give rooms at least [1, 2], or a map of your own.")
    cells[r][c] = "S"
    return ["".join(line) for line in cells]


def _free_places(lines: Sequence[str]) -> list[tuple[int, int]]:
    places: list[tuple[int, int]] = []
    for r, line in enumerate(lines):
        places += [(r, c) for c, mark in enumerate(line) if mark != "#"]
    return places


def _find(lines: Sequence[str], mark: str) -> tuple[int, int]:
    found = [(r, c) for r, c in _free_places(lines) if lines[r][c] == mark]
    if len(found) != 1:
        raise ConfigError(f"windy_maze: the map has {len(found)} cells {mark!r}; expected one. Lines: {list(lines)}.")
    return found[0]
