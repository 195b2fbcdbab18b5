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
    return list(product(*map(range, shape)))


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
    # Each strategy's columns, one per seat on which it sat in some seating.
    columns: dict[int, list[Returns]] = {strategy: [] for strategy in cell}
    for seated in cells:
        returns = samples[seated][:rows]
        for seat, strategy in enumerate(seated):
            columns[strategy].append(returns[:, seat])
    earned = [np.mean(columns[strategy], axis=0) for strategy in cell]
    return np.stack(earned, axis=1)


def standard_error(returns: Returns) -> Returns:
    """Of the mean over episodes, per player; exactly 0 where all episodes paid the same."""
    spread = returns.std(axis=0, ddof=1) / math.sqrt(len(returns))
    # The mean of equal numbers is rounded, so that their spread would be some 1e-17 and count as noise.
    return np.where(np.ptp(returns, axis=0) == 0, 0.0, spread)


def payoff_tensor(
    samples: Samples, players: Sequence[PlayerID], names: Sequence[Sequence[str]], symmetric: bool = False
) -> PayoffTensor:
    """The table of all cells. Cells with fewer than two episodes have no error and count as unplayed."""
    shape = tuple(map(len, names))
    mean = np.full((len(players), *shape), np.nan)
    stderr, count = mean.copy(), np.zeros(shape, np.int64)
    for pairing in all_cells(shape):
        cells = _filled_in_by(pairing, samples, symmetric)
        if not cells:
            continue
        if symmetric:
            returns = over_seatings(samples, pairing)
        else:
            returns = samples[pairing]
        if len(returns) < 2:
            continue
        means, errors = returns.mean(axis=0), standard_error(returns)
        for cell in cells:
            columns = list(range(len(cell)))
            if symmetric:
                # What the strategy on each seat of this cell earned stands at its seat in the sorted pairing.
                columns = [pairing.index(strategy) for strategy in cell]
            place: tuple[Any, ...] = (slice(None), *cell)
            mean[place] = means[columns]
            stderr[place] = errors[columns]
            count[cell] = len(returns) * len(cells)
    return PayoffTensor(
        mean=mean,
        stderr=stderr,
        count=count,
        names=tuple(map(tuple, names)),
        players=tuple(players),
        symmetric=symmetric,
    )


def _filled_in_by(pairing: Cell, samples: Samples, symmetric: bool) -> list[Cell]:
    """The cells whose payoffs follow from this pairing; none if one of them has not been played."""
    cells = [pairing]
    if symmetric:
        if list(pairing) != sorted(pairing):
            return []  # filled in with the sorted one
        cells = seatings(pairing)
    if not all(cell in samples for cell in cells):
        return []
    return cells
