"""Tiny Hanabi (Foerster et al., 2019): a team in which a move tells the others something about a hidden card.

Everybody is dealt a card that only it sees, each with the same chance. The players act in turn, ``player_0`` first, and
all see the actions. A table pays the whole team by all cards and all actions, ``payoffs[c_0][c_1]...[a_0][a_1]...``, and
every player gets the entry.

The table by default is the game of the Bayesian action decoder, which OpenSpiel calls ``tiny_hanabi``: two cards and three
actions each. Its best joint policy earns 10, the best one in which the first move tells nothing earns 8, which is where
independent learners often end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pydantic import Field, model_validator

from marl.config import Config
from marl.data.task import AgentID, AgentType, Array, Bools, Floats, Ints, number_seats
from marl.envs.games.cards.dealt import DealtEnv, settle, turns
from marl.envs.games.cards.hands import CardTable, Seat

NOT_YET = -1
MOST_ENTRIES = 1_000_000
LISTED = 300  # entries of the table that are told in words
# [card of player_0][card of player_1], then a row per action of player_0 and a column per action of player_1.
BAYESIAN_ACTION_DECODER = [
    [[[10, 0, 0], [4, 8, 4], [10, 0, 0]], [[0, 0, 10], [4, 8, 4], [0, 0, 10]]],
    [[[0, 0, 10], [4, 8, 4], [0, 0, 0]], [[10, 0, 0], [4, 8, 4], [10, 0, 0]]],
]


class TinyHanabiConfig(Config):
    """Keys of ``env_config``."""

    payoffs: list[Any] = Field(
        BAYESIAN_ACTION_DECODER,
        description="What the team is paid: [c_0][c_1]...[a_0][a_1]..., by everybody's card, then by everybody's action.",
    )

    @model_validator(mode="after")
    def _is_a_table(self) -> TinyHanabiConfig:
        table = self.table()
        if table.ndim < 4 or table.ndim % 2 or min(table.shape) < 1 or table.size > MOST_ENTRIES:
            raise ValueError(
                f"payoffs have shape {table.shape}; expected [c_0][c_1]...[a_0][a_1]... with an axis for the card and one "
                f"for the action of each of two or more players, {MOST_ENTRIES:,} entries at most"
            )
        if len(set(table.shape[table.ndim // 2 :])) > 1:
            raise ValueError(f"payoffs have shape {table.shape}; expected equally many actions of all players")
        return self

    def table(self) -> NDArray[np.float64]:
        try:
            table = np.array(self.payoffs, np.float64)
        except (TypeError, ValueError):
            raise ValueError(
                "payoffs are not nested lists of equal lengths with numbers: [c_0][c_1]...[a_0][a_1]..."
            ) from None
        if not np.isfinite(table).all():
            raise ValueError("payoffs hold a number that is not finite")
        return table


class TinyHanabiGames(DealtEnv):
    """``num_envs`` games. A player sees its number, its card and all actions so far; the state shows all cards."""

    config_class = TinyHanabiConfig

    name = "tiny_hanabi"
    state_arrays = ("deal", "moves")

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        self.num_envs = num_envs
        self.config = TinyHanabiConfig(**env_config)
        self.payoffs = self.config.table()
        self.players = self.payoffs.ndim // 2
        cards = self.payoffs.shape[: self.players]
        self.actions = self.payoffs.shape[-1]
        self.cards = np.stack(np.unravel_index(np.arange(np.prod(cards)), cards), axis=1)  # [D, n]
        self.deal_probabilities = np.full(len(self.cards), 1 / len(self.cards))
        self._one_hot_cards = np.eye(max(cards), dtype=np.float32)
        # One row more than actions: nothing was played yet. It is the last one, which is where -1 points to.
        self._one_hot_moves = np.eye(self.actions + 1, self.actions, dtype=np.float32)
        public = self.players * self.actions
        self.state_size = self.players * max(cards) + public
        seen = spaces.Box(0, 1, (self.players + max(cards) + public,), np.float32)
        agents = tuple(f"player_{i}" for i in range(self.players))
        self.kinds = number_seats([AgentType("player", agents, seen, spaces.Discrete(self.actions))])
        self.deal = np.zeros(num_envs, np.int64)
        self.moves = np.full((num_envs, self.players), NOT_YET, np.int64)

    def _begin(self, env_ids: Ints) -> None:
        self.moves[env_ids] = NOT_YET

    def _turn(self) -> Ints:
        """``[E]``: how many have acted, which is who acts next."""
        acted: Ints = (self.moves != NOT_YET).sum(axis=1)
        return acted

    def _play(self, actions: Sequence[Array]) -> tuple[Floats, Bools, Bools, Bools]:
        before = self._turn()
        over = before == self.players
        mover = np.minimum(before, self.players - 1)
        chosen = self._moves(actions, mover, np.ones((self.num_envs, self.actions), bool), over)
        going_on = np.flatnonzero(~over)
        self.moves[going_on, mover[going_on]] = chosen[going_on]
        return settle(self._paid(), self._turn() == self.players)

    def _paid(self) -> Floats:
        """``[E, n]``: the entry of the table for everybody; means nothing before all have acted."""
        entry = self.payoffs[(*self.cards[self.deal].T, *self.moves.T)]
        return np.repeat(entry[:, None].astype(np.float32), self.players, axis=1)

    def _view(self) -> tuple[Sequence[Array], Sequence[Bools], Bools, Floats]:
        env_ids, players = self.num_envs, self.players
        hands = self._one_hot_cards[self.cards[self.deal]]
        played = self._one_hot_moves[self.moves].reshape(env_ids, -1)
        who = np.broadcast_to(np.eye(players, dtype=np.float32), (env_ids, players, players))
        shown = np.broadcast_to(played[:, None], (env_ids, players, played.shape[1]))
        acted = self._turn()
        present = turns(acted, acted == players, players)
        obs = np.concatenate([who, hands, shown], axis=2)
        state = np.concatenate([hands.reshape(env_ids, -1), played], axis=1)
        return (obs,), (np.ones((env_ids, players, 0), bool),), present, state

    @property
    def rules_text(self) -> str:
        """The rules in words, with the whole table, for players who read."""
        lines = [
            "Tiny Hanabi. Everybody is dealt a card that only it sees. The players act in turn, and all see the actions. The "
            "whole team gets what this table says, by the cards of all players in turn and then their actions:"
        ]
        for entry in list(np.ndindex(self.payoffs.shape))[:LISTED]:
            cards, actions = entry[: self.players], entry[self.players :]
            lines.append(f"cards {cards}, actions {actions}: {self.payoffs[entry]:g}")
        return "\n".join(lines)

    def render(self, env_id: int) -> str:
        text: str = self.scene(env_id)["text"]
        return text

    def scene(self, env_id: int, viewer: AgentID | None = None) -> Mapping[str, Any]:
        """Cards stay hidden from the others until all have acted."""
        acted = int(self._turn()[env_id])
        over = acted == self.players
        seats: list[Seat] = []
        for player, card in enumerate(self.cards[self.deal[env_id]].tolist()):
            seats.append(Seat(f"player_{player}", cards=[str(card)], turn=player == acted))
        table = CardTable("Tiny Hanabi", seats, over, open_hands=over)
        for seat, move in zip(seats[:acted], self.moves[env_id, :acted].tolist(), strict=True):
            table.note(seat, f"plays {move}")
        if over:
            for seat, won in zip(seats, self._paid()[env_id].tolist(), strict=True):
                seat.won = won
        return table.scene(viewer)
