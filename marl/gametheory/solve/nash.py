"""One Nash equilibrium of any game, by the method that fits it.

- one player: its best action
- two players, constant sum: linear program
- two players: Lemke-Howson from every label until one ends in an equilibrium to the last digit; then, if the game is
  small, all equilibria
- more players: a pure equilibrium if there is one, else the logit branch followed until Newton's method on the actions in
  use hits an equilibrium; then branches from random starts

No method is sure to succeed with more than two players. What comes back then has ``converged`` False and its true NashConv.
"""

from __future__ import annotations

from math import comb

import numpy as np

from marl.gametheory.game import MatrixGame, Payoffs, Profile
from marl.gametheory.solve.enumerate import all_equilibria
from marl.gametheory.solve.lemke_howson import lemke_howson
from marl.gametheory.solve.polish import sharpened
from marl.gametheory.solve.qre import branch
from marl.gametheory.solve.solution import Solution, solution
from marl.gametheory.solve.zero_sum import zero_sum

AFFORDABLE = 200_000  # linear systems for the fallback of two-player games: about 10x10
MOST_RATIONAL = 1e7
STARTS = 20
EXACT_DIGITS = 1e-12
"""Two payoffs that differ by less, relative to the better one, are equal."""
THRESHOLDS = (1e-2, 1e-3, 1e-5)
"""Actions played less are taken for unused when an equilibrium is looked for near a logit equilibrium."""


def nash(game: MatrixGame) -> Solution:
    """An equilibrium; the same one at every call."""
    if game.num_players == 1:
        return solution(game, game.pure([int(game.payoffs[0].argmax())]), "best action")
    if game.num_players == 2:
        found = zero_sum(game) if game.is_constant_sum else None
        return found if found is not None and found.converged else _two_players(game, found)
    return _many_players(game)


def _two_players(game: MatrixGame, known: Solution | None) -> Solution:
    best = lemke_howson(game)
    if known is not None:
        best = min(known, best, key=_distance)
    for label in range(1, sum(game.shape)):
        if best.converged:
            return best
        best = min(best, lemke_howson(game, label), key=_distance)
    if not best.converged and comb(sum(game.shape), game.shape[0]) <= AFFORDABLE:
        best = min((best, *all_equilibria(game)), key=_distance)
    return best


def _many_players(game: MatrixGame) -> Solution:
    pure = pure_equilibria(game)
    if pure:
        best_for_all = max(pure, key=game.payoffs.sum(axis=0).__getitem__)
        return solution(game, game.pure(best_for_all), "pure equilibrium")
    rng = np.random.default_rng(0)
    best = solution(game, game.uniform(), "uniform play")
    for start in range(STARTS):
        bias = np.zeros(sum(game.shape)) if start == 0 else 2.0 * rng.standard_normal(sum(game.shape))
        best = min(best, _along_branch(game, bias), key=_distance)
        if best.converged:
            break
    return best


def _along_branch(game: MatrixGame, bias: Payoffs) -> Solution:
    """The best equilibrium found near points of one logit branch; the first that is exact ends the walk."""
    best = solution(game, game.uniform(), "uniform play")
    seen: list[list[list[bool]]] = []
    for point in branch(game.normalised, MOST_RATIONAL, bias):
        if point.rationality < 2.0:
            continue
        supports = []
        for threshold in THRESHOLDS:
            supports.append([(strategy > threshold).tolist() for strategy in point.profile])
        if supports == seen and point.steps % 10:  # the same guess again would fail again, mostly
            continue
        seen = supports
        for profile in _guesses(game, point.profile):
            best = min(best, solution(game, profile, "logit branch", point.steps), key=_distance)
        if best.converged:
            break
    return best


def _guesses(game: MatrixGame, profile: Profile) -> list[Profile]:
    return [profile, *(sharpened(game, profile, t) for t in THRESHOLDS if all((s > t).any() for s in profile))]


def pure_equilibria(game: MatrixGame) -> list[tuple[int, ...]]:
    """Joint actions from which nobody gains by deviating alone."""
    best = [
        game.payoffs[i] >= _least_best(game.payoffs[i].max(axis=i, keepdims=True), game.noise[i])
        for i in range(game.num_players)
    ]
    return [tuple(map(int, joint)) for joint in np.argwhere(np.logical_and.reduce(best))]


def _least_best(best: Payoffs, noise: float) -> Payoffs:
    """What is still as good as the best: less by its last digits only, or by rounding."""
    return np.asarray(best - EXACT_DIGITS * np.abs(best) - noise)


def _distance(found: Solution) -> float:
    return found.nash_conv
