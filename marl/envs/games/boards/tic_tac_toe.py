"""Tic-tac-toe: three in a row on nine cells. Played well by both it is a draw."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marl.data.task import AgentID
from marl.envs.games.boards.drawing import cell_names
from marl.envs.games.boards.lines import FreeCells, LineConfig


class TicTacToeConfig(LineConfig):
    """Keys of ``env_config``."""


class TicTacToe(FreeCells):
    """``num_envs`` games of tic-tac-toe."""

    config_class = TicTacToeConfig

    name = "tic_tac_toe"
    title = "Tic-tac-toe"

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        config = TicTacToeConfig(**env_config)
        super().__init__(num_envs, config, config.rows * config.columns)

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        del agent
        return cell_names(self.config.rows, self.config.columns)
