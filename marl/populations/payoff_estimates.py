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
from itertools import product
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
    """All cells with these strategies on other seats, in order."""
    if len(cell) < 2:
        return [cell]
    found: list[Cell] = []
    for first in sorted(set(cell)):
        place = cell.index(first)
        found += [(first, *rest) for rest in seatings(cell[:place] + cell[place + 1 :])]
    return found


def over_seatings(samples: Samples, cell: Cell) -> Returns:
    """What the strategies of the cell earned, seed by seed, averaged over all ways to seat them."""
    cells = seatings(cell)
    rows = min(len(samples[seated]) for seated in cells)
    earned: dict[int, Returns] = {}
    for strategy in set(cell):
        seats = [(seated, seat) for seated in cells for seat in range(len(cell)) if seated[seat] == strategy]
        earned[strategy] = np.mean([samples[seated][:rows, seat] for seated, seat in seats], axis=0)
    return np.stack([earned[strategy] for strategy in cell], axis=1)


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
    for pairing in all_cells(shape):
        if symmetric and pairing != tuple(sorted(pairing)):
            continue  # filled in with the sorted one
        cells = seatings(pairing) if symmetric else [pairing]
        if any(cell not in samples for cell in cells):
            continue
        returns = over_seatings(samples, pairing) if symmetric else samples[pairing]
        if len(returns) < 2:
            continue
        means, errors = returns.mean(axis=0), standard_error(returns)
        for cell in cells:
            place: tuple[Any, ...] = (slice(None), *cell)
            columns = [pairing.index(strategy) for strategy in cell] if symmetric else slice(None)
            mean[place], stderr[place], count[cell] = means[columns], errors[columns], len(returns) * len(cells)
    return PayoffTensor(mean, stderr, count, tuple(map(tuple, names)), tuple(players), symmetric)
