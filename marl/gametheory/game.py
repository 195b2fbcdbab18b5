"""Normal-form games: everybody picks an action at once and a table says who is paid what.

For a profile of mixed strategies ``x`` the distance to equilibrium is

    NashConv(x) = sum_i  max_a u_i(a, x_-i) - u_i(x)

which is 0 exactly in a Nash equilibrium. In a two-player zero-sum game half of it is the exploitability.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marl.errors import ConfigError
from marl.page import notebook

Payoffs: TypeAlias = NDArray[np.float64]
Strategy: TypeAlias = NDArray[np.float64]
"""Probabilities of one player's actions."""
Profile: TypeAlias = tuple[Strategy, ...]
"""One strategy per player."""
EXACT = 1e-9
"""Tables that differ by less, relative to how far payoffs spread, are equal."""
ULP = 4 * float(np.finfo(np.float64).eps)
"""Relative to the largest payoff: what a table may owe to rounding, however small the differences in it are."""


@dataclass(frozen=True, eq=False)
class MatrixGame:
    """``payoffs[i, a_0, a_1, ...]`` is what player ``i`` gets when player 0 plays ``a_0``, player 1 ``a_1``, and so on."""

    payoffs: Payoffs
    actions: tuple[tuple[str, ...], ...] = ()
    players: tuple[str, ...] = ()
    name: str = "game"

    def __post_init__(self) -> None:
        table = numbers(self.payoffs, f"game {self.name!r}: payoffs")
        if table.ndim < 2 or table.shape[0] != table.ndim - 1 or 0 in table.shape:
            raise ConfigError(
                f"game {self.name!r}: payoffs have shape {table.shape}; expected [players, actions of player 0, actions of "
                "player 1, ...], so one table per player with one axis per player. From two tables: bimatrix(row, column)."
            )
        if not np.isfinite(table).all():
            raise ConfigError(
                f"game {self.name!r}: payoffs hold numbers that are not finite. Every entry needs a payoff."
            )
        # The class is frozen; only here, before anybody has seen the game, its parts are brought into their form.
        object.__setattr__(self, "payoffs", table)
        self._set_names(table.shape[1:])

    def _set_names(self, counts: tuple[int, ...]) -> None:
        """Names as given, or numbers where none are."""
        actions: list[tuple[str, ...]] = list(map(tuple, self.actions))
        if not actions:
            actions = [tuple(map(str, range(count))) for count in counts]
        players = tuple(self.players)
        if not players:
            players = tuple(f"player_{i}" for i in range(len(counts)))
        sizes = [len(names) for names in actions]
        if sizes != list(counts) or len(players) != len(counts):
            raise ConfigError(
                f"game {self.name!r}: names of {len(players)} players with {sizes} actions do not fit "
                f"payoffs of {len(counts)} players with {list(counts)} actions."
            )
        object.__setattr__(self, "actions", tuple(actions))
        object.__setattr__(self, "players", players)

    def _repr_html_(self) -> str:
        """What a notebook shows of it: the table of two players, or who may do what."""
        if len(self.players) != 2:
            rows = [
                (player, len(names), ", ".join(names)) for player, names in zip(self.players, self.actions, strict=True)
            ]
            return notebook.block(self.name, notebook.table(("player", "actions", ""), rows))
        cells = []
        for row, name in enumerate(self.actions[0]):
            paid = [
                f"{one:g}, {other:g}" for one, other in zip(self.payoffs[0, row], self.payoffs[1, row], strict=True)
            ]
            cells.append((name, *paid))
        corner = f"{self.players[0]} \\ {self.players[1]}"
        return notebook.block(self.name, notebook.table((corner, *self.actions[1]), cells))

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
        return bool(np.abs(self.payoffs.sum(axis=0)).max() <= self._rounding)

    @cached_property
    def is_constant_sum(self) -> bool:
        return bool(np.ptp(self.payoffs.sum(axis=0)) <= self._rounding)

    @cached_property
    def is_common(self) -> bool:
        """Whether all are always paid alike."""
        return bool(np.ptp(self.payoffs, axis=0).max() <= self._rounding)

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether players can be exchanged: who plays what matters, not who is who."""
        n = self.num_players
        if len(set(self.shape)) > 1:
            return False
        for i in range(n - 1):  # swaps of neighbours give all permutations
            order = list(range(n))
            order[i], order[i + 1] = i + 1, i
            axes = [1 + player for player in order]
            moved = self.payoffs[order].transpose(0, *axes)
            if np.abs(moved - self.payoffs).max() > self._rounding:
                return False
        return True

    @cached_property
    def scale(self) -> float:
        """The largest payoff of anybody, without its sign; 1 where all are 0."""
        return float(np.abs(self.payoffs).max()) or 1.0

    @cached_property
    def spreads(self) -> Payoffs:
        """From the lowest to the highest payoff, for each player."""
        return np.asarray(np.ptp(self.payoffs.reshape(self.num_players, -1), axis=1))

    @cached_property
    def noise(self) -> Payoffs:
        """For each player: how small a difference of payoffs may be rounding and nothing else."""
        return np.asarray(ULP * np.abs(self.payoffs.reshape(self.num_players, -1)).max(axis=1))

    @cached_property
    def _rounding(self) -> float:
        """What tables of different players may differ by and still count as equal; the finest of them decides."""
        finest = 0.0
        moving = self.spreads[self.spreads > 0]  # a table of one number all over has no scale of its own
        if moving.size:
            finest = float(moving.min())
        return EXACT * finest + float(self.noise.sum())

    @cached_property
    def normalised(self) -> MatrixGame:
        """The same preferences: every player's payoffs from 0 up to at most 1, divided by a power of two."""
        low = self.payoffs.reshape(self.num_players, -1).min(axis=1)
        unit = np.exp2(np.ceil(np.log2(np.where(self.spreads > 0, self.spreads, 1.0))))
        ones = [1] * self.num_players
        return replace(self, payoffs=(self.payoffs - low.reshape(-1, *ones)) / unit.reshape(-1, *ones))

    # -- playing it ------------------------------------------------------------------------------------------------

    def profile(self, strategies: Sequence[ArrayLike]) -> Profile:
        """The strategies as arrays; refuses what is not one distribution per player."""
        found = tuple(numbers(strategy, f"game {self.name!r}: a strategy") for strategy in strategies)
        shapes = [strategy.shape for strategy in found]
        expected = [(count,) for count in self.shape]
        if shapes != expected:
            raise ConfigError(
                f"game {self.name!r}: strategies have the shapes {shapes}; expected a distribution each "
                f"over {list(self.shape)} actions."
            )
        for player, strategy in zip(self.players, found, strict=True):
            # Written so that NaN, which compares as false, is refused as well.
            is_distribution = strategy.min() >= -1e-6 and abs(strategy.sum() - 1) <= 1e-6
            if not is_distribution:
                raise ConfigError(f"game {self.name!r}: {player}'s strategy {strategy} is not a distribution (sum 1).")
        return found

    def pure(self, actions: Sequence[int]) -> Profile:
        """Everybody plays one action."""
        fits = len(actions) == self.num_players and all(map(_is_action, actions, self.shape))
        if not fits:
            raise ConfigError(
                f"game {self.name!r}: actions {list(actions)}; expected one number per player, from 0 up to "
                f"{[count - 1 for count in self.shape]}."
            )
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
        found = self.profile(profile)
        return np.array([strategy @ self.deviations(found, i) for i, strategy in enumerate(found)])

    def gains(self, profile: Profile) -> Payoffs:
        """What each player could gain by its best deviation; never below 0 but for rounding."""
        found = self.profile(profile)
        gains = []
        for player, strategy in enumerate(found):
            earned = self.deviations(found, player)
            gains.append(earned.max() - strategy @ earned)
        return np.array(gains)

    def nash_conv(self, profile: Profile) -> float:
        return float(self.gains(profile).sum())


def _is_action(action: object, count: int) -> bool:
    """Negative numbers would count from the end, and fractions fail without a word on whose they are."""
    return isinstance(action, int | np.integer) and 0 <= int(action) < count


def bimatrix(row: ArrayLike, column: ArrayLike | None = None, name: str = "game") -> MatrixGame:
    """A two-player game from the row player's table and the column player's; zero-sum without the latter."""
    first = numbers(row, "bimatrix: the row player's table")
    second = -first
    if column is not None:
        second = numbers(column, "bimatrix: the column player's table")
    if first.ndim != 2 or first.shape != second.shape:
        raise ConfigError(f"bimatrix needs two tables of the same shape, got {first.shape} and {second.shape}.")
    return MatrixGame(np.stack([first, second]), name=name)


def numbers(table: ArrayLike, what: str) -> Payoffs:
    """The table as an array; refuses rows of different lengths and entries that are no numbers."""
    try:
        return np.asarray(table, np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{what}: {error}. Expected numbers, in rows of equal length.") from error
