"""The rules of our card, matrix and board games in plain words, for players who read: people, and language models.

What ``env_config`` decides is told after what is always so, so different games never read alike. An env of your own has an
attribute ``rules_text`` instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from marl.envs.batched import BatchedEnv

DARK = (
    "You only see your own stones. If you move onto a hidden stone of the other player, nothing is placed, and "
    "you see that stone from then on. The other player is not told."
)

RULES: dict[str, str] = {
    "kuhn_poker": (
        "Kuhn poker. There is one card more than players, J < Q < K with two players. Everybody pays 1 into the pot "
        "and gets one card, which nobody else sees. In turn each player may pass, or bet 1 more. After a bet each of "
        "the others passes, which is giving up, or bets, which is following; then the game is over. It is also over "
        "when all have passed. The highest card among those who bet, or among all if nobody did, takes the pot. Your "
        "aim is to win as much as possible."
    ),
    "leduc_poker": (
        "Leduc poker. The deck has two cards of each rank. Everybody pays 1 into the pot and gets one card, which "
        "nobody else sees. There are two rounds of betting: raises are 2 in the first round and 4 in the second, at "
        "most two in each. In turn a player may fold, call (pay what is owed, perhaps nothing) or raise. After the "
        "first round a card is laid open on the table. At the end a pair with the card on the table wins, then the "
        "higher card; equal cards share the pot. Your aim is to win as much as possible."
    ),
    "liars_dice": (
        "Liar's dice. Everybody rolls dice and sees only its own. In turn a player bids that at least so many of all "
        "dice together show a face; the highest face is wild and counts as every face. Every bid must be higher than "
        "the last one, in quantity or, at the same quantity, in face. Instead of bidding you may call liar, which "
        "ends the game: where the last bid is true the bidder wins 1 and the caller loses 1, else the other way "
        "round."
    ),
    "goofspiel": (
        "Goofspiel. Everybody holds cards with the numbers from 1 up. Each round a prize with a number is turned up, and all "
        "bid one card of their hand at the same time. The highest card takes the prize and its points; if several are "
        "highest, nobody does. Cards that were bid are gone, and the last ones are played by themselves."
    ),
    "matrix_game": (
        "All players choose an action at the same time, without seeing the others' choices. The payoffs of every "
        "combination are listed. Your aim is to get as much as possible for yourself."
    ),
    "tic_tac_toe": (
        "Tic-tac-toe. In turn the players put a stone on a free cell; player_0 has X and begins. A full board "
        "is a draw."
    ),
    "connect_four": (
        "Connect four. In turn the players drop a stone into a column; it falls to the lowest free cell. player_0 has"
        " X and begins. A full board is a draw."
    ),
    "nim": (
        "Nim. In turn the players take one or more matches from one pile. Each row of the board is a pile, from pile 1 at "
        "the top."
    ),
    "phantom_ttt": (
        "Phantom tic-tac-toe. In turn the players put a stone on a cell; player_0 has X and begins. A full board "
        f"is a draw. {DARK}"
    ),
    "dark_hex": (
        "Dark hex on a board of hexagons; each row is shifted by half a cell to the right. In turn the players put a "
        "stone on a cell; player_0 has X, begins, and joins the top to the bottom; player_1 has O and joins the left "
        f"to the right. {DARK}"
    ),
    "battleship": (
        "Battleship. In turn the players first lay their ships, unseen by the other one, and then shoot in turn. A "
        "shot is told as water (~), hit (*) or sunk (#). On the left are your ships (large letters: hit), on "
        "the right your shots."
    ),
}


def rules_of(env: BatchedEnv) -> str:
    """What an env says itself, or what is known of a game of ours; empty where nothing is."""
    own = getattr(env, "rules_text", None)
    if own is not None:
        return str(own)
    if env.name not in RULES:
        return ""
    return f"{RULES[env.name]} {CHOSEN[env.name](env)}"


# -- what env_config decides -------------------------------------------------------------------------------------------


def _kuhn(env: Any) -> str:
    return f"{env.config.players} players take part."


def _leduc(env: Any) -> str:
    return f"{env.config.players} players take part, and there are {env.config.ranks} ranks."


def _liars_dice(env: Any) -> str:
    config = env.config
    return (
        f"{config.players} players take part, each with {_count(config.dice, 'die', 'dice')} of {config.sides} faces."
    )


ORDERS = {
    "random": "in random order",
    "ascending": "from the lowest to the highest",
    "descending": "from the highest to the lowest",
}
RETURNS = {
    "win_loss": "Who has most points in the end wins 1, and the others lose 1; several share it. If all have "
    "equally many, nobody gets anything.",
    "point_difference": "In the end everybody is paid its points less the mean of all players' points.",
    "total_points": "In the end everybody is paid its points.",
}


def _goofspiel(env: Any) -> str:
    config = env.config
    told = "only who took the prize is told" if config.imp_info else "all bids are laid open"
    return (
        f"{config.players} players hold the cards 1 to {config.cards} each. The prizes 1 to {config.cards} come "
        f"{ORDERS[config.points_order]}. "
        f"After each round {told}. {RETURNS[config.returns_type]}"
    )


def _matrix_game(env: Any) -> str:
    config = env.config
    if config.repetitions == 1:
        return "It is played once."
    seen = (
        "Everybody sees what was chosen in the last round"
        if config.observe == "last"
        else "Nobody sees what was chosen"
    )
    return f"It is played {config.repetitions} times, and payoffs add up. {seen}."


def _in_a_row(env: Any) -> str:
    config = env.config
    end = "loses" if getattr(config, "misere", False) else "wins"
    return f"Who first has {config.connect} stones in a row, a column or a diagonal {end}."


def _nim(env: Any) -> str:
    return f"Who takes the last match {'loses' if env.config.misere else 'wins'}."


VERSIONS = {"classical": "After such a move you move again.", "abrupt": "After such a move your turn is over."}


def _phantom(env: Any) -> str:
    return f"{VERSIONS[env.config.version]} {_in_a_row(env)}"


def _dark_hex(env: Any) -> str:
    return VERSIONS[env.config.version]


def _battleship(env: Any) -> str:
    config = env.config
    ships = ", ".join(
        f"one of {_count(cells, 'cell', 'cells')} worth {worth:g}"
        for cells, worth in zip(config.ships, config.values, strict=True)
    )
    return (
        f"Ships: {ships}. Everybody has {_count(config.shots, 'shot', 'shots')}. You win the values of the ships that you "
        f"sink, and lose {config.loss_multiplier:g} times the values of your own that are sunk."
    )


def _count(number: int, one: str, more: str) -> str:
    return f"{number} {one if number == 1 else more}"


CHOSEN: dict[str, Callable[[Any], str]] = {
    "kuhn_poker": _kuhn, "leduc_poker": _leduc, "liars_dice": _liars_dice, "goofspiel": _goofspiel,
    "matrix_game": _matrix_game, "tic_tac_toe": _in_a_row, "connect_four": _in_a_row, "nim": _nim,
    "phantom_ttt": _phantom, "dark_hex": _dark_hex, "battleship": _battleship,
}  # fmt: skip
