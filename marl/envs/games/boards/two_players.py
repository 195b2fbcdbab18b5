"""Board games for two who move in turn: what they share around their own rules.

Nothing in them is random, so trees and merged positions of them are exact. A game keeps as little as decides the rest of the
episode, in a few arrays; whose turn it is, who has won and what may be played follow from these.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from gymnasium import spaces

from marl.data.task import AgentID, AgentType, Array, Bools, Floats, Ints, number_seats
from marl.envs.batched import NativeEnv
from marl.envs.games.cards.dealt import checked_moves, settle, turns

PLAYERS = ("player_0", "player_1")


class TwoPlayerBoards(NativeEnv):
    """``num_envs`` games. Subclasses call ``_seat`` when they are made and name ``over`` among their ``state_arrays``.

    A player sees its number and what ``_known`` says; only the mover is asked. Both are paid at the end.
    """

    deterministic = True
    title: str

    def _seat(self, known_width: int, actions: int) -> None:
        """The players, who see so many numbers and have so many actions."""
        seen = spaces.Box(0, 1, (2 + known_width,), np.float32)
        self.kinds = number_seats([AgentType("player", PLAYERS, seen, spaces.Discrete(actions), masked=True)])
        self.over = np.zeros(self.num_envs, bool)  # follows from the rest; kept because every step asks for it

    @abstractmethod
    def _mover(self) -> Ints:
        """``[E]``: who is to move; means nothing once a game is over."""

    @abstractmethod
    def _legal(self, mover: Ints) -> Bools:
        """``[E, actions]``: what the mover may play."""

    @abstractmethod
    def _move(self, env_ids: Ints, who: Ints, moves: Ints) -> None:
        """Play one legal move in each of these games."""

    @abstractmethod
    def _outcome(self) -> tuple[Floats, Bools]:
        """Payoffs ``[E, 2]``, which count in games that are over, and which are ``[E]``."""

    @abstractmethod
    def _known(self) -> Floats:
        """``[E, 2, known_width]``: what each player knows of the board."""

    def _whole(self, known: Floats) -> Floats:
        """The global state ``[E, state_size]``: what both know together."""
        return known.reshape(self.num_envs, -1)

    def _play(self, actions: Sequence[Array]) -> tuple[Floats, Bools, Bools, Bools]:
        mover = self._mover()
        moves = checked_moves(self, actions, mover, self._legal(mover), self.over)
        going = np.flatnonzero(~self.over)
        self._move(going, mover[going], moves[going])
        payoffs, self.over = self._outcome()
        return settle(payoffs, self.over.copy())

    def _view(self) -> tuple[Sequence[Array], Sequence[Bools], Bools, Floats]:
        known, mover = self._known(), self._mover()
        obs = np.empty((self.num_envs, 2, 2 + known.shape[2]), np.float32)
        obs[:, :, :2] = np.eye(2)
        obs[:, :, 2:] = known
        present = turns(mover, self.over, 2)
        masks = self._legal(mover)[:, None] | ~present[:, :, None]  # those who wait could do anything
        return (obs,), (masks,), present, self._whole(known)

    def _turn(self, env_id: int) -> AgentID | None:
        """Who is to move; nobody once the game is over."""
        if self.over[env_id]:
            return None
        return PLAYERS[self._mover()[env_id]]

    def _next(self, env_id: int) -> str:
        turn = self._turn(env_id)
        return "the game is over" if turn is None else f"{turn} to move"


def zero_sum(won: Bools) -> Floats:
    """``[E, 2]``: 1 for who has won and -1 for the other one; 0 where nobody has."""
    paid: Floats = won.astype(np.float32) - won[:, ::-1]
    return paid
