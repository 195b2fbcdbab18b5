"""Dark hex: the game of Hex without seeing the other one's stones (``hidden.py`` says how moves fail).

Cells are hexagons; each row is shifted by half a cell to the right, so a cell touches two above, two below and two beside it.
``player_0`` joins the top to the bottom, ``player_1`` the left to the right. Exactly one of them has done so when the board is
full, so there are no draws. Uniform play of both on 2 x 2 has the NashConv 1.25, in the abrupt version 5/6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pydantic import Field

from marl.envs.games.boards.drawing import places
from marl.envs.games.boards.hidden import OWN, HiddenBoards, HiddenConfig
from marl.envs.games.boards.winning import edge_to_edge


class DarkHexConfig(HiddenConfig):
    """Keys of ``env_config``."""

    rows: int = Field(3, ge=1, le=11, description="Rows of the board; player_0 joins the first to the last.")
    columns: int = Field(3, ge=1, le=11, description="Columns of the board; player_1 joins the first to the last.")


class DarkHex(HiddenBoards):
    """``num_envs`` games of dark hex; ``player_0`` begins."""

    config_class = DarkHexConfig

    name = "dark_hex"
    title = "Dark hex"

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        self.config = config = DarkHexConfig(**env_config)
        self.rows, self.columns = config.rows, config.columns
        downwards = edge_to_edge(config.rows, config.columns, upright=True)
        across = edge_to_edge(config.rows, config.columns, upright=False)
        super().__init__(num_envs, config.version, (downwards, across))

    def _decided(self, env_id: int) -> list[list[int]]:
        """All stones of the winner: which of them the chain needs is no rule of the game."""
        won = self._won()[env_id]
        stones = (self.marks[env_id] == OWN) & won[:, None]
        return places(np.flatnonzero(stones.any(axis=0)), self.columns)
