"""Boards on which each player sees its own stones only: phantom games.

A move onto a stone of the other player fails: it places nothing, and shows the mover that stone. In the ``classical`` version
the mover then tries again, until a stone is placed; in the ``abrupt`` version it has lost its turn. The other player is told
nothing in either case: it knows neither what was tried nor, in the classical version, how often.

What matters for the rest of an episode is what both players know: ``marks``, which holds one board per player. A stone is on
the board where its owner knows it, so the true board is in there as well. Whose turn it is follows from counting:

    classical: stones on the board          (a failed move does not count)
    abrupt:    marks on both boards         (every move leaves exactly one)

Equal positions that were reached in different orders are therefore equal rows, which merged best responses live on.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from pydantic import Field

from marl.config import Config
from marl.data.task import AgentID, Bools, Floats, Ints
from marl.envs.games.boards.drawing import PIECES, Cells, board_scene, board_text, cell_names, clicks, rows_of
from marl.envs.games.boards.two_players import PLAYERS, TwoPlayerBoards, zero_sum
from marl.envs.games.boards.winning import Wins

UNKNOWN, OWN, SEEN = 0, 1, 2


class HiddenConfig(Config):
    """What every phantom game can be told."""

    version: Literal["classical", "abrupt"] = Field(
        "classical",
        description="What a move onto a hidden stone costs: the mover tries again (classical), or its turn is over (abrupt).",
    )


class HiddenBoards(TwoPlayerBoards):
    """``num_envs`` games on ``rows x columns`` cells; an action is a cell, counted row by row.

    A player knows its own stones and the foreign stones it has run into, and may play every other cell. Global state: what
    both know. Who wins gets 1 and the other one -1; a full board without a winner is a draw.
    """

    state_arrays = ("marks", "over")
    style = "squares"
    rows: int
    columns: int

    def __init__(self, num_envs: int, version: str, wins: tuple[Wins, Wins]) -> None:
        self.num_envs, self.wins = num_envs, wins
        self.cells = self.rows * self.columns
        self.state_size = 4 * self.cells
        self.abrupt = version == "abrupt"
        self._seat(2 * self.cells, self.cells)
        self.marks = np.zeros((num_envs, 2, self.cells), np.int8)

    def _start(self, env_ids: Ints, seeds: Ints) -> None:
        del seeds
        self.marks[env_ids] = UNKNOWN
        self.over[env_ids] = False

    def _mover(self) -> Ints:
        moved = self.marks != UNKNOWN if self.abrupt else self.marks == OWN
        mover: Ints = moved.sum(axis=(1, 2)) % 2
        return mover

    def _legal(self, mover: Ints) -> Bools:
        unknown: Bools = self.marks[np.arange(self.num_envs), mover] == UNKNOWN
        return unknown

    def _move(self, env_ids: Ints, who: Ints, moves: Ints) -> None:
        # The mover learns about a foreign stone by running into it, and in no other way.
        taken = self.marks[env_ids, 1 - who, moves] == OWN
        self.marks[env_ids, who, moves] = np.where(taken, SEEN, OWN)

    def _outcome(self) -> tuple[Floats, Bools]:
        won = self._won()
        # Stones of the two never share a cell, so as many stones as cells fill the board.
        full = (self.marks == OWN).sum(axis=(1, 2)) == self.cells
        return zero_sum(won), won.any(axis=1) | full

    def _won(self) -> Bools:
        """``[E, 2]``: whose stones win."""
        first, second = self.wins
        return np.stack([first(self.marks[:, 0] == OWN), second(self.marks[:, 1] == OWN)], axis=1)

    def _known(self) -> Floats:
        known = np.empty((self.num_envs, 2, 2, self.cells), np.float32)
        known[:, :, 0] = self.marks == OWN
        known[:, :, 1] = self.marks == SEEN
        return known.reshape(self.num_envs, 2, -1)

    @abstractmethod
    def _decided(self, env_id: int) -> list[list[int]]:
        """The cells, as rows and columns, that have won; none while nobody has."""

    def _board(self, env_id: int, viewer: AgentID | None) -> Cells:
        """The pieces that the viewer knows of, or all of them."""
        pieces: list[str | None] = [None] * self.cells
        # Everybody together knows every stone; one player knows its own board alone.
        shown = range(2) if viewer is None else [PLAYERS.index(viewer)]
        for player in shown:
            names = (None, PIECES[player], PIECES[1 - player])  # by UNKNOWN, OWN, SEEN
            for cell in np.flatnonzero(self.marks[env_id, player]).tolist():
                pieces[cell] = names[self.marks[env_id, player, cell]]
        return rows_of(pieces, self.columns)

    def scene(self, env_id: int, viewer: AgentID | None = None) -> Mapping[str, Any]:
        """A player sees its own board, until the game is over; a click tries a cell."""
        turn = self._turn(env_id)
        if turn is None:
            line = self._decided(env_id)
            return board_scene(self.title, self._board(env_id, None), None, line=line, actions={}, style=self.style)
        actions: dict[str, int] = {}
        # Who waits has nothing to click on: which cells the other one may try is not its business.
        if viewer in (None, turn):
            legal = self.marks[env_id, PLAYERS.index(turn)] == UNKNOWN
            actions = clicks(np.flatnonzero(legal), self.columns)
        return board_scene(self.title, self._board(env_id, viewer), turn, line=[], actions=actions, style=self.style)

    def render(self, env_id: int) -> str:
        shown = f"board:\n{self._text(env_id, None)}"
        for player in PLAYERS:
            shown += f"\n{player} sees:\n{self._text(env_id, player)}"
        return f"{self.title}; {self._next(env_id)}\n{shown}"

    def _text(self, env_id: int, viewer: AgentID | None) -> str:
        return board_text(self._board(env_id, viewer))

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        del agent
        return cell_names(self.rows, self.columns)
