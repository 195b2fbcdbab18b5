"""Errors of numbers that were found on positions of sampled chance, as on trees (``tree/sampled.py``).

    error^2 = mean over redraws of (redrawn - found)^2 + (unseen * span)^2

The starts get the shares that as many seeds, drawn from those at hand, would have given them; the gains are computed again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from marl.gametheory.merged.positions import Positions
from marl.gametheory.tree.tree import Reals

REDRAWS, FEWER_REDRAWS = 100, 20
QUICK_S = 0.1  # a measurement that takes longer is redrawn fewer times: the error is known to a sixth then


def gain_errors(
    positions: Positions, gains: Reals, gains_at: Callable[[Reals], Reals], spans: Callable[[], Reals], seconds: float
) -> tuple[Reals, float]:
    """Standard errors of the gains ``[P]`` and of their sum; all 0 where chance is exact.

    ``gains_at`` computes the gains with other shares ``[S]`` of the starts, ``seconds`` is what that takes; ``spans``
    tells how far apart payoffs can be.
    """
    sample = positions.sample
    if sample is None:
        return np.zeros(len(gains)), 0.0
    rng = np.random.default_rng(sample.seeds)  # the same for the same sample, so that measurements repeat
    count = REDRAWS if seconds < QUICK_S else FEWER_REDRAWS
    shares = rng.multinomial(sample.seeds, sample.counts / sample.seeds, count) / sample.seeds
    redrawn = np.maximum([gains_at(one) for one in shares], 0.0)
    beside = sample.unseen * spans()
    spread = np.sqrt(((redrawn - gains) ** 2).mean(axis=0))
    total = np.sqrt(((redrawn.sum(axis=1) - gains.sum()) ** 2).mean())
    return np.hypot(spread, beside), float(np.hypot(total, beside.sum()))


def with_shares(positions: Positions, shares: Reals) -> Positions:
    """Other shares ``[S]`` of the starts. Where members of mixtures are drawn, each start is there once for every draw."""
    assert positions.sample is not None
    before = positions.sample.counts / positions.sample.seeds
    draws = len(positions.start) // len(before)
    return replace(positions, start_probability=positions.start_probability * np.repeat(shares / before, draws))


def spans_of(positions: Positions) -> Reals:
    """How far apart two payoffs of an episode can be ``[P]``; never 0, as unseen starts may pay what the seen ones do not."""
    most, least = np.zeros((2, len(positions), positions.num_players))
    bounds = positions.first_edge[positions.first_of_level]
    most[~positions.over], least[~positions.over] = -np.inf, np.inf
    for first, last in reversed(list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))):
        source, target = positions.source[first:last], positions.target[first:last]
        np.maximum.at(most, source, positions.rewards[first:last] + most[target])
        np.minimum.at(least, source, positions.rewards[first:last] + least[target])
    ranges = most[positions.start].max(axis=0) - least[positions.start].min(axis=0)
    scale = float(np.abs(positions.rewards).max(initial=0.0)) or 1.0
    return np.where(ranges > 0.0, ranges, scale)
