"""Leduc poker (Southey et al., 2005): two rounds of betting around one card on the table.

Three ranks J < Q < K in two suits make six cards. Both players put in 1 and get a card. They fold (0), call (1) or
raise (2) in turn, ``player_0`` first in both rounds; calling where nothing is owed is checking. A raise puts in what
is owed and 2 more in the first round, 4 more in the second; a round has two raises at most, and nobody folds where
nothing is owed. After the first round a third card is turned up. At the end a card of its rank wins, else the higher
rank, and equal ranks split the pot. A reward is what a player wins minus what it put in: up to 13.

Suits are seen but never matter; with ``suit_isomorphism`` they are not seen. The value for ``player_0`` is -0.0856064
(Lanctot et al., 2017). With three or four players the game goes on among those who have not folded; as in OpenSpiel
the pack should then have one rank more than players.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import permutations
from typing import Any

import numpy as np
from pydantic import Field, model_validator

from marl.config import Config
from marl.data.task import AgentID, Floats
from marl.envs.games.cards.betting import RANKS, BettingGames, History, Rules, positions
from marl.envs.games.cards.hands import SUIT_SIGNS, CardTable, Seat
from marl.envs.games.cards.leduc_course import CALL, FOLD, Course, longest_round, replay

MOVES = ("fold", "call", "raise")
SUITS = 2
PAIR = 100  # stronger than any rank


class LeducConfig(Config):
    """Keys of ``env_config``."""

    ranks: int = Field(3, ge=2, le=6, description="Ranks in the pack, each in two suits.")
    players: int = Field(2, ge=2, le=4, description="Players. OpenSpiel has one rank more than players.")
    suit_isomorphism: bool = Field(False, description="Suits are not seen: cards of one rank look alike.")

    @model_validator(mode="after")
    def _the_pack_suffices(self) -> LeducConfig:
        if SUITS * self.ranks < self.players + 1:
            raise ValueError(
                f"ranks = {self.ranks} make {SUITS * self.ranks} cards; {self.players} players and the table need "
                f"{self.players + 1}. Take more ranks"
            )
        return self


class LeducGames(BettingGames):
    """``num_envs`` games of Leduc poker. Card ``2 * rank + suit``, or the rank alone; masks tell the legal moves."""

    config_class = LeducConfig

    name = "leduc_poker"

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        self.config = LeducConfig(**env_config)
        rules = _rules(self.config.ranks, self.config.players, self.config.suit_isomorphism)
        super().__init__(num_envs, rules, masked=True)

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        del agent
        return MOVES

    def card_names(self, suits: Sequence[str]) -> list[str]:
        """Of all cards, by their numbers."""
        ranks = RANKS[-self.config.ranks :]
        if self.config.suit_isomorphism:
            return list(ranks)
        names: list[str] = []
        for rank in ranks:
            names += [f"{rank}{suit}" for suit in suits]
        return names

    def render(self, env_id: int) -> str:
        tree, row, deal = self.rules.positions, self.position[env_id], self.deal[env_id]
        course = replay(tree.histories[row], self.players)
        names = self.card_names(("a", "b"))
        held = ", ".join(f"player_{i} {names[card]}" for i, card in enumerate(self.rules.cards[deal]))
        board = "hidden"
        if self.rules.board_seen[row, 0]:
            board = names[self.rules.board[deal, 0]]
        rounds: list[str] = []
        for moves in course.rounds:
            rounds.append(", ".join(MOVES[m] for m in moves) or "none")
        next_one = f"player_{tree.mover[row]} to move"
        if tree.over[row]:
            next_one = "the game is over"
        pot = f"put in: {' and '.join(map(str, course.paid))}"
        return f"Leduc poker; cards: {held}; table: {board}; moves: {' / '.join(rounds)}; {pot}; {next_one}"

    def scene(self, env_id: int, viewer: AgentID | None = None) -> Mapping[str, Any]:
        """Cards of those who have not folded are shown at the end, unless only one is left."""
        tree, row, deal = self.rules.positions, self.position[env_id], self.deal[env_id]
        names = self.card_names(SUIT_SIGNS)
        board: str | None = None
        if self.rules.board_seen[row, 0]:
            board = names[self.rules.board[deal, 0]]
        seats: list[Seat] = []
        for player, card in enumerate(self.rules.cards[deal]):
            seats.append(Seat(f"player_{player}", cards=[names[card]]))
        if tree.over[row]:
            for seat, won in zip(seats, self.rules.payoffs(row, deal).tolist(), strict=True):
                seat.won = won
        return leduc_table(seats, board, replay(tree.histories[row], self.players)).scene(viewer)


def leduc_table(seats: Sequence[Seat], board: str | None, course: Course) -> CardTable:
    """The table after the moves of ``course``; the card in the middle is None until it is turned up."""
    table = CardTable("Leduc poker", seats, course.over, table=[board], pot=sum(course.paid))
    moves = [*course.rounds[0], *course.rounds[1]]
    for mover, move in zip(course.movers, moves, strict=True):
        table.note(seats[mover], MOVES[move])
    for player, seat in enumerate(seats):
        seat.paid = course.paid[player]
        seat.folded = course.folded[player]
    if not course.over:
        seats[course.mover].turn = True
    table.open_hands = course.over and course.staying > 1
    return table


def _mover_and_legal(history: History, players: int) -> tuple[int, list[int]]:
    course = replay(history, players)
    return course.mover, course.legal()


@lru_cache
def _rules(ranks: int, players: int, suit_isomorphism: bool) -> Rules:
    deals = np.array(list(permutations(range(SUITS * ranks), players + 1)))
    chances = np.full(len(deals), 1 / len(deals))
    deal_ranks, num_cards = deals // SUITS, SUITS * ranks
    if suit_isomorphism:  # deals that look alike become one
        deals, counts = np.unique(deal_ranks, axis=0, return_counts=True)
        deal_ranks, num_cards = deals, ranks
        chances = counts / counts.sum()
    tree = positions(3, lambda history: _mover_and_legal(history, players))
    courses = [replay(history, players) for history in tree.histories]
    pairs = deal_ranks[:, :players] == deal_ranks[:, players:]
    return Rules(
        positions=tree,
        deal_probabilities=chances,
        cards=deals[:, :players],
        num_cards=num_cards,
        board=deals[:, players:],
        board_seen=np.array([[course.now > 0] for course in courses]),
        moves_seen=_moves_seen(courses, players),
        paid=np.array([course.paid for course in courses]),
        claims=~np.array([course.folded for course in courses]),
        strength=deal_ranks[:, :players] + PAIR * pairs,
    )


def _moves_seen(courses: Sequence[Course], players: int) -> Floats:
    """``[P, 2 rounds * moves * kinds of moves]``. Of two players a fold ends the game, so it is never seen."""
    first_kind = CALL if players == 2 else FOLD
    seen = np.zeros((len(courses), 2, longest_round(players), len(MOVES) - first_kind), np.float32)
    for row, course in enumerate(courses):
        for number, moves in enumerate(course.rounds):
            for turn, move in enumerate(moves):
                if move >= first_kind:
                    seen[row, number, turn, move - first_kind] = 1.0
    return seen.reshape(len(seen), -1)
