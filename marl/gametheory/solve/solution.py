"""What solvers return: a profile together with how far it is from an equilibrium.

When is a gain 0 up to rounding? Player ``i`` gains ``sum_a x(a) (u_i(b, a_-i) - u_i(a))`` by its best deviation ``b``, a sum
in which gains and losses cancel in an equilibrium. So it is compared with the same sum of absolute differences: what is at
stake in the profile itself. Payoffs that nobody gets there, however large, excuse nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marl.errors import ConfigError
from marl.gametheory.game import MatrixGame, Payoffs, Profile

TOLERANCE = 1e-8
"""A profile in which no player gains more than this, times what is at stake for it, counts as an equilibrium."""


@dataclass(frozen=True, eq=False)
class Solution:
    """One strategy per player, what they earn with it, and what they could still gain by deviating."""

    profile: Profile
    values: Payoffs  # what each player earns
    nash_conv: float  # of the profile, computed from the game's own table
    converged: bool  # whether the method reached what it promises
    iterations: int  # pivots, Newton steps or rounds, as the method counts
    method: str


def solution(game: MatrixGame, profile: Profile, method: str, iterations: int = 0) -> Solution:
    """The profile with its NashConv; converged if that is 0 up to rounding."""
    conv = max(0.0, game.nash_conv(profile))
    return Solution(profile, game.values(profile), conv, is_equilibrium(game, profile), iterations, method)


def is_equilibrium(game: MatrixGame, profile: Profile) -> bool:
    """Whether no player gains by deviating, up to rounding."""
    return bool((game.gains(profile) <= TOLERANCE * stakes(game, profile) + game.noise).all())


def precise(game: MatrixGame, profile: Profile) -> bool:
    """Whether there is nothing left to polish."""
    return bool((game.gains(profile) <= 1e-4 * TOLERANCE * stakes(game, profile)).all())


def stakes(game: MatrixGame, profile: Profile) -> Payoffs:
    """How far a player's payoffs and those of its best deviation are apart on average, whatever the sign."""
    apart = []
    for player, strategy in enumerate(profile):
        best = int(game.deviations(profile, player).argmax())
        table = np.moveaxis(game.payoffs[player], player, 0)
        others = np.ones(())  # chance of every joint action of the others
        for strategy_of_other in (*profile[:player], *profile[player + 1 :]):
            others = np.multiply.outer(others, strategy_of_other)
        total = 0.0
        for action in np.flatnonzero(strategy):
            difference = np.abs(table[best] - table[action])
            total += strategy[action] * float((difference * others).sum())
        apart.append(total)
    return np.array(apart)


def clean(strategy: Payoffs) -> Payoffs:
    """The distribution nearest to rounding errors: nothing below 0, sum 1."""
    positive = np.where(strategy > 1e-14, strategy, 0.0)
    return np.asarray(positive / positive.sum())


def require_two_players(game: MatrixGame, what: str) -> None:
    if game.num_players != 2:
        raise ConfigError(
            f"{what} is for two players, and game {game.name!r} has {game.num_players}. For any number of players: "
            "nash(game), correlated(game), logit_qre(game, rationality)."
        )


def require_positive(what: str, value: float) -> None:
    if not isinstance(value, int | float | np.number) or not value > 0 or not np.isfinite(value):
        raise ConfigError(f"{what} is {value!r}; expected a finite number above 0.")


def require_whole(what: str, value: int) -> None:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"{what} is {value!r}; expected a whole number, 1 or more.")
