"""What solvers return: a profile together with how far it is from an equilibrium."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marl.errors import ConfigError
from marl.gametheory.game import MatrixGame, Payoffs, Profile

TOLERANCE = 1e-8
"""A profile whose NashConv is below this, times the game's scale, counts as an equilibrium."""


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
    return Solution(profile, game.values(profile), conv, conv < TOLERANCE * game.scale, iterations, method)


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
    if not value > 0 or not np.isfinite(value):
        raise ConfigError(f"{what} is {value}; expected a finite number above 0.")
