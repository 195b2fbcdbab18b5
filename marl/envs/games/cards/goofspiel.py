"""Goofspiel (Ross, 1971), the game of pure strategy: everybody bids cards for prizes at the same time.

Each player holds the cards 1 to ``cards``, and a pack with the same numbers lies on the table. Its next card is turned up,
the *prize*; all players choose a card of their hand at once. The highest card takes the prize and its points; where several
are highest nobody takes it. Bids are gone. The last cards are played by themselves, for nobody has a choice then. Whoever has
most points wins. The prizes come in random order, rising or falling.

Open bids are seen by everybody after each round. With ``imp_info`` the players learn only who took the prize.

Action ``a`` bids the card ``a + 1``. A *deal* is an order of the prizes, so there are ``cards!`` of them in random order and
one otherwise. What a player sees with ``history`` is the information state: all prizes so far and who bid what in which
round, or with ``imp_info`` its own bids and who won which round. Without ``history`` it is the present alone: the hands that
are open, the prize, the prizes to come and everybody's points. Where bids are open nothing else matters, and far fewer
positions are different.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import permutations
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from pydantic import Field, model_validator

from marl.config import Config
from marl.data.task import AgentID, AgentType, Array, Bools, Floats, Ints, number_seats
from marl.envs.games.cards.dealt import DealtEnv, settle
from marl.envs.games.cards.goofspiel_returns import RETURNS
from marl.envs.games.cards.goofspiel_scene import goofspiel_table

NOT_YET = -1
MOST_SHUFFLED = 8  # cards; 8! = 40,320 orders can still be listed


class GoofspielConfig(Config):
    """Keys of ``env_config``."""

    cards: int = Field(4, ge=2, le=13, description="Cards of each player, and prizes. At most 8 in random order.")
    players: int = Field(2, ge=2, le=5, description="Players.")
    imp_info: bool = Field(False, description="Bids stay hidden; only who took the prize is told.")
    points_order: Literal["random", "ascending", "descending"] = Field(
        "random", description="In which order the prizes come."
    )
    returns_type: Literal["win_loss", "point_difference", "total_points"] = Field(
        "win_loss",
        description="What is paid at the end: 1 shared by the winners and -1 by the others, points less the mean, or points.",
    )
    history: bool = Field(
        True,
        description="Observations tell all rounds so far; without it only the cards left, the prize and the points.",
    )

    @model_validator(mode="after")
    def _orders_can_be_listed(self) -> GoofspielConfig:
        if self.points_order == "random" and self.cards > MOST_SHUFFLED:
            raise ValueError(
                f"cards = {self.cards} prizes have too many random orders to list. Take {MOST_SHUFFLED} cards or fewer, or "
                "points_order: ascending or descending."
            )
        return self


class GoofspielGames(DealtEnv):
    """``num_envs`` games. Masks allow the cards in hand. Global state: the prizes shown, all hands, everybody's points."""

    config_class = GoofspielConfig

    name = "goofspiel"

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        self.num_envs = num_envs
        self.config = GoofspielConfig(**env_config)
        self.cards, self.players = self.config.cards, self.config.players
        self.orders = prize_orders(self.cards, self.config.points_order)
        self.deal_probabilities = np.full(len(self.orders), 1 / len(self.orders))
        self.all_points = self.cards * (self.cards + 1) // 2
        self.deal = np.zeros(num_envs, np.int64)
        self.hands = np.ones((num_envs, self.players, self.cards), bool)
        self.points = np.zeros((num_envs, self.players), np.int64)
        self.bids = np.full((num_envs, self.players, self.cards), NOT_YET, np.int64)  # by round
        # What happened when does not influence the future: who does not look back need not tell such positions apart.
        self.state_arrays = ("deal", "hands", "points")
        if self.config.history:
            self.state_arrays = (*self.state_arrays, "bids")
        self._declare()

    def _declare(self) -> None:
        """Widths follow from what a first view holds."""
        (obs,), _, _, state = self._view()
        self.state_size = state.shape[1]
        seen = spaces.Box(0, 1, (obs.shape[2],), np.float32)
        agents = tuple(f"player_{i}" for i in range(self.players))
        self.kinds = number_seats([AgentType("player", agents, seen, spaces.Discrete(self.cards), masked=True)])

    # -- playing -------------------------------------------------------------------------------------------------------

    def _begin(self, env_ids: Ints) -> None:
        self.hands[env_ids] = True
        self.points[env_ids] = 0
        self.bids[env_ids] = NOT_YET

    def _play(self, actions: Sequence[Array]) -> tuple[Floats, Bools, Bools, Bools]:
        before = self._rounds() == self.cards
        moves = self._joint_moves(actions, self.hands, before)
        self._bid(np.flatnonzero(~before), moves)
        last = np.flatnonzero(self._rounds() == self.cards - 1)
        self._bid(last, self.hands.argmax(axis=2))  # one card is left: nobody has a choice
        return settle(RETURNS[self.config.returns_type](self.points), self._rounds() == self.cards)

    def _rounds(self) -> Ints:
        """``[E]``: how many have been played."""
        played: Ints = self.cards - self.hands[:, 0].sum(axis=1)
        return played

    def _bid(self, env_ids: Ints, moves: Ints) -> None:
        """One round in these copies: ``moves`` ``[E, n]`` are the cards."""
        now, bids = self._rounds()[env_ids], moves[env_ids]
        prize = self.orders[self.deal[env_ids], now] + 1
        takes = winners(bids)
        players = np.arange(self.players)
        self.hands[env_ids[:, None], players, bids] = False
        self.bids[env_ids[:, None], players, now[:, None]] = bids
        self.points[env_ids] += takes * prize[:, None]

    # -- what is seen --------------------------------------------------------------------------------------------------

    def _view(self) -> tuple[Sequence[Array], Sequence[Bools], Bools, Floats]:
        played = self._rounds()
        over = played == self.cards
        shown = self._prizes(played)
        share = (self.points / self.all_points).astype(np.float32)
        public = np.concatenate([shown, share], axis=1)
        who = np.broadcast_to(np.eye(self.players, dtype=np.float32), (self.num_envs, self.players, self.players))
        parts = [who, self._for_all(public), self._cards_left()]
        if self.config.history:
            parts.append(self._past())
        obs = np.concatenate(parts, axis=2)
        state = np.concatenate([public, self._flat(self.hands)], axis=1)
        present = np.repeat(~over[:, None], self.players, axis=1)
        return (obs,), (self.hands | ~present[:, :, None],), present, state

    def _prizes(self, played: Ints) -> Floats:
        """The prize of now, one-hot, and those to come; with ``history`` also the round of each that was shown."""
        order, rounds = self.orders[self.deal], np.arange(self.cards)
        one_hot = np.eye(self.cards, dtype=np.float32)[order]  # [E, round, prize]
        now = one_hot * (rounds == played[:, None])[:, :, None]
        to_come = one_hot * (rounds > played[:, None])[:, :, None]
        parts = [now.sum(axis=1), to_come.sum(axis=1)]
        if self.config.history:
            past = one_hot * (rounds < played[:, None])[:, :, None]
            parts.append(self._flat(past))
        return np.concatenate(parts, axis=1)

    def _cards_left(self) -> Floats:
        """``[E, n, ...]``: all hands, or with hidden bids only the player's own."""
        if self.config.imp_info:
            return self.hands.astype(np.float32)
        return self._for_all(self._flat(self.hands))

    def hand_in(self, obs: Floats) -> Ints:
        """The cards, from 1, that the player of an observation holds in it."""
        player = int(obs[: self.players].argmax())
        # Behind who, the prizes and the points come the player's own cards, or everybody's where bids are open.
        rows = 2 + self.cards * self.config.history
        first = self.players + rows * self.cards + self.players
        if not self.config.imp_info:
            first += player * self.cards
        held: Ints = np.flatnonzero(obs[first : first + self.cards]) + 1
        return held

    def _past(self) -> Floats:
        """``[E, n, ...]``: who bid what in which round, or with hidden bids the own ones and who won."""
        played = self.bids != NOT_YET
        one_hot = np.eye(self.cards, dtype=np.float32)[self.bids] * played[:, :, :, None]  # [E, n, round, card]
        if not self.config.imp_info:
            return self._for_all(self._flat(one_hot))
        own = one_hot.reshape(self.num_envs, self.players, -1)
        won = winners(np.moveaxis(self.bids, 1, 2)) & played.all(axis=1)[:, :, None]  # [E, round, n]
        return np.concatenate([own, self._for_all(self._flat(won))], axis=2)

    def _flat(self, array: Array) -> Floats:
        return array.reshape(self.num_envs, -1).astype(np.float32)

    def _for_all(self, public: Floats) -> Floats:
        return np.broadcast_to(public[:, None], (self.num_envs, self.players, public.shape[1]))

    # -- looking at it -------------------------------------------------------------------------------------------------

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        del agent
        return tuple(str(card + 1) for card in range(self.cards))

    def render(self, env_id: int) -> str:
        text: str = self.scene(env_id)["text"]
        return text

    def scene(self, env_id: int, viewer: AgentID | None = None) -> Mapping[str, Any]:
        """Hands and bids are hidden from the others with ``imp_info``, until the end."""
        table = goofspiel_table(
            hands=self.hands[env_id],
            points=self.points[env_id],
            bids=self.bids[env_id] if self.config.history else self.bids[env_id, :, :0],
            prizes=self.orders[self.deal[env_id]] + 1,
            viewer=viewer if self.config.imp_info else None,
        )
        if table.over:
            paid = RETURNS[self.config.returns_type](self.points[env_id : env_id + 1])[0]
            for seat, won in zip(table.seats, paid.tolist(), strict=True):
                seat.won = won
        table.open_hands = table.over or not self.config.imp_info
        return table.scene(viewer)


def winners(bids: Ints) -> Bools:
    """``[..., n]``: who bid highest, alone. Equal highest bids have no winner."""
    highest = bids == bids.max(axis=-1, keepdims=True)
    alone: Bools = highest & (highest.sum(axis=-1, keepdims=True) == 1)
    return alone


@lru_cache
def prize_orders(cards: int, points_order: str) -> Ints:
    """``[D, cards]``: every order in which the prizes can come, counted from 0."""
    rising = np.arange(cards)
    fixed = {"ascending": rising, "descending": rising[::-1]}
    if points_order in fixed:
        return np.array([fixed[points_order]])
    return np.array(list(permutations(range(cards))))
