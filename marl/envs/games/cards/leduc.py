"""Leduc poker (Southey et al., 2005): two rounds of betting around one card on the table.

Three ranks J < Q < K in two suits make six cards. Both players put in 1 and get a card. They fold (0), call (1) or
raise (2) in turn, ``player_0`` first in both rounds; calling where nothing is owed is checking. A raise puts in what
is owed and 2 more in the first round, 4 more in the second; a round has two raises at most, and nobody folds where
nothing is owed. After the first round a third card is turned up. At the end a card of its rank wins, else the higher
rank, and equal ranks split the pot. A reward is what a player wins minus what it put in: up to 13.

Suits are seen but never matter. The value for ``player_0`` is -0.0856064 (Lanctot et al., 2017).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import Any

import numpy as np
from pydantic import Field

from marl.config import Config
from marl.data.task import AgentID, Floats, Ints
from marl.envs.games.cards.betting import RANKS, BettingGames, History, Positions, Rules, positions
from marl.envs.games.cards.hands import SUIT_SIGNS, CardTable, Seat

FOLD, CALL, RAISE = 0, 1, 2
MOVES = ("fold", "call", "raise")
ANTE, RAISE_BY, MOST_RAISES = 1, (2, 4), 2
SUITS = 2
LONGEST = 4  # moves in a round: call, raise, raise, call


class LeducConfig(Config):
    """Keys of ``env_config``."""

    ranks: int = Field(3, ge=2, le=6, description="Ranks in the pack, each in two suits.")


class LeducGames(BettingGames):
    """``num_envs`` games of Leduc poker. Card ``2 * rank + suit``; masks tell the legal moves."""

    config_class = LeducConfig

    name = "leduc_poker"

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        self.config = LeducConfig(**env_config)
        super().__init__(num_envs, _rules(self.config.ranks), masked=True)

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        del agent
        return MOVES

    def render(self, env_id: int) -> str:
        tree, row, deal = self.rules.positions, self.position[env_id], self.deal[env_id]
        course = replay(tree.histories[row])
        names: list[str] = []
        for rank in RANKS[-self.config.ranks :]:
            names += [f"{rank}a", f"{rank}b"]
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
        pot = f"put in: {course.paid[0]} and {course.paid[1]}"
        return f"Leduc poker; cards: {held}; table: {board}; moves: {' / '.join(rounds)}; {pot}; {next_one}"

    def scene(self, env_id: int, viewer: AgentID | None = None) -> Mapping[str, Any]:
        """Cards are shown at the end, unless somebody has folded."""
        tree, row, deal = self.rules.positions, self.position[env_id], self.deal[env_id]
        names: list[str] = []
        for rank in RANKS[-self.config.ranks :]:
            names += [f"{rank}{suit}" for suit in SUIT_SIGNS]
        board: str | None = None
        if self.rules.board_seen[row, 0]:
            board = names[self.rules.board[deal, 0]]
        seats: list[Seat] = []
        for player, card in enumerate(self.rules.cards[deal]):
            seats.append(Seat(f"player_{player}", cards=[names[card]]))
        if tree.over[row]:
            for seat, won in zip(seats, self.rules.payoffs[row, deal].tolist(), strict=True):
                seat.won = won
        return leduc_table(seats, board, replay(tree.histories[row]), bool(tree.over[row])).scene(viewer)


def leduc_table(seats: Sequence[Seat], board: str | None, course: Course, over: bool) -> CardTable:
    """The table after the moves of ``course``; the card in the middle is None until it is turned up."""
    table = CardTable("Leduc poker", seats, over, table=[board], pot=sum(course.paid))
    for moves in course.rounds:
        for turn, move in enumerate(moves):
            table.note(seats[turn % 2], MOVES[move])
    for player, seat in enumerate(seats):
        seat.paid = course.paid[player]
        seat.folded = course.folded == player
    if not over:
        seats[len(course.rounds[course.now]) % 2].turn = True
    table.open_hands = over and course.folded < 0
    return table


@dataclass(frozen=True)
class Course:
    """What the public knows after some moves."""

    rounds: tuple[History, History]
    now: int  # 0 or 1; 2 when both rounds are played
    paid: tuple[int, int]
    folded: int  # the player, or -1


def replay(history: History) -> Course:
    rounds: tuple[list[int], list[int]] = ([], [])
    now = 0
    paid = [ANTE, ANTE]
    folded = -1
    for move in history:
        mover = len(rounds[now]) % 2
        other = 1 - mover
        rounds[now].append(move)
        if move == FOLD:
            folded = mover
        elif move == RAISE:
            paid[mover] = paid[other] + RAISE_BY[now]
        else:
            paid[mover] = paid[other]
            now += len(rounds[now]) > 1  # a first check leaves the round open
    return Course((tuple(rounds[0]), tuple(rounds[1])), now, (paid[0], paid[1]), folded)


def _mover_and_legal(history: History) -> tuple[int, list[int]]:
    course = replay(history)
    if course.folded >= 0 or course.now == 2:
        return 0, []
    moves = course.rounds[course.now]
    legal = [CALL]
    owes = course.paid[0] != course.paid[1]
    if owes:
        legal.insert(0, FOLD)  # nobody folds where checking is free
    if moves.count(RAISE) < MOST_RAISES:
        legal.append(RAISE)
    return len(moves) % 2, legal


@lru_cache
def _rules(ranks: int) -> Rules:
    deals = np.array(list(permutations(range(SUITS * ranks), 3)))
    tree = positions(3, _mover_and_legal)
    courses = [replay(history) for history in tree.histories]
    return Rules(
        positions=tree,
        deal_probabilities=np.full(len(deals), 1 / len(deals)),
        cards=deals[:, :2],
        num_cards=SUITS * ranks,
        board=deals[:, 2:],
        board_seen=np.array([[course.now > 0] for course in courses]),
        moves_seen=_moves_seen(tree),
        payoffs=np.array([_payoffs(course, deals // SUITS) for course in courses]),
    )


def _moves_seen(tree: Positions) -> Floats:
    """``[P, 2 rounds * 4 moves * 2]``: whether each move was a call or a raise; a fold ends the game."""
    seen = np.zeros((len(tree.histories), 2, LONGEST, 2), np.float32)
    for row, history in enumerate(tree.histories):
        for number, moves in enumerate(replay(history).rounds):
            for turn, move in enumerate(moves):
                if move != FOLD:
                    seen[row, number, turn, move - CALL] = 1.0
    return seen.reshape(len(seen), -1)


def _payoffs(course: Course, ranks: Ints) -> Floats:
    """``[D, 2]``: the winner gets what the other one put in."""
    pairs = ranks[:, :2] == ranks[:, 2:]
    strength = ranks[:, :2] + 100 * pairs  # a pair with the card on the table beats any rank
    better = np.sign(strength[:, 0] - strength[:, 1])  # 1: player_0 wins, 0: a draw
    if course.folded == 0:
        better = np.full(len(ranks), -1)
    if course.folded == 1:
        better = np.full(len(ranks), 1)
    won = better * np.where(better > 0, course.paid[1], course.paid[0])
    return np.stack([won, -won], axis=1).astype(np.float32)
