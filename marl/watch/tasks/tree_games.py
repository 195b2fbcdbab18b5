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
    "goofspiel_3": Game("Goofspiel, 3 cards, falling prizes", "goofspiel", {"cards": 3, "points_order": "descending"}),
    "goofspiel_4_hidden": Game(
        "Goofspiel, 4 cards, falling prizes, hidden bids",
        "goofspiel",
        {"cards": 4, "points_order": "descending", "imp_info": True},
    ),
    "tiny_hanabi": Game("Tiny Hanabi", "tiny_hanabi"),
}
NETWORKS = {
    "two_step_game": Game("Two-step game", "two_step_game"),
    "congestion": Game("Congestion, four drivers", "congestion"),
    "graphical_game": Game("Graphical game, four nodes", "graphical_game"),
}


def matrix_games() -> list[dict[str, Any]]:
    """The classics as tables, for phase portraits."""
    found = []
    for name in NAMES:
        game = classic_game(name)
        told = {
            "name": name,
            "title": _title(name),
            "actions": game.actions,
            "payoffs": game.payoffs.tolist(),
        }
        found.append(told)
    return found


def _as_envs() -> dict[str, Game]:
    """The classics as games in which the second player does not see what the first one does."""
    found = {}
    for table in matrix_games():
        name = table["name"]
        # Two of them the env does not know by name.
        config = {"game": name}
        if name in EXTRA:
            config = {
                "payoffs": table["payoffs"],
                "actions": table["actions"],
            }
        found[name] = Game(table["title"], "matrix_game", config)
    return found


def _title(name: str) -> str:
    words = name.replace("_", " ")
    return words.capitalize()


GAMES: dict[str, Game] = {**CARDS, **NETWORKS, **_as_envs()}
