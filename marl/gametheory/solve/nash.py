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
        best = int(game.payoffs[0].argmax())
        return solution(game, game.pure([best]), "best action")
    if game.num_players > 2:
        return _many_players(game)
    known = None
    if game.is_constant_sum:
        known = zero_sum(game)
        if known.converged:
            return known
    return _two_players(game, known)


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
    bias = np.zeros(sum(game.shape))  # the branch that begins in uniform play
    for _ in range(STARTS):
        best = min(best, _along_branch(game, bias), key=_distance)
        if best.converged:
            break
        bias = 2.0 * rng.standard_normal(sum(game.shape))
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
    """The profile itself, and equilibria on the actions that it uses, by several ideas of what "uses" means."""
    guesses = [profile]
    for threshold in THRESHOLDS:
        used = [bool((strategy > threshold).any()) for strategy in profile]
        if all(used):  # else some player would have no action left
            guesses.append(sharpened(game, profile, threshold))
    return guesses


def pure_equilibria(game: MatrixGame) -> list[tuple[int, ...]]:
    """Joint actions from which nobody gains by deviating alone."""
    stable = np.ones(game.shape, bool)
    for player, payoffs in enumerate(game.payoffs):
        best = payoffs.max(axis=player, keepdims=True)
        # As good as the best is what is less by its last digits only, or by rounding.
        stable &= payoffs >= best - EXACT_DIGITS * np.abs(best) - game.noise[player]
    return [tuple(joint) for joint in np.argwhere(stable).tolist()]


def _distance(found: Solution) -> float:
    return found.nash_conv
