"""Card games as scenes: hands, the pot and the course of the game, with what the viewer may not see hidden."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from marl.data.task import AgentID

SUIT_SIGNS = ("♠", "♥")


@dataclass
class Seat:
    """One player as everybody knows it, and what it holds."""

    name: AgentID
    cards: Sequence[str] = ()
    dice: Sequence[int] = ()
    paid: float | None = None
    said: str = ""
    turn: bool = False
    folded: bool = False
    won: float | None = None

    def shown(self, visible: bool) -> dict[str, Any]:
        """The player's part of a scene; what is hidden is None, so that a page knows how much there is."""
        return {
            "name": self.name,
            "cards": list(self.cards) if visible else [None] * len(self.cards),
            "dice": list(self.dice) if visible else [None] * len(self.dice),
            "paid": self.paid,
            "said": self.said,
            "turn": self.turn,
            "folded": self.folded,
            "won": self.won,
        }


@dataclass
class CardTable:
    """A moment of a card game. ``open_hands``: all who have not folded show what they hold, as at a showdown."""

    title: str
    seats: Sequence[Seat]
    over: bool
    open_hands: bool = False
    table: Sequence[str | None] = ()
    pot: float | None = None
    course: list[Mapping[str, str]] = field(default_factory=list)
    remembered: bool = True  # whether the course is known; else nothing is said of it

    def note(self, seat: Seat, move: str) -> None:
        """The next move of the game."""
        seat.said = move
        self.course.append({"player": seat.name, "text": move})

    def scene(self, viewer: AgentID | None) -> dict[str, Any]:
        """Of the hands, everybody's, or only the viewer's own until they are shown."""
        players = []
        for seat in self.seats:
            visible = viewer is None or viewer == seat.name or (self.open_hands and not seat.folded)
            players.append(seat.shown(visible))
        return {
            "kind": "cards",
            "text": self._sentence(players),
            "players": players,
            "table": list(self.table),
            "pot": self.pot,
            "course": self.course,
        }

    def _sentence(self, players: Sequence[Mapping[str, Any]]) -> str:
        held = ", ".join(f"{player['name']} holds {_hand(player)}" for player in players)
        table = ""
        if self.table:
            table = f" On the table: {' '.join(card or 'a hidden card' for card in self.table)}."
        return f"{self.title}: {held}.{table}{self._course()} {self._next()}"

    def _course(self) -> str:
        if not self.remembered:
            return ""
        moves = ", ".join(f"{move['player']} {move['text']}" for move in self.course)
        return f" Moves: {moves or 'none'}."

    def _next(self) -> str:
        if not self.over:
            movers = [seat.name for seat in self.seats if seat.turn]
            if len(movers) > 1:
                return f"{', '.join(movers)} are to move at once."
            return f"{movers[0]} is to move."
        won = ", ".join(f"{seat.name} {seat.won:+g}" for seat in self.seats if seat.won is not None)
        return f"The game is over: {won}."


def _hand(player: Mapping[str, Any]) -> str:
    held = [*player["cards"], *player["dice"]]
    if None in held:
        return "something hidden"
    if not held:
        return "nothing"
    return " ".join(map(str, held))
