"""Sharpen an approximate equilibrium: solve for equal payoffs on the actions that are in use.

On the supports ``S_i`` a profile is an equilibrium only if

    u_i(a, x_-i) = v_i  for a in S_i,     sum_a x_i(a) = 1,     x_i(a) = 0 elsewhere

which Newton's method solves; with two players the system is linear and one step is exact. Where it is singular the
smallest step is taken, so that the answer stays near to where it began.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from marl.gametheory.game import MatrixGame, Payoffs, Profile
from marl.gametheory.solve.solution import clean

STEPS = 30


def interactions(game: MatrixGame, profile: Profile) -> Payoffs:
    """``d u_i(a) / d x_j(b)`` for all players and actions, as one square matrix with zero blocks on the diagonal."""
    first = np.cumsum((0, *game.shape))
    slopes = np.zeros((first[-1], first[-1]))
    for i in range(game.num_players):
        for j in range(game.num_players):
            if i != j:
                slopes[first[i] : first[i + 1], first[j] : first[j + 1]] = _pair(game, profile, i, j)
    return slopes


def _pair(game: MatrixGame, profile: Profile, i: int, j: int) -> Payoffs:
    """What player i's actions (rows) earn against each action of player j (columns), the others playing as they do."""
    table: Payoffs = game.payoffs[i]
    for other in reversed(range(game.num_players)):
        if other not in (i, j):
            table = np.tensordot(table, profile[other], axes=(other, 0))
    return table if i < j else table.T


def polish(game: MatrixGame, profile: Profile, supports: Sequence[NDArray[np.bool_]]) -> Profile:
    """The equilibrium on these supports nearest to the profile; the profile itself where that is no improvement.

    Payoffs of actions outside are not looked at while solving, so that large ones among them cost no digits, and players
    count alike, whatever the units of their payoffs.
    """
    used = np.concatenate(supports)
    cells = np.ix_(*supports)
    within = MatrixGame(np.stack([table[cells] for table in game.payoffs])).normalised
    x = np.concatenate(profile)[used]
    units = np.where(game.spreads > 0, game.spreads, 1.0)
    best, best_conv = profile, float((game.gains(profile) / units).sum())
    for _ in range(STEPS if game.num_players > 2 else 2):  # linear with two players; the second step mends rounding
        x = x + _newton_step(within, x)
        if not np.isfinite(x).all() or x.min() < -0.1:
            break
        whole = np.zeros(len(used))
        whole[used] = x
        candidate = tuple(map(clean, _split(game, whole)))
        conv = float((game.gains(candidate) / units).sum())
        if conv >= best_conv:
            if best is not profile:
                break
            continue  # the first steps of Newton's method may lead away before it converges
        best, best_conv = candidate, conv
    return best


def _newton_step(game: MatrixGame, x: Payoffs) -> Payoffs:
    """For a game in which all actions are in use."""
    profile = _split(game, x)
    owner = np.repeat(np.eye(game.num_players), game.shape, axis=0)  # [actions, players]
    earned = np.concatenate([game.deviations(profile, i) for i in range(game.num_players)])
    values = owner.T @ earned / owner.sum(axis=0)
    count = len(x)
    system = np.zeros((count + game.num_players, count + game.num_players))
    system[:count, :count] = interactions(game, profile)
    system[:count, count:] = -owner
    system[count:, :count] = owner.T
    wanted = np.concatenate([owner @ values - earned, 1.0 - owner.T @ x])
    # Least squares, because supports with more actions than an equilibrium needs make the system singular.
    return np.asarray(np.linalg.lstsq(system, wanted, rcond=1e-13)[0][:count])


def _split(game: MatrixGame, x: Payoffs) -> Profile:
    return tuple(np.split(x, np.cumsum(game.shape)[:-1]))


def sharpened(game: MatrixGame, profile: Profile, threshold: float = 1e-9) -> Profile:
    """The profile polished on the actions that it plays with more than this probability."""
    return polish(game, profile, [strategy > threshold for strategy in profile])
