"""A moment of goofspiel as a table of cards, for pages and texts."""

from __future__ import annotations

from marl.data.task import AgentID, Bools, Ints
from marl.envs.games.cards.hands import CardTable, Seat

HIDDEN = "a hidden card"


def goofspiel_table(hands: Bools, points: Ints, bids: Ints, prizes: Ints, viewer: AgentID | None) -> CardTable:
    """``bids`` by player and round, -1 where none was made; ``viewer``: from whom the bids of others are hidden."""
    seats: list[Seat] = []
    for player, hand in enumerate(hands):
        cards = [str(card + 1) for card in hand.nonzero()[0]]
        seats.append(Seat(f"player_{player}", cards=cards))
    played = len(prizes) - int(hands[0].sum())
    over = played == len(prizes)
    scores = ", ".join(map(str, points.tolist()))
    title = f"Goofspiel, points {scores}"
    if not over:
        to_come = ", ".join(map(str, sorted(prizes[played + 1 :].tolist())))
        title += f", prizes to come {to_come or 'none'}"
    table = CardTable(title, seats, over, remembered=bids.shape[1] > 0)
    if not over:
        table.table = [str(prizes[played])]
        for seat in seats:
            seat.turn = True
    for number, prize in enumerate(prizes[: min(played, bids.shape[1])].tolist()):
        _note_round(table, prize, bids[:, number], viewer)
    return table


def _note_round(table: CardTable, prize: int, bids: Ints, viewer: AgentID | None) -> None:
    best = bids.max()
    alone = (bids == best).sum() == 1
    for seat, bid in zip(table.seats, bids.tolist(), strict=True):
        card = str(bid + 1) if viewer in (None, seat.name) else HIDDEN
        said = f"bids {card} for {prize}"
        if alone and bid == best:
            said += ", takes it"
        table.note(seat, said)
