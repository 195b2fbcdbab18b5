"""Games as populations whose shares of strategies move: many starts at once.

A *place* is a tuple with one array ``[N, actions]`` per population. One population plays a symmetric game against itself; two
populations are the two players. Payoffs are divided by how far they spread, so that time means the same in all games:
replicator shares of the better of two strategies grow by at most ``e`` in a unit of time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np

from marl.errors import ConfigError
from marl.gametheory.game import MatrixGame, Payoffs

Place: TypeAlias = tuple[Payoffs, ...]
"""Shares ``[N, actions]`` of each population's strategies."""
Earn: TypeAlias = Callable[[Place], Place]
"""What each strategy of each population earns there."""


def count_populations(game: MatrixGame, asked: int | None) -> int:
    """One or two: as asked, or one for a symmetric game with more than two actions, as pictures of games have it."""
    if game.num_players != 2:
        raise ConfigError(
            f"game {game.name!r} has {game.num_players} players; fields and basins are those of games of two. Fix what the "
            "others play, and take the game of the two that are left."
        )
    if asked not in (None, 1, 2):
        raise ConfigError(f"populations is {asked}; expected 1 (a symmetric game against itself) or 2.")
    if asked == 1 and not game.is_symmetric:
        raise ConfigError(
            f"game {game.name!r} is not symmetric: u_1[a, b] is not u_0[b, a], so one population cannot play it "
            "against itself. Take populations=2."
        )
    if asked is not None:
        return asked
    return 1 if game.is_symmetric and game.shape[0] > 2 else 2


def earnings(game: MatrixGame, populations: int) -> Earn:
    """What strategies earn, in units of each player's spread of payoffs."""
    spreads = np.where(game.spreads > 0, game.spreads, 1.0)
    row, column = game.payoffs / spreads[:, None, None]
    if populations == 1:
        return partial(_against_itself, row)
    return partial(_against_each_other, row, column)


def _against_itself(row: Payoffs, place: Place) -> Place:
    (shares,) = place
    return (shares @ row.T,)


def _against_each_other(row: Payoffs, column: Payoffs, place: Place) -> Place:
    first, second = place
    return (second @ row.T, first @ column)


def gains_at(earn: Earn, place: Place) -> Payoffs:
    """``[N]``: by how much the best strategy of any population earns more than its average; 0 in equilibria."""
    largest = np.zeros(len(place[0]))
    for shares, earned in zip(place, earn(place), strict=True):
        mean = (shares * earned).sum(axis=1)
        largest = np.maximum(largest, earned.max(axis=1) - mean)
    return largest


def rows_of(place: Place) -> Payoffs:
    """``[N, all shares]``: the populations side by side."""
    return np.concatenate(place, axis=1)
