"""What a user's own module may hold, for tests that allow it."""

from __future__ import annotations

import os as os
from collections.abc import Mapping
from typing import Any

from marl.envs.games.matrix import MatrixGames
from marl.training.trainer import Trainer as Trainer

HOOKS = {"on_train_result": print}


class Game(MatrixGames):
    """An env of the user's own."""

    class Inner(MatrixGames):
        """One inside of a class."""


def make(config: Mapping[str, Any]) -> MatrixGames:
    return MatrixGames(1, config)


def first_policy(agent: str) -> str:
    del agent
    return "default_policy"
