"""Nim: take as many matches as you like from one pile; who takes the last one wins.

In the *misère* form who takes the last one loses. Bouton (1901): in the normal form the player to move wins exactly where
the exclusive or of the piles is not 0; in the misère form too, unless no pile holds more than one match: then it wins
exactly where their number is even.

Action ``(taken - 1) * piles + pile`` takes ``taken`` matches from a pile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

import numpy as np
from pydantic import Field

from marl.config import Config
from marl.data.task import AgentID, Bools, Floats, Ints
from marl.envs.games.boards.drawing import Cells, board_scene
from marl.envs.games.boards.two_players import TwoPlayerBoards, zero_sum

MATCH = "●"
Matches: TypeAlias = Annotated[int, Field(ge=1, le=20)]


class NimConfig(Config):
    """Keys of ``env_config``."""

    piles: list[Matches] = Field([1, 3, 5, 7], min_length=1, max_length=10, description="Matches in each pile.")
    misere: bool = Field(False, description="Who takes the last match loses instead of winning.")


class Nim(TwoPlayerBoards):
    """``num_envs`` games of nim. Both see all piles, one-hot. Global state: the piles and who is to move."""

    config_class = NimConfig

    name = "nim"
    title = "Nim"
    state_arrays = ("left", "turn", "over")

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        self.num_envs, self.config = num_envs, NimConfig(**env_config)
        self.piles = np.array(self.config.piles)
        self.most = int(self.piles.max())
        self.sizes = np.concatenate([np.arange(pile + 1) for pile in self.piles])  # every size of every pile
        self.state_size = len(self.sizes) + 2
        self._seat(len(self.sizes), self.most * len(self.piles))
        self.left = np.tile(self.piles, (num_envs, 1))
        self.turn = np.zeros(num_envs, np.int64)

    def _start(self, env_ids: Ints, seeds: Ints) -> None:
        del seeds
        self.left[env_ids] = self.piles
        self.turn[env_ids] = 0
        self.over[env_ids] = False

    def _mover(self) -> Ints:
        return self.turn

    def _legal(self, mover: Ints) -> Bools:
        del mover
        enough: Bools = self.left[:, None] > np.arange(self.most)[:, None]  # [E, taken, piles]
        return enough.reshape(self.num_envs, -1)

    def _move(self, env_ids: Ints, who: Ints, moves: Ints) -> None:
        taken, pile = np.divmod(moves, len(self.piles))
        self.left[env_ids, pile] -= taken + 1
        self.turn[env_ids] = 1 - who

    def _outcome(self) -> tuple[Floats, Bools]:
        empty = self.left.sum(axis=1) == 0
        # Who would be next took no last match: it has won where the last one loses.
        winner = self.turn if self.config.misere else 1 - self.turn
        won = empty[:, None] & (winner[:, None] == (0, 1))
        return zero_sum(won), empty

    def _known(self) -> Floats:
        shown = np.repeat(self.left, self.piles + 1, axis=1) == self.sizes
        known: Floats = np.repeat(shown[:, None].astype(np.float32), 2, axis=1)
        return known

    def _whole(self, known: Floats) -> Floats:
        who = np.eye(2, dtype=np.float32)[self.turn]
        return np.concatenate([known[:, 0], who], axis=1)

    def scene(self, env_id: int, viewer: AgentID | None = None) -> Mapping[str, Any]:
        """A row per pile. A click takes the match that it hits and all to the right of it."""
        cells: Cells = []
        actions: dict[str, int] = {}
        turn, piles = self._turn(env_id), len(self.piles)
        may_click = turn is not None and viewer in (None, turn)
        for pile, left in enumerate(self.left[env_id].tolist()):
            cells.append([MATCH] * left + [None] * (self.most - left))
            for column in range(left if may_click else 0):
                actions[f"{pile},{column}"] = (left - column - 1) * piles + pile
        return board_scene(self.title, cells, turn, line=[], actions=actions)

    def render(self, env_id: int) -> str:
        piles = " ".join(map(str, self.left[env_id]))
        return f"{self.title}; piles: {piles}; {self._next(env_id)}"

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        del agent
        names: list[str] = []
        for taken in range(1, self.most + 1):
            names += [f"take {taken} from pile {pile + 1}" for pile in range(len(self.piles))]
        return tuple(names)
