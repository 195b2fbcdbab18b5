"""From episodes to a payoff tensor: means and standard errors per cell, averaged over seatings for one population.

A *cell* says which strategy each player has. With ``n`` episodes of payoffs ``x_1 .. x_n`` a cell has the mean and the
standard error ``s / sqrt(n)``, ``s^2 = sum (x - mean)^2 / (n - 1)``.

Where all players draw from one population, seats are averaged out. With two players ``a`` earns against ``b``
``(x_0[a, b] + x_1[b, a]) / 2``, and in general the mean over all ways to seat the same strategies. Seatings are played with
the same seeds and averaged seed by seed first, so that what they have in common does not make the error too small.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import permutations, product
from typing import Any, TypeAlias

import numpy as np

from marl.gametheory.payoffs import PayoffTensor
from marl.populations.matches import PlayerID, Returns

Cell: TypeAlias = tuple[int, ...]
Samples: TypeAlias = Mapping[Cell, Returns]
"""Returns ``[episodes, players]`` of the cells that were played; rows of cells with equal strategies have equal seeds."""


def all_cells(shape: Sequence[int]) -> list[Cell]:
    """Every way in which the players can choose."""
    return list(product(*(range(size) for size in shape)))


def seatings(cell: Cell) -> list[Cell]:
    """All cells with these strategies on other seats."""
    return sorted(set(permutations(cell)))


def over_seatings(samples: Samples, cell: Cell) -> Returns:
    """What the strategies of the cell earned, seed by seed, averaged over all ways to seat them."""
    rows = min(len(samples[seating]) for seating in seatings(cell))
    total = np.zeros((rows, len(cell)))
    for order in permutations(range(len(cell))):  # strategy i sits on seat order[i]
        seating = [0] * len(cell)
        for strategy, seat in enumerate(order):
            seating[seat] = cell[strategy]
        total += samples[tuple(seating)][:rows, list(order)]
    return total / math.factorial(len(cell))


def standard_error(returns: Returns) -> Returns:
    """Of the mean over episodes, per player; exactly 0 where all episodes paid the same."""
    spread = returns.std(axis=0, ddof=1) / math.sqrt(len(returns))
    return np.where(np.ptp(returns, axis=0) == 0, 0.0, spread)


def payoff_tensor(
    samples: Samples, players: Sequence[PlayerID], names: Sequence[Sequence[str]], symmetric: bool = False
) -> PayoffTensor:
    """The table of all cells. Cells with fewer than two episodes have no error and count as unplayed."""
    shape = tuple(map(len, names))
    mean = np.full((len(players), *shape), np.nan)
    stderr, count = mean.copy(), np.zeros(shape, np.int64)
    for cell in all_cells(shape):
        seats = seatings(cell) if symmetric else [cell]
        if any(seat not in samples for seat in seats):
            continue
        returns = over_seatings(samples, cell) if symmetric else samples[cell]
        if len(returns) > 1:
            place: tuple[Any, ...] = (slice(None), *cell)
            mean[place], stderr[place] = returns.mean(axis=0), standard_error(returns)
            count[cell] = len(returns) * len(seats)
    return PayoffTensor(mean, stderr, count, tuple(map(tuple, names)), tuple(players), symmetric)
