"""Card games of PettingZoo as scenes. Their own pictures show all hands to everybody."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from marl.data.task import AgentID
from marl.envs.games.cards.hands import CardTable, Seat

SUITS = {"S": "♠", "H": "♥", "D": "♦", "C": "♣"}


def card_scene(bare: Any, viewer: AgentID | None) -> Mapping[str, Any] | None:
    """The scene of a card game of PettingZoo; None where it is another game."""
    draw = GAMES.get(type(bare).__module__)
    return None if draw is None else draw(bare, viewer)


def _poker(title: str) -> Callable[[Any, AgentID | None], Mapping[str, Any]]:
    """Poker as the package rlcard plays it, with two or more players."""

    def scene(bare: Any, viewer: AgentID | None) -> Mapping[str, Any]:
        game = bare.env.game
        over = bool(game.is_over())
        payoffs = list(game.get_payoffs()) if over else [None] * len(game.players)
        seats: list[Seat] = []
        for name, player, won in zip(bare.possible_agents, game.players, payoffs, strict=True):
            cards = player.hand if isinstance(player.hand, list) else [player.hand]
            folded = "fold" in str(getattr(player.status, "name", player.status)).lower()
            seat = Seat(name, cards=[_card(card) for card in cards], paid=float(player.in_chips), folded=folded)
            seat.won = None if won is None else float(won)
            seat.turn = not over and name == bare.agent_selection
            seats.append(seat)
        table = CardTable(title, seats, over, table=_public(game))
        table.open_hands = over and not any(seat.folded for seat in seats)
        table.pot = sum(seat.paid or 0.0 for seat in seats)
        return table.scene(viewer)

    return scene


def _public(game: Any) -> list[str | None]:
    """Cards on the table; Leduc has one that is turned up later."""
    if hasattr(game, "public_cards"):
        return [_card(card) for card in game.public_cards]
    return [None if game.public_card is None else _card(game.public_card)]


def _card(card: Any) -> str:
    rank = "10" if card.rank == "T" else card.rank
    return f"{rank}{SUITS.get(card.suit, '')}"


def _nothing_for_one_player(title: str) -> Callable[[Any, AgentID | None], Mapping[str, Any] | None]:
    """Games that are only drawn for whoever may see everything."""

    def scene(bare: Any, viewer: AgentID | None) -> Mapping[str, Any] | None:
        del bare
        if viewer is None:
            return None  # as the env's own picture shows it
        return {"kind": "text", "text": f"{title}: its picture would show what {viewer} may not see."}

    return scene


GAMES: dict[str, Callable[[Any, AgentID | None], Mapping[str, Any] | None]] = {
    "pettingzoo.classic.rlcard_envs.leduc_holdem": _poker("Leduc hold'em"),
    "pettingzoo.classic.rlcard_envs.texas_holdem": _poker("Texas hold'em"),
    "pettingzoo.classic.rlcard_envs.texas_holdem_no_limit": _poker("No-limit Texas hold'em"),
    "pettingzoo.classic.hanabi.hanabi": _nothing_for_one_player("Hanabi"),
    "pettingzoo.classic.rps.rps": _nothing_for_one_player("Rock paper scissors"),
}
