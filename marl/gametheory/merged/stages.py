"""Simultaneous moves of two players with opposed interests, one matrix game per position."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from marl.data.task import Ints
from marl.errors import ConfigError
from marl.gametheory.merged.positions import Positions
from marl.gametheory.solve.zero_sum import maximin
from marl.gametheory.tree.tree import Reals


@dataclass(frozen=True, eq=False)
class Stages:
    """Joint actions of positions at which several players are asked, sorted by position."""

    positions: Positions
    position: Ints  # [C]
    actions: Ints  # [C, P]
    worth: Reals  # [C, P]

    @classmethod
    def of(cls, positions: Positions, position: Ints, actions: Ints, worth: Reals) -> Stages:
        order = np.argsort(position, kind="stable")
        return cls(positions, position[order], actions[order], worth[order])


@dataclass(frozen=True, eq=False)
class Solved:
    """The matrix game of one position: its value, and how each of the two players guarantees it."""

    position: int
    values: Reals  # [P]
    table: Reals  # [actions of the row player, of the column player]: what the row player gets
    parts: tuple[tuple[int, int, Reals], tuple[int, int, Reals]]  # player, its view, chances of its actions
    legal: tuple[Ints, Ints]

    def keeps_value(self, player: int, chances: Reals, tolerance: float) -> bool:
        """Whether other chances guarantee the player as much."""
        row = self.parts[0]
        if player == row[0]:
            worst = (chances[self.legal[0]] @ self.table).min()
            return bool(worst >= self.values[player] - tolerance)
        # The column player gets what the row player does not.
        most = (self.table @ chances[self.legal[1]]).max()
        return bool(most <= self.values[row[0]] + tolerance)


def solve_stages(stages: Stages, name: str, scale: float) -> Iterator[Solved]:
    """Every position's matrix game, one after the other."""
    starts = np.flatnonzero(np.diff(stages.position, prepend=-1))
    for first, last in zip(starts.tolist(), [*starts[1:].tolist(), len(stages.position)], strict=True):
        yield _solve(stages, slice(first, last), name, scale)


def _solve(stages: Stages, rows: slice, name: str, scale: float) -> Solved:
    actions, worth, position = stages.actions[rows], stages.worth[rows], int(stages.position[rows.start])
    movers = np.flatnonzero(actions[0] >= 0)
    _check_opposed(stages.positions, movers, worth, name, scale)
    row, column = movers.tolist()
    row_actions, i = np.unique(actions[:, row], return_inverse=True)
    column_actions, j = np.unique(actions[:, column], return_inverse=True)
    table = np.zeros((len(row_actions), len(column_actions)))
    table[i.reshape(-1), j.reshape(-1)] = worth[:, row]
    first, second = _guarantees(table)
    value = float(first @ table @ second)
    # What both get adds up to the same in every cell; onlookers get what follows from both mixtures.
    values = np.zeros(worth.shape[1])
    weight = first[i.reshape(-1)] * second[j.reshape(-1)]
    values[:] = weight @ worth
    values[row] = value
    view = stages.positions.view[position]
    parts = (
        (row, int(view[row]), _spread(first, row_actions, stages.positions, row)),
        (column, int(view[column]), _spread(second, column_actions, stages.positions, column)),
    )
    return Solved(position, values, table, parts, (row_actions, column_actions))


def _check_opposed(positions: Positions, movers: Ints, worth: Reals, name: str, scale: float) -> None:
    """Two movers, nobody else in the game, and what one gets the other does not."""
    total = worth.sum(axis=1)
    if len(movers) != 2 or positions.num_players != 2 or np.ptp(total) > 1e-6 * scale:
        raise ConfigError(
            f"game {name!r}: {', '.join(positions.players[mover] for mover in movers.tolist())} choose at once, and it is not "
            "a game of two players whose payoffs add up to a constant, so positions have no single value. Build its tree and "
            "use cfr(tree, iterations), or measure policies by merged best responses."
        )


def _guarantees(table: Reals) -> tuple[Reals, Reals]:
    """Mixtures of the row player and of the column player; a saddle point where there is one, else a linear program."""
    floor, ceiling = table.min(axis=1), table.max(axis=0)
    row, column = int(floor.argmax()), int(ceiling.argmin())
    if floor[row] == ceiling[column]:
        return np.eye(len(floor))[row], np.eye(len(ceiling))[column]
    first, second, _ = maximin(table)
    first, second = np.maximum(first, 0.0), np.maximum(second, 0.0)
    return first / first.sum(), second / second.sum()


def _spread(chances: Reals, actions: Ints, positions: Positions, player: int) -> Reals:
    """Chances of all actions of the player."""
    found = np.zeros(positions.views[player].legal.shape[1])
    found[actions] = chances
    return found
