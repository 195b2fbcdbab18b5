"""Liar's dice: bid on what all hidden dice show together, or call the last bid a lie.

Each player rolls ``dice`` dice and sees only its own. A bid ``quantity x face`` claims that at least so many of
all dice show that face; the highest face is wild and counts as every face. ``player_0`` begins; every bid must be
higher than the last one, in quantity or, at the same quantity, in face. Instead of bidding a player may call *liar*,
which ends the game: where the last bid is true its bidder gets 1 and the caller -1, else the other way round. With
more than two players the others get nothing.

Action ``(quantity - 1) * sides + face - 1`` is a bid, the action after the highest bid is *liar*. A deal is a hand for
each player; for two, ``deal = hand_0 * hands + hand_1``. A hand is a multiset: with ``c_f`` dice on face ``f`` it has
the probability

    dice! / (c_1! * ... * c_sides!) / sides^dice

Bids only ever rise and the players take turns, so the set of bids that were made tells their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, reduce
from itertools import combinations_with_replacement
from math import comb, factorial, prod
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pydantic import Field, model_validator

from marl.config import Config
from marl.data.task import AgentID, AgentType, Array, Bools, Floats, Ints, number_seats
from marl.envs.games.cards.dealt import DealtEnv, settle, turns
from marl.envs.games.cards.hands import CardTable, Seat

MOST_DEALS = 1_000_000


class LiarsDiceConfig(Config):
    """Keys of ``env_config``."""

    dice: int = Field(1, ge=1, le=5, description="Dice of each player.")
    sides: int = Field(6, ge=2, le=8, description="Faces of a die; the highest one is wild.")
    players: int = Field(2, ge=2, le=4, description="Players.")

    @model_validator(mode="after")
    def _deals_can_be_listed(self) -> LiarsDiceConfig:
        deals = comb(self.sides + self.dice - 1, self.dice) ** self.players
        if deals > MOST_DEALS:
            raise ValueError(
                f"players = {self.players} with dice = {self.dice} of sides = {self.sides} have {deals:,} deals, more than "
                f"the {MOST_DEALS:,} that are listed. Take fewer players, dice or sides."
            )
        return self


class LiarsDiceGames(DealtEnv):
    """``num_envs`` games. A player sees its number, the share of its dice on each face, and who bid what.

    Global state: the shares of all players and who bid what.
    """

    config_class = LiarsDiceConfig

    name = "liars_dice"
    state_arrays = ("deal", "bids", "called")

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        self.num_envs = num_envs
        self.config = LiarsDiceConfig(**env_config)
        dice, self.sides, self.players = self.config.dice, self.config.sides, self.config.players
        # A deal is a hand for each. Hands are counts of faces: in which order the dice lie tells nobody anything.
        self.hands, chances = all_hands(dice, self.sides)
        self.deal_probabilities = reduce(np.outer, [chances] * self.players).ravel()
        self.num_bids = self.players * dice * self.sides
        self.state_size = self.players * (self.sides + self.num_bids)
        seen = spaces.Box(0, 1, (self.players + self.sides + self.players * self.num_bids,), np.float32)
        actions = spaces.Discrete(self.num_bids + 1)
        agents = tuple(f"player_{i}" for i in range(self.players))
        self.kinds = number_seats([AgentType("player", agents, seen, actions, masked=True)])
        self.deal = np.zeros(num_envs, np.int64)
        self.bids = np.zeros((num_envs, self.players, self.num_bids), bool)  # by player
        self.called = np.zeros(num_envs, bool)

    def _begin(self, env_ids: Ints) -> None:
        self.bids[env_ids] = False
        self.called[env_ids] = False

    def _play(self, actions: Sequence[Array]) -> tuple[Floats, Bools, Bools, Bools]:
        mover, last = self._mover(), self._last_bid()
        moves = self._moves(actions, mover, self._legal(last), self.called)
        bidding = np.flatnonzero(~self.called & (moves < self.num_bids))
        self.bids[bidding, mover[bidding], moves[bidding]] = True
        self.called = self.called | (moves == self.num_bids)
        return settle(self._payoffs(mover, last), self.called.copy())

    def _payoffs(self, caller: Ints, last: Ints) -> Floats:
        """``[E, n]``: if *liar* was called on the last bid, one of caller and bidder wins and the other one loses."""
        env_ids, bidder = np.arange(self.num_envs), (caller - 1) % self.players
        won = np.where(self._is_true(last), -1, 1).astype(np.float32)  # for the caller
        payoffs = np.zeros((self.num_envs, self.players), np.float32)
        payoffs[env_ids, caller] = won
        payoffs[env_ids, bidder] = -won
        return payoffs

    def _mover(self) -> Ints:
        """Who bids or calls next; once *liar* was called, who called."""
        mover: Ints = self.bids.sum(axis=(1, 2)) % self.players
        return mover

    def _last_bid(self) -> Ints:
        """The highest bid, or -1 at the start."""
        made = self.bids.any(axis=1)
        highest: Ints = (made * np.arange(1, self.num_bids + 1)).max(axis=1) - 1
        return highest

    def _legal(self, last: Ints) -> Bools:
        higher = np.arange(self.num_bids) > last[:, None]
        return np.concatenate([higher, last[:, None] >= 0], axis=1)

    def _is_true(self, bid: Ints) -> Bools:
        """Whether the dice bear out a bid; wild dice count once where the wild face itself is bid."""
        quantity, face = bid // self.sides + 1, bid % self.sides
        shown = self._counts().sum(axis=1)
        env_ids, wild = np.arange(self.num_envs), self.sides - 1
        true: Bools = shown[env_ids, face] + np.where(face == wild, 0, shown[:, wild]) >= quantity
        return true

    def _counts(self) -> Ints:
        """``[E, n, sides]``: how many dice of each player show each face."""
        held = np.unravel_index(self.deal, (len(self.hands),) * self.players)
        counts: Ints = self.hands[np.stack(held, axis=1)]
        return counts

    def _view(self) -> tuple[Sequence[Array], Sequence[Bools], Bools, Floats]:
        env_ids, players, mover = self.num_envs, self.players, self._mover()
        shares = (self._counts() / self.config.dice).astype(np.float32)
        made = self.bids.reshape(env_ids, -1).astype(np.float32)
        who = np.broadcast_to(np.eye(players, dtype=np.float32), (env_ids, players, players))
        obs = np.concatenate([who, shares, np.broadcast_to(made[:, None], (env_ids, players, made.shape[1]))], axis=2)
        present = turns(mover, self.called, players)
        masks = self._legal(self._last_bid())[:, None] | ~present[:, :, None]
        return (obs,), (masks,), present, np.concatenate([shares.reshape(env_ids, -1), made], axis=1)

    def render(self, env_id: int) -> str:
        faces = [np.repeat(np.arange(1, self.sides + 1), counts) for counts in self._counts()[env_id]]
        dice = ", ".join(f"player_{i} {' '.join(map(str, shown))}" for i, shown in enumerate(faces))
        made = np.flatnonzero(self.bids[env_id].any(axis=0))
        bids = ", ".join(f"{bid // self.sides + 1} x {bid % self.sides + 1}" for bid in made)
        mover = self._mover()[env_id]
        next_one = f"player_{mover} to move"
        if self.called[env_id]:
            next_one = f"player_{mover} called liar"
        return f"Liar's dice; dice: {dice}; bids: {bids or 'none'}; {next_one}"

    def scene(self, env_id: int, viewer: AgentID | None = None) -> Mapping[str, Any]:
        """Dice are hidden under their cups until somebody is called a liar."""
        seats: list[Seat] = []
        for player, counts in enumerate(self._counts()[env_id]):
            dice = np.repeat(np.arange(1, self.sides + 1), counts).tolist()
            seats.append(Seat(f"player_{player}", dice=dice))
        called = bool(self.called[env_id])
        table = CardTable("Liar's dice", seats, over=called, open_hands=called)
        for bid in np.flatnonzero(self.bids[env_id].any(axis=0)).tolist():
            bidder = int(self.bids[env_id, :, bid].argmax())
            table.note(seats[bidder], f"{bid // self.sides + 1} × {bid % self.sides + 1}")
        mover = int(self._mover()[env_id])
        if called:
            table.note(seats[mover], "liar!")
            paid = self._payoffs(self._mover(), self._last_bid())[env_id]
            for seat, won in zip(seats, paid.tolist(), strict=True):
                seat.won = won
        else:
            seats[mover].turn = True
        return table.scene(viewer)

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        del agent
        bids = [f"{bid // self.sides + 1} x {bid % self.sides + 1}" for bid in range(self.num_bids)]
        return (*bids, "liar")


@lru_cache
def all_hands(dice: int, sides: int) -> tuple[Ints, NDArray[np.float64]]:
    """Every multiset of faces as counts ``[hands, sides]``, and its probability."""
    hands: list[list[int]] = []
    ways: list[int] = []
    for roll in combinations_with_replacement(range(sides), dice):
        counts = [roll.count(face) for face in range(sides)]
        hands.append(counts)
        # Multinomial: so many orders of the dice show these counts.
        ways.append(factorial(dice) // prod(map(factorial, counts)))
    return np.array(hands), np.array(ways) / sides**dice
