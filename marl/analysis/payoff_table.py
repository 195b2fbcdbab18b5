"""A payoff tensor as a person reads it: mean ± standard error, rows against columns, or one line per pairing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.table import Table
from rich.text import Text

from marl.gametheory.payoffs import PayoffTensor
from marl.populations.payoff_estimates import Cell, all_cells


def payoff_table(tensor: PayoffTensor) -> Table:
    """Two players: the row's payoffs, with the column's beside them where these are not the negatives."""
    if len(tensor.players) == 2:
        return _two_players(tensor)
    return _listed(tensor)


def caption(tensor: PayoffTensor) -> str:
    """What the numbers are."""
    fewest, most = int(tensor.count.min()), int(tensor.count.max())
    episodes = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    seats = "averaged over seatings (one population)" if tensor.symmetric else "seats as named"
    return f"mean ± standard error of an episode's payoff; {episodes} episodes per pairing, {seats}"


def is_zero_sum(tensor: PayoffTensor) -> bool:
    """Whether all payoffs add up to 0, up to the rounding of the env's float32."""
    return bool(np.allclose(tensor.mean.sum(axis=0), 0.0, atol=1e-5))


def all_pairings(tensor: PayoffTensor) -> list[Cell]:
    """The cells that say something new; in one population the same strategies on other seats do not."""
    cells = all_cells(tensor.count.shape)
    if not tensor.symmetric:
        return cells
    return [cell for cell in cells if cell == tuple(sorted(cell))]


def strategies_of(tensor: PayoffTensor, cell: Cell) -> list[str]:
    """Names of what is played in a cell, player by player."""
    return [names[number] for names, number in zip(tensor.names, cell, strict=True)]


def _two_players(tensor: PayoffTensor) -> Table:
    rows, columns = tensor.names
    corner = "" if tensor.symmetric else f"{tensor.players[0]} \\ {tensor.players[1]}"
    table = _empty([corner, *columns])
    # In a zero-sum game the other's payoffs are the negatives, which a reader can do alone.
    players = (0,) if is_zero_sum(tensor) else (0, 1)
    for row, name in enumerate(rows):
        cells = [Text(name)]
        for column in range(len(columns)):
            earned = [_number(tensor, player, (row, column)) for player in players]
            cells.append(Text(" | ".join(earned)))
        table.add_row(*cells)
    return table


def _listed(tensor: PayoffTensor) -> Table:
    """One line per pairing: who plays, what each player earns."""
    payoffs = [f"payoff {player}" for player in tensor.players]
    table = _empty([*tensor.players, *payoffs])
    for cell in all_pairings(tensor):
        earned = [_number(tensor, player, cell) for player in range(len(tensor.players))]
        table.add_row(*map(Text, strategies_of(tensor, cell)), *map(Text, earned))
    return table


def _empty(titles: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in titles:
        table.add_column(Text(title))
    return table


def _number(tensor: PayoffTensor, player: int, cell: Cell) -> str:
    mean, stderr = float(tensor.mean[player][cell]), float(tensor.stderr[player][cell])
    if np.isnan(mean):  # never played
        return "-"
    # + 0.0 turns -0 into 0.
    return f"{mean + 0.0:.3g} ± {stderr:.2g}"
