"""The built-in games, under their names."""

from __future__ import annotations

from marl.envs.games.matrix import MatrixGames
from marl.envs.games.traffic import TrafficGames
from marl.envs.games.two_step import TwoStepGames
from marl.envs.registry import register_env

register_env("two_step_game", TwoStepGames)
register_env("matrix_game", MatrixGames)
register_env("traffic", TrafficGames)
