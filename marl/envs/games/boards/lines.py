"""Open boards on which so many stones in a row win: tic-tac-toe and connect four.

Both see the whole board, so nothing but the stones is kept. ``player_0`` has the crosses and begins; whose turn it is follows
from how many stones there are. In the *misère* form who completes a line has lost.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from marl.config import Config
from marl.data.task import AgentID, Bools, Floats, Ints
from marl.envs.games.boards.drawing import PIECES, Cells, board_scene, board_text, clicks, places, rows_of
from marl.envs.games.boards.two_players import TwoPlayerBoards, zero_sum
from marl.envs.games.boards.winning import all_lines, in_a_row

EMPTY = 0  # a stone is 1 of player_0 and 2 of player_1


class LineConfig(Config):
    """What every game of lines can be told."""

    rows: int = Field(3, ge=1, le=10, description="Rows of the board.")
    columns: int = Field(3, ge=1, le=10, description="Columns of the board.")
    connect: int = Field(3, ge=2, le=10, description="Stones in a row, a column or a diagonal that win.")
    misere: bool = Field(False, description="Who completes a line loses instead.")

    @model_validator(mode="after")
    def _line_fits(self) -> LineConfig:
        check_line(self.connect, self.rows, self.columns)
        return self


def check_line(connect: int, rows: int, columns: int) -> None:
    if connect > max(rows, columns):
        raise ValueError(f"connect is {connect}, but the board is only {rows} x {columns}")


class LineBoards(TwoPlayerBoards):
    """``num_envs`` games. A player sees its own stones and the foreign ones. Global state: the stones of both."""

    state_arrays = ("stones", "over")
    style = "squares"
    config: LineConfig

    def __init__(self, num_envs: int, config: LineConfig, actions: int) -> None:
        self.num_envs, self.config = num_envs, config
        self.cells = config.rows * config.columns
        self.state_size = 2 * self.cells
        self.wins = in_a_row(config.rows, config.columns, config.connect)
        self._seat(2 * self.cells, actions)
        self.stones = np.zeros((num_envs, self.cells), np.int8)

    @abstractmethod
    def _cells_of(self, env_ids: Ints, moves: Ints) -> Ints:
        """The cells on which these moves put a stone."""

    @abstractmethod
    def _clicks(self, env_id: int) -> dict[str, int]:
        """The action of a click on a place."""

    def _start(self, env_ids: Ints, seeds: Ints) -> None:
        del seeds
        self.stones[env_ids] = EMPTY
        self.over[env_ids] = False

    def _mover(self) -> Ints:
        mover: Ints = np.count_nonzero(self.stones, axis=1) % 2
        return mover

    def _move(self, env_ids: Ints, who: Ints, moves: Ints) -> None:
        self.stones[env_ids, self._cells_of(env_ids, moves)] = who + 1

    def _outcome(self) -> tuple[Floats, Bools]:
        lined = np.stack([self.wins(self.stones == 1), self.wins(self.stones == 2)], axis=1)
        full = np.count_nonzero(self.stones, axis=1) == self.cells
        sign = np.float32(-1 if self.config.misere else 1)
        return sign * zero_sum(lined), lined.any(axis=1) | full

    def _known(self) -> Floats:
        known = np.empty((self.num_envs, 2, 2, self.cells), np.float32)
        # Each player sees itself first, so that one network can play both seats.
        known[:, 0, 0] = known[:, 1, 1] = self.stones == 1
        known[:, 0, 1] = known[:, 1, 0] = self.stones == 2
        return known.reshape(self.num_envs, 2, -1)

    def _whole(self, known: Floats) -> Floats:
        return known[:, 0]

    def _board(self, env_id: int) -> Cells:
        names = (None, *PIECES)
        return rows_of([names[stone] for stone in self.stones[env_id].tolist()], self.config.columns)

    def _line(self, env_id: int) -> list[list[int]]:
        """The places of the first line that is full; none while no line is."""
        lines = all_lines(self.config.rows, self.config.columns, self.config.connect)
        of_lines = self.stones[env_id][lines]
        full = (of_lines == of_lines[:, :1]).all(axis=1) & (of_lines[:, 0] != EMPTY)
        return places(lines[full][:1].ravel(), self.config.columns)

    def scene(self, env_id: int, viewer: AgentID | None = None) -> Mapping[str, Any]:
        """The whole board, for everybody; only who is to move has something to click on."""
        turn = self._turn(env_id)
        actions = {} if turn is None or viewer not in (None, turn) else self._clicks(env_id)
        cells, line = self._board(env_id), self._line(env_id)
        return board_scene(self.title, cells, turn, line=line, actions=actions, style=self.style)

    def render(self, env_id: int) -> str:
        return f"{self.title}; {self._next(env_id)}\n{board_text(self._board(env_id))}"


class FreeCells(LineBoards):
    """An action is a free cell, counted row by row."""

    def _legal(self, mover: Ints) -> Bools:
        del mover
        free: Bools = self.stones == EMPTY
        return free

    def _cells_of(self, env_ids: Ints, moves: Ints) -> Ints:
        del env_ids
        return moves

    def _clicks(self, env_id: int) -> dict[str, int]:
        return clicks(np.flatnonzero(self.stones[env_id] == EMPTY), self.config.columns)


class FallingStones(LineBoards):
    """An action is a column that is not full; the stone falls to the lowest free cell of it."""

    def _free(self) -> Ints:
        """``[E, columns]``: free cells by column. Stones never float, so this is how deep the next one falls."""
        free: Ints = (self.stones.reshape(self.num_envs, self.config.rows, -1) == EMPTY).sum(axis=1)
        return free

    def _legal(self, mover: Ints) -> Bools:
        del mover
        return self._free() > 0

    def _cells_of(self, env_ids: Ints, moves: Ints) -> Ints:
        return (self._free()[env_ids, moves] - 1) * self.config.columns + moves

    def _clicks(self, env_id: int) -> dict[str, int]:
        actions: dict[str, int] = {}
        for column, free in enumerate(self._free()[env_id].tolist()):
            if free:
                actions[f"{free - 1},{column}"] = column
        return actions
