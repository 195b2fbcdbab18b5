"""Connect four: stones fall down their column; four in a row, a column or a diagonal win.

On the usual board of 6 x 7 the first player wins when both play well; on 4 x 4 and on 5 x 4 it is a draw.
"""

from __future__ import annotations

from collections.abc import Mapping
from string import ascii_lowercase
from typing import Any

from pydantic import Field

from marl.data.task import AgentID
from marl.envs.games.boards.lines import FallingStones, LineConfig


class ConnectFourConfig(LineConfig):
    """Keys of ``env_config``."""

    rows: int = Field(6, ge=1, le=10, description="Rows of the board.")
    columns: int = Field(7, ge=1, le=10, description="Columns of the board: as many actions.")
    connect: int = Field(4, ge=2, le=10, description="Stones in a row, a column or a diagonal that win.")


class ConnectFour(FallingStones):
    """``num_envs`` games of connect four."""

    config_class = ConnectFourConfig

    name = "connect_four"
    title = "Connect four"
    style = "holes"

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        config = ConnectFourConfig(**env_config)
        super().__init__(num_envs, config, config.columns)

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        del agent
        return tuple(f"column {letter}" for letter in ascii_lowercase[: self.config.columns])
