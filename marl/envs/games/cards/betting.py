"""Card games whose public course is a small tree, played by table look-up.

A *position* is a sequence of moves that all players have seen. Tables say who moves there, what is legal, which
position a move leads to, what is in the pot and who can win it, and how strong everybody's cards are in every deal. An
env is then two numbers, its deal and its position, and a step of all envs is ``position = child[position, move]``.

A player sees which player it is, its own card, the cards on the table and all moves so far. Two such observations are
equal exactly where the player cannot tell the situations apart and remembers everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from marl.data.task import AgentType, Array, Bools, Floats, Ints, number_seats
from marl.envs.games.cards.dealt import DealtEnv, settle, turns

History: TypeAlias = tuple[int, ...]
"""Moves since the start of the episode."""
RANKS = ("8", "9", "10", "J", "Q", "K")
"""Names of the ranks; a game with three ranks takes the last three."""


@dataclass(frozen=True)
class Positions:
    """The public tree. Row 0 is the start; ``mover`` is 0 and ``child`` the row itself where the game is over."""

    histories: tuple[History, ...]
    mover: Ints  # [P]
    legal: Bools  # [P, actions]
    child: Ints  # [P, actions]
    over: Bools  # [P]


def positions(num_actions: int, mover_and_legal: Callable[[History], tuple[int, Sequence[int]]]) -> Positions:
    """All positions that legal moves lead to; where nothing is legal the game is over."""
    histories: list[History] = [()]
    movers, legals, children = [], [], []
    for row, history in enumerate(histories):  # grows while it is walked: breadth first
        mover, legal = mover_and_legal(history)
        allowed, child = np.zeros(num_actions, bool), np.full(num_actions, row)
        for action in legal:
            allowed[action], child[action] = True, len(histories)
            histories.append((*history, action))
        movers.append(mover if legal else 0)
        legals.append(allowed)
        children.append(child)
    over = np.array([not allowed.any() for allowed in legals])
    return Positions(tuple(histories), np.array(movers), np.array(legals), np.array(children), over)


@dataclass(frozen=True)
class Rules:
    """A card game in tables: ``D`` deals, ``P`` positions, ``n`` players."""

    positions: Positions
    deal_probabilities: NDArray[np.float64]  # [D]
    cards: Ints  # [D, n]: who holds which card
    num_cards: int
    board: Ints  # [D, cards that may be turned up]
    board_seen: Bools  # [P, cards that may be turned up]
    moves_seen: Floats  # [P, width]: the moves so far
    paid: Ints  # [P, n]: into the pot
    claims: Bools  # [P, n]: who can still win it
    strength: Ints  # [D, n]: of what they hold, with the table

    def payoffs(self, position: Ints, deal: Ints) -> Floats:
        """``[..., n]``: what each player wins less what it put in; means nothing where the game goes on.

        Computed where games end: a table by positions and deals would be large with three players.
        """
        paid = self.paid[position]
        held = np.where(self.claims[position], self.strength[deal], -1)
        best = held == held.max(axis=-1, keepdims=True)
        pot = paid.sum(axis=-1, keepdims=True)
        share = best * pot / best.sum(axis=-1, keepdims=True)
        won: Floats = (share - paid).astype(np.float32)
        return won


class BettingGames(DealtEnv):
    """``num_envs`` copies of one card game. Global state: all cards held, the cards on the table, the moves."""

    state_arrays = ("deal", "position")

    def __init__(self, num_envs: int, rules: Rules, masked: bool) -> None:
        self.num_envs, self.rules = num_envs, rules
        self.deal_probabilities = rules.deal_probabilities
        self.deal, self.position = np.zeros((2, num_envs), np.int64)
        self.players = rules.cards.shape[1]
        one_hot = np.eye(rules.num_cards, dtype=np.float32)
        self._hands, self._boards = one_hot[rules.cards], one_hot[rules.board]  # [D, n, cards], [D, board, cards]
        self._who = np.eye(self.players, dtype=np.float32)
        public = rules.board.shape[1] * rules.num_cards + rules.moves_seen.shape[1]
        self.state_size = self.players * rules.num_cards + public
        seen = spaces.Box(0, 1, (self.players + rules.num_cards + public,), np.float32)
        moves = spaces.Discrete(rules.positions.legal.shape[1])
        agents = tuple(f"player_{i}" for i in range(self.players))
        self.kinds = number_seats([AgentType("player", agents, seen, moves, masked)])

    def _begin(self, env_ids: Ints) -> None:
        self.position[env_ids] = 0

    def _play(self, actions: Sequence[Array]) -> tuple[Floats, Bools, Bools, Bools]:
        tree, before = self.rules.positions, self.position
        moves = self._moves(actions, tree.mover[before], tree.legal[before], tree.over[before])
        self.position = np.where(tree.over[before], before, tree.child[before, moves])
        return settle(self.rules.payoffs(self.position, self.deal), tree.over[self.position])

    def _view(self) -> tuple[Sequence[Array], Sequence[Bools], Bools, Floats]:
        tree, rows, env_ids = self.rules.positions, self.position, self.num_envs
        hands = self._hands[self.deal]
        board = self._boards[self.deal] * self.rules.board_seen[rows][:, :, None]
        public = np.concatenate([board.reshape(env_ids, -1), self.rules.moves_seen[rows]], axis=1)
        who = np.broadcast_to(self._who, (env_ids, *self._who.shape))
        shown = np.broadcast_to(public[:, None], (env_ids, self.players, public.shape[1]))
        obs = np.concatenate([who, hands, shown], axis=2)
        state = np.concatenate([hands.reshape(env_ids, -1), public], axis=1)
        present = turns(tree.mover[rows], tree.over[rows], self.players)
        return (obs,), (self._masks(tree.legal[rows], present),), present, state

    def _masks(self, legal: Bools, present: Bools) -> Bools:
        """Of the player to move; those who wait could do anything."""
        if not self.kinds[0].masked:
            return np.ones((self.num_envs, self.players, 0), bool)
        return legal[:, None] | ~present[:, :, None]
