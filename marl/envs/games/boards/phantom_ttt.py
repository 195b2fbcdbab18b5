"""Phantom tic-tac-toe: noughts and crosses in the dark.

The rules of tic-tac-toe, but nobody sees the stones of the other one (``hidden.py`` says how moves fail). Three in a row
win 1, a full board is a draw. Uniform play of both in the classical version has the NashConv 1.577463624339.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from marl.envs.games.boards.drawing import places
from marl.envs.games.boards.hidden import OWN, HiddenBoards, HiddenConfig
from marl.envs.games.boards.lines import check_line
from marl.envs.games.boards.winning import all_lines, in_a_row


class PhantomConfig(HiddenConfig):
    """Keys of ``env_config``."""

    rows: int = Field(3, ge=1, le=10, description="Rows of the board.")
    columns: int = Field(3, ge=1, le=10, description="Columns of the board.")
    connect: int = Field(3, ge=2, le=10, description="Stones in a row, a column or a diagonal that win.")

    @model_validator(mode="after")
    def _line_fits(self) -> PhantomConfig:
        check_line(self.connect, self.rows, self.columns)
        return self


class PhantomTicTacToe(HiddenBoards):
    """``num_envs`` games of phantom tic-tac-toe; ``player_0`` has the crosses and begins."""

    config_class = PhantomConfig

    name = "phantom_ttt"
    title = "Phantom tic-tac-toe"

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        self.config = config = PhantomConfig(**env_config)
        self.rows, self.columns = config.rows, config.columns
        wins = in_a_row(config.rows, config.columns, config.connect)
        super().__init__(num_envs, config.version, (wins, wins))

    def _decided(self, env_id: int) -> list[list[int]]:
        lines = all_lines(self.rows, self.columns, self.config.connect)
        stones = self.marks[env_id] == OWN
        full = lines[stones[:, lines].all(axis=2).any(axis=0)]
        # Two lines may be completed by one stone; the first of them is enough for a drawing.
        return places(full[:1].ravel(), self.columns)
