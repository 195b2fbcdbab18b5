"""Kuhn poker (Kuhn, 1950): the smallest poker in which bluffing pays.

Three cards J < Q < K; everybody puts in 1 and gets a card. In turn, starting with ``player_0``, each may pass (0) or
bet 1 more (1). After a bet each of the others passes, which is giving up, or bets, which is following, and the game is
over; it is also over when all have passed. The highest card among those who bet, or among all if nobody did, takes
the pot. A player's reward is what it wins minus what it put in: -2, -1, 1 or 2 with two players.

With two players the value for ``player_0`` is -1/18. It has a family of optimal strategies, one for each chance
``a`` of 0 to 1/3 to bet the jack: then it bets the king with chance ``3 a``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import permutations
from typing import Any

import numpy as np
from pydantic import Field

from marl.config import Config
from marl.data.task import AgentID, Floats
from marl.envs.games.cards.betting import RANKS, BettingGames, History, Positions, Rules, positions
from marl.envs.games.cards.hands import CardTable, Seat

PASS, BET = 0, 1
MOVES = ("pass", "bet")


class KuhnConfig(Config):
    """Keys of ``env_config``."""

    players: int = Field(2, ge=2, le=5, description="Players; there is one card more than players.")


class KuhnGames(BettingGames):
    """``num_envs`` games of Kuhn poker. Passing and betting are always legal."""

    config_class = KuhnConfig

    name = "kuhn_poker"

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        self.config = KuhnConfig(**env_config)
        super().__init__(num_envs, _rules(self.config.players), masked=False)

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        del agent
        return MOVES

    def render(self, env_id: int) -> str:
        tree, row = self.rules.positions, self.position[env_id]
        names = RANKS[-self.rules.num_cards :]
        cards = self.rules.cards[self.deal[env_id]]
        held = ", ".join(f"player_{i} {names[card]}" for i, card in enumerate(cards))
        moves = ", ".join(MOVES[move] for move in tree.histories[row]) or "none"
        next_one = f"player_{tree.mover[row]} to move"
        if tree.over[row]:
            next_one = "the game is over"
        return f"Kuhn poker; cards: {held}; moves: {moves}; {next_one}"

    def scene(self, env_id: int, viewer: AgentID | None = None) -> Mapping[str, Any]:
        """Cards are shown at the end, unless somebody gave up after a bet."""
        tree, row, deal = self.rules.positions, self.position[env_id], self.deal[env_id]
        cards = [RANKS[-self.rules.num_cards :][card] for card in self.rules.cards[deal]]
        payoffs = self.rules.payoffs(row, deal).tolist()
        return kuhn_table(cards, tree.histories[row], payoffs if tree.over[row] else None).scene(viewer)


def kuhn_table(cards: Sequence[str], history: History, payoffs: Sequence[float] | None) -> CardTable:
    """The table after some moves; ``payoffs``: who has won what, once it is over."""
    seats = [Seat(f"player_{player}", cards=[card], paid=1) for player, card in enumerate(cards)]
    table = CardTable("Kuhn poker", seats, over=payoffs is not None)
    for turn, move in enumerate(history):
        seat = seats[turn % len(seats)]
        bets = move == BET
        seat.folded = BET in history[:turn] and not bets  # passing after a bet is giving up
        seat.paid = 1 + bets
        table.note(seat, MOVES[move])
    table.pot = len(seats) + history.count(BET)
    if payoffs is None:
        seats[len(history) % len(seats)].turn = True
        return table
    for seat, won in zip(seats, payoffs, strict=True):
        seat.won = won
    in_play = [seat for seat in seats if not seat.folded]
    table.open_hands = len(in_play) > 1
    return table


@lru_cache
def _rules(players: int) -> Rules:
    cards = np.array(list(permutations(range(players + 1), players)))
    tree = positions(2, lambda history: _mover_and_legal(history, players))
    bets = np.array([_bets(history, players) for history in tree.histories])
    return Rules(
        positions=tree,
        deal_probabilities=np.full(len(cards), 1 / len(cards)),
        cards=cards,
        num_cards=players + 1,
        board=np.zeros((len(cards), 0), np.int64),
        board_seen=np.zeros((len(tree.histories), 0), bool),
        moves_seen=_moves_seen(tree, 2 * players - 1),
        paid=1 + bets,
        claims=bets | ~bets.any(axis=1, keepdims=True),  # where all have passed, all of them show their cards
        strength=cards,
    )


def _mover_and_legal(history: History, players: int) -> tuple[int, tuple[int, ...]]:
    first_bet = 0
    if BET in history:  # then each of the others answers once
        first_bet = history.index(BET)
    mover = len(history) % players
    over = len(history) == first_bet + players
    return mover, () if over else (PASS, BET)


def _moves_seen(tree: Positions, longest: int) -> Floats:
    """``[P, longest * 2]``: for every turn whether it was a pass or a bet; turns go round, so this tells who moved."""
    seen = np.zeros((len(tree.histories), longest, 2), np.float32)
    for row, history in enumerate(tree.histories):
        seen[row, np.arange(len(history)), history] = 1.0
    return seen.reshape(len(seen), -1)


def _bets(history: History, players: int) -> list[bool]:
    """Which players have bet."""
    bet = [False] * players
    for turn, move in enumerate(history):
        if move == BET:
            bet[turn % players] = True
    return bet
