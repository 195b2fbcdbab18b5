"""Normal-form games: everybody picks an action at once and a table says who is paid what.

For a profile of mixed strategies ``x`` the distance to equilibrium is

    NashConv(x) = sum_i  max_a u_i(a, x_-i) - u_i(x)

which is 0 exactly in a Nash equilibrium. In a two-player zero-sum game half of it is the exploitability.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marl.errors import ConfigError

Payoffs: TypeAlias = NDArray[np.float64]
Strategy: TypeAlias = NDArray[np.float64]
"""Probabilities of one player's actions."""
Profile: TypeAlias = tuple[Strategy, ...]
"""One strategy per player."""
EXACT = 1e-9
"""Tables that differ by less are equal."""


@dataclass(frozen=True, eq=False)
class MatrixGame:
    """``payoffs[i, a_0, a_1, ...]`` is what player ``i`` gets when player 0 plays ``a_0``, player 1 ``a_1``, and so on."""

    payoffs: Payoffs
    actions: tuple[tuple[str, ...], ...] = ()
    players: tuple[str, ...] = ()
    name: str = "game"

    def __post_init__(self) -> None:
        table = np.asarray(self.payoffs, np.float64)
        if table.ndim < 2 or table.shape[0] != table.ndim - 1 or 0 in table.shape:
            raise ConfigError(
                f"game {self.name!r}: payoffs have shape {table.shape}; expected [players, actions of player 0, actions of "
                "player 1, ...], so one table per player with one axis per player. From two tables: bimatrix(row, column)."
            )
        if not np.isfinite(table).all():
            raise ConfigError(
                f"game {self.name!r}: payoffs hold numbers that are not finite. Every entry needs a payoff."
            )
        object.__setattr__(self, "payoffs", table)
        counts = table.shape[1:]
        actions = self.actions or tuple(tuple(map(str, range(count))) for count in counts)
        players = self.players or tuple(f"player_{i}" for i in range(len(counts)))
        if tuple(map(len, actions)) != counts or len(players) != len(counts):
            raise ConfigError(
                f"game {self.name!r}: names of {len(players)} players with {[len(a) for a in actions]} actions do not fit "
                f"payoffs of {len(counts)} players with {list(counts)} actions."
            )
        object.__setattr__(self, "actions", tuple(map(tuple, actions)))
        object.__setattr__(self, "players", tuple(players))

    # -- what kind of game -----------------------------------------------------------------------------------------

    @property
    def num_players(self) -> int:
        return len(self.players)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many actions each player has."""
        return tuple(map(len, self.actions))

    @cached_property
    def is_zero_sum(self) -> bool:
        return bool(np.abs(self.payoffs.sum(axis=0)).max() <= EXACT * self.scale)

    @cached_property
    def is_constant_sum(self) -> bool:
        return bool(np.ptp(self.payoffs.sum(axis=0)) <= EXACT * self.scale)

    @cached_property
    def is_common(self) -> bool:
        """Whether all are always paid alike."""
        return bool(np.ptp(self.payoffs, axis=0).max() <= EXACT * self.scale)

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether players can be exchanged: who plays what matters, not who is who."""
        n = self.num_players
        if len(set(self.shape)) > 1:
            return False
        for i in range(n - 1):  # swaps of neighbours give all permutations
            order = list(range(n))
            order[i], order[i + 1] = i + 1, i
            moved = self.payoffs[order].transpose(0, *(1 + j for j in order))
            if np.abs(moved - self.payoffs).max() > EXACT * self.scale:
                return False
        return True

    @cached_property
    def scale(self) -> float:
        """The largest payoff, at least 1: what rounding errors are compared with."""
        return max(1.0, float(np.abs(self.payoffs).max()))

    # -- playing it ------------------------------------------------------------------------------------------------

    def profile(self, strategies: Sequence[ArrayLike]) -> Profile:
        """The strategies as arrays; refuses what is not one distribution per player."""
        found = tuple(np.asarray(s, np.float64) for s in strategies)
        if tuple(s.shape for s in found) != tuple((count,) for count in self.shape):
            raise ConfigError(
                f"game {self.name!r}: strategies have the shapes {[s.shape for s in found]}; expected a distribution each "
                f"over {list(self.shape)} actions."
            )
        for player, strategy in zip(self.players, found, strict=True):
            if strategy.min() < -1e-6 or abs(strategy.sum() - 1) > 1e-6:
                raise ConfigError(f"game {self.name!r}: {player}'s strategy {strategy} is not a distribution (sum 1).")
        return found

    def pure(self, actions: Sequence[int]) -> Profile:
        """Everybody plays one action."""
        return tuple(np.eye(count)[action] for count, action in zip(self.shape, actions, strict=True))

    def uniform(self) -> Profile:
        return tuple(np.full(count, 1.0 / count) for count in self.shape)

    def deviations(self, profile: Profile, player: int) -> Payoffs:
        """What each action of the player earns against the others' strategies."""
        table: Payoffs = self.payoffs[player]
        for other in reversed(range(self.num_players)):  # the last axis first, so that axes keep their places
            if other != player:
                table = np.tensordot(table, profile[other], axes=(other, 0))
        return table

    def values(self, profile: Profile) -> Payoffs:
        """What each player earns."""
        return np.array([profile[i] @ self.deviations(profile, i) for i in range(self.num_players)])

    def gains(self, profile: Profile) -> Payoffs:
        """What each player could gain by its best deviation; never below 0 but for rounding."""
        earned = [self.deviations(profile, i) for i in range(self.num_players)]
        return np.array([row.max() - strategy @ row for row, strategy in zip(earned, profile, strict=True)])

    def nash_conv(self, profile: Profile) -> float:
        return float(self.gains(profile).sum())


def bimatrix(row: ArrayLike, column: ArrayLike | None = None, name: str = "game") -> MatrixGame:
    """A two-player game from the row player's table and the column player's; zero-sum without the latter."""
    first = np.asarray(row, np.float64)
    second = -first if column is None else np.asarray(column, np.float64)
    if first.ndim != 2 or first.shape != second.shape:
        raise ConfigError(f"bimatrix needs two tables of the same shape, got {first.shape} and {second.shape}.")
    return MatrixGame(np.stack([first, second]), name=name)
