"""Errors of numbers that were read from a tree of sampled chance.

The tree's shares of the starts come from ``n`` seeds; another ``n`` would have given others. So the shares are redrawn, each
time as ``n`` seeds drawn from those at hand (the bootstrap; Efron, 1979), and the number is computed again:

    error^2 = mean over redraws of (redrawn - found)^2 + (unseen * span)^2

The first part holds the spread and the lean: what a best response earns is a maximum over noisy numbers, so sampled gains err
upwards, and redrawn ones lean by about as much again. The second part stands for starts that no seed gave: ``unseen`` is the
chance to meet one, ``span`` the range of what a player is paid. What a strategy earns is a plain mean over starts, whose
variance is known without redrawing; the value of a game moves with the shares as what its equilibrium strategies earn does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from marl.gametheory.tree.response import plan_gains
from marl.gametheory.tree.tree import Behaviour, ChanceSample, Reals, Tree

REDRAWS = 100


@dataclass(frozen=True, eq=False)
class Gains:
    """What each player could gain by its best reply, never below 0, with standard errors; all 0 where chance is exact."""

    gains: Reals  # [P]
    errors: Reals  # [P]
    total_error: float

    @property
    def nash_conv(self) -> float:
        return float(self.gains.sum())


def gains_with_errors(tree: Tree, strategy: Behaviour) -> Gains:
    """Gains of a strategy of all players, and how far chance may have moved them."""
    plans = tree.form.plans(tree.checked(strategy))
    found = np.maximum(plan_gains(tree, plans), 0.0)
    if tree.sample is None:
        return Gains(found, np.zeros(tree.num_players), 0.0)
    parts = [_by_start(tree, plans, player) for player in range(tree.num_players)]
    redrawn = np.array([_redrawn_gains(tree, plans, parts, shares) for shares in _redrawn_shares(tree.sample)])
    beside = tree.sample.unseen * spans(tree)
    errors = np.hypot(_distance(redrawn, found), beside)
    total = np.hypot(_distance(redrawn.sum(axis=1), found.sum()), beside.sum())
    return Gains(found, errors, float(total))


def value_errors(tree: Tree, strategy: Behaviour) -> Reals:
    """Standard errors ``[P]`` of what a strategy earns; of the values of the game if it is an equilibrium."""
    if tree.sample is None:
        return np.zeros(tree.num_players)
    plans = tree.form.plans(tree.checked(strategy))
    shares, seeds = tree.sample.counts / tree.sample.seeds, tree.sample.seeds
    spread = np.zeros(tree.num_players)
    for player, plan in enumerate(plans):
        earned = _by_start(tree, plans, player) @ plan  # [D]
        spread[player] = np.sqrt(shares @ (earned - shares @ earned) ** 2 / seeds)
    return np.asarray(np.hypot(spread, tree.sample.unseen * spans(tree)))


def spans(tree: Tree) -> Reals:
    """How far apart two payoffs of each player can be ``[P]``; never 0, as unseen starts may pay what the seen ones do not."""
    paid = tree.payoffs[tree.terminal]
    ranges: Reals = np.ptp(paid, axis=0)
    return np.where(ranges > 0.0, ranges, tree.scale or 1.0)


def _by_start(tree: Tree, plans: list[Reals], player: int) -> Any:
    """Counterfactual payoffs of the player's sequences, apart for each start: sparse ``[D, sequences]``."""
    ends, form = tree.form.ends, tree.form.players[player]
    weights = tree.payoffs[tree.terminal, player]
    for other, plan in enumerate(plans):
        if other != player:
            weights = weights * plan[ends.sequences[:, other]]
    assert tree.sample is not None
    shape = (tree.sample.starts, form.num_sequences)
    return sparse.csr_array((weights, (ends.start, ends.sequences[:, player])), shape=shape)


def _redrawn_shares(sample: ChanceSample) -> Reals:
    """``[redraws, D]``; the same for the same sample, so that measurements repeat."""
    rng = np.random.default_rng(sample.seeds)
    drawn = rng.multinomial(sample.seeds, sample.counts / sample.seeds, REDRAWS)
    return np.asarray(drawn / sample.seeds)


def _redrawn_gains(tree: Tree, plans: list[Reals], parts: list[Any], shares: Reals) -> Reals:
    """Gains ``[P]`` in the game with other shares of the starts."""
    found = np.empty(len(plans))
    for player, (form, plan) in enumerate(zip(tree.form.players, plans, strict=True)):
        payoffs = parts[player].T @ shares
        earned = float(plan @ payoffs)
        found[player] = form.best_value(payoffs) - earned
    return np.maximum(found, 0.0)


def _distance(redrawn: Reals, found: Reals | float) -> Reals:
    """Root of the mean square."""
    return np.asarray(np.sqrt(((redrawn - found) ** 2).mean(axis=0)))
