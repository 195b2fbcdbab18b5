"""The rules of our card, matrix and board games in plain words, for players who read: people, and language models.

An env of your own has an attribute ``rules_text`` instead. Numbers that depend on ``env_config`` are told with what a player
sees.
"""

from __future__ import annotations

from marl.envs.batched import BatchedEnv

DARK = (
    "You only see your own stones. If you move onto a hidden stone of the other player, nothing is placed, and "
    "you see that stone from then on. In the classical version you then move again; in the abrupt version your "
    "turn is over. The other player is not told."
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
        "highest, nobody does. Cards that were bid are gone, and the last ones are played by themselves. Your aim is to "
        "have the most points in the end."
    ),
    "matrix_game": (
        "All players choose an action at the same time, without seeing the others' choices. The payoffs of every "
        "combination are listed. Your aim is to get as much as possible for yourself."
    ),
    "tic_tac_toe": (
        "Tic-tac-toe. In turn the players put a stone on a free cell; player_0 has X and begins. Who first has enough"
        " stones in a row, a column or a diagonal wins (in the misère form: loses). A full board is a draw."
    ),
    "connect_four": (
        "Connect four. In turn the players drop a stone into a column; it falls to the lowest free cell. player_0 has"
        " X and begins. Who first has enough stones in a row, a column or a diagonal wins (in the misère form: "
        "loses). A full board is a draw."
    ),
    "nim": (
        "Nim. In turn the players take one or more matches from one pile. Who takes the last match wins (in the "
        "misère form: loses). Each row of the board is a pile, from pile 1 at the top."
    ),
    "phantom_ttt": (
        "Phantom tic-tac-toe. In turn the players put a stone on a cell; player_0 has X and begins. Who first has "
        f"three in a row, a column or a diagonal wins; a full board is a draw. {DARK}"
    ),
    "dark_hex": (
        "Dark hex on a board of hexagons; each row is shifted by half a cell to the right. In turn the players put a "
        "stone on a cell; player_0 has X, begins, and joins the top to the bottom; player_1 has O and joins the left "
        f"to the right. {DARK}"
    ),
    "battleship": (
        "Battleship. In turn the players first lay their ships, unseen by the other one, and then shoot in turn. A "
        "shot is told as water (~), hit (*) or sunk (#). You win the values of the ships that you sink and lose those"
        " of your own that are sunk. On the left are your ships (large letters: hit), on the right your shots."
    ),
}


def rules_of(env: BatchedEnv) -> str:
    """What an env says itself, or what is known of a game of ours; empty where nothing is."""
    own = getattr(env, "rules_text", None)
    return RULES.get(env.name, "") if own is None else str(own)
