"""Small games that the page offers by name: those of marl whose trees can be drawn and solved while one looks on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from marl.gametheory.classics import EXTRA, NAMES, classic_game


@dataclass(frozen=True)
class Game:
    """A game that the page offers."""

    title: str
    env: str
    env_config: dict[str, Any] = field(default_factory=dict)


CARDS = {
    "kuhn_poker": Game("Kuhn poker", "kuhn_poker"),
    "kuhn_poker_3": Game("Kuhn poker, three players", "kuhn_poker", {"players": 3}),
    "leduc_poker": Game("Leduc poker", "leduc_poker"),
    "liars_dice_3": Game("Liar's dice, one die with 3 sides", "liars_dice", {"sides": 3}),
    "liars_dice_4": Game("Liar's dice, one die with 4 sides", "liars_dice", {"sides": 4}),
}
NETWORKS = {
    "two_step_game": Game("Two-step game", "two_step_game"),
    "congestion": Game("Congestion, four drivers", "congestion"),
    "graphical_game": Game("Graphical game, four nodes", "graphical_game"),
}


def _title(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _matrix_games() -> dict[str, Game]:
    """The classics, as games in which the second player does not see what the first one does."""
    found = {}
    for name in NAMES:
        config: dict[str, Any] = {"game": name}
        if name in EXTRA:  # the env does not know these by name
            game = classic_game(name)
            config = {"payoffs": game.payoffs.tolist(), "actions": [list(names) for names in game.actions]}
        found[name] = Game(_title(name), "matrix_game", config)
    return found


GAMES: dict[str, Game] = {**CARDS, **NETWORKS, **_matrix_games()}


def matrix_games() -> list[dict[str, Any]]:
    """The classics as tables, for phase portraits."""
    found = []
    for name in NAMES:
        game = classic_game(name)
        actions = [list(names) for names in game.actions]
        found.append({"name": name, "title": _title(name), "actions": actions, "payoffs": game.payoffs.tolist()})
    return found
