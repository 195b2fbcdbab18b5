"""Errors of a payoff table drawn anew, so that what belongs together stays together.

Within a cell ``e_i = stderr_i * z_i`` is added to player ``i``'s mean. The ``z`` are independent standard normals but for
three ties, each of which is kept if the table has it:

- one population: a pairing is the multiset of those who play, so all its seatings get one draw, and two who play the same
  strategy in it get the same number
- all are paid alike: one number per pairing
- payoffs add up to a constant: ``sum_i e_i = 0``. Independent ``y_i`` with the variances ``S b_i``, ``sum_i b_i = 1``, are
  drawn and their sum is taken off in proportion, ``e_i = y_i - b_i sum_j y_j``, which has the variance ``S b_i (1 - b_i)``.
  ``S`` and ``b`` are chosen so that this is ``stderr_i^2``. It can be for everybody only if no variance exceeds the sum of
  the others'; where one does, that player loses what the others win, and its own error comes out smaller.

Two players whose payoffs add up to a constant but whose errors differ were measured apart, so they are not tied.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from marl.gametheory.game import Payoffs

ROUNDING = 1e-6
"""Relative size of what measured payoffs owe to the float32 of the envs."""
HALVINGS = 60
WIDEST = 1e8


def drawn_errors(mean: Payoffs, stderr: Payoffs, one_population: bool, rng: np.random.Generator) -> NDArray[np.float64]:
    """What to add to the means, of their shape; NaN nowhere. ``one_population``: exchanged seats show the same matches."""
    error = np.where(np.isfinite(mean), stderr, 0.0)
    players, shape = len(mean), mean.shape[1:]
    noise = rng.standard_normal(mean.shape).reshape(players, -1)
    error = error.reshape(players, -1)
    opposed, alike = tied(mean, stderr)
    if not one_population:
        copies = np.ones_like(noise)
        return _tie(noise, error, copies, opposed, alike).reshape(mean.shape)
    joint = np.indices(shape).reshape(players, -1)
    order = np.argsort(joint, axis=0, kind="stable")
    seated = np.take_along_axis(joint, order, axis=0)  # [place, cell] strategies in order: the pairing
    pairing = np.ravel_multi_index(tuple(seated), shape)
    copies = (seated[:, None] == seated).sum(axis=1).astype(np.float64)
    first = (seated[:, None] == seated).argmax(axis=0)  # the first place with the same strategy
    copies = np.where(first == np.arange(players)[:, None], copies, 0.0)  # one place speaks for all its copies
    found = _tie(noise[:, pairing], error[:, pairing], copies[:, pairing], opposed, alike)
    places = np.take_along_axis(found, first, axis=0)
    drawn = np.empty_like(places)
    np.put_along_axis(drawn, order, places, axis=0)
    return drawn.reshape(mean.shape)


def tied(mean: Payoffs, stderr: Payoffs) -> tuple[bool, bool]:
    """Whether the players' payoffs add up to a constant, and whether all are paid alike, as far as both can be told."""
    played = np.isfinite(mean).all(axis=0)
    means, errors = mean[:, played], stderr[:, played]
    if not means.size or len(means) < 2:
        return False, False
    close = ROUNDING * max(float(np.abs(means).max()), float(errors.max()))
    equal = bool(np.ptp(errors, axis=0).max() <= ROUNDING * errors.max())
    opposed = bool(np.ptp(means.sum(axis=0)) <= close) and (equal or len(means) > 2)
    return opposed, equal and bool(np.ptp(means, axis=0).max() <= close)


def _tie(noise: Payoffs, error: Payoffs, copies: Payoffs, opposed: bool, alike: bool) -> Payoffs:
    """Errors ``[places, cells]``; a place stands for so many ``copies``, 0 where another place speaks for it."""
    if alike:
        return np.asarray(noise[0] * error)
    if not opposed:
        return np.asarray(noise * error)
    shares, total = _shares_of((error * copies).tobytes(), error.shape)
    independent = np.sqrt(total * shares) * noise
    zero_sum = independent - shares * independent.sum(axis=0)
    return np.asarray(np.divide(zero_sum, copies, out=np.zeros_like(zero_sum), where=copies > 0))


@lru_cache(maxsize=256)
def _shares_of(errors: bytes, shape: tuple[int, ...]) -> tuple[Payoffs, Payoffs]:
    """The same for the hundreds of tables that are drawn from one."""
    return _shares(np.frombuffer(errors).reshape(shape))


def _shares(error: Payoffs) -> tuple[Payoffs, Payoffs]:
    """``b`` and ``S`` with ``S b_i (1 - b_i) = error_i^2`` and ``sum b = 1``, for every cell ``[places, cells]``.

    ``b_i = (1 - sqrt(1 - 4 error_i^2 / S)) / 2``, in which the largest may have the plus; then ``S`` is found by halving.
    """
    if len(error) == 2:
        return np.full_like(error, 0.5), np.asarray(4 * error.min(axis=0) ** 2)
    largest = error.max(axis=0)
    unit = np.where(largest > 0, largest, 1.0)
    square = (error / unit) ** 2  # the largest is 1, so S is 4 or more
    top = error.argmax(axis=0)[None]

    def at(total: Payoffs, plus: NDArray[np.bool_]) -> Payoffs:
        root = np.sqrt(np.maximum(1 - 4 * square / total, 0.0))
        low = 2 * square / total / (1 + root)  # (1 - root) / 2 without cancellation
        high = np.where(plus, (1 + np.take_along_axis(root, top, axis=0)) / 2, np.take_along_axis(low, top, axis=0))
        np.put_along_axis(low, top, high, axis=0)
        return np.asarray(low)

    least = np.full(error.shape[1:], 4.0)
    plus = at(least, np.zeros(least.shape, bool)).sum(axis=0) < 1
    # With the plus the sum grows with S and with the minus it falls; where it never gets to 1, S ends at its largest.
    low, high = np.log(least), np.full_like(least, np.log(WIDEST))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        short = at(np.exp(middle), plus).sum(axis=0) < 1
        rising = short == plus
        low, high = np.where(rising, middle, low), np.where(rising, high, middle)
    total = np.exp(high)
    shares = at(total, plus)
    others = shares.sum(axis=0) - np.take_along_axis(shares, top, axis=0)[0]
    np.put_along_axis(shares, top, (1 - others)[None], axis=0)
    return shares, total * unit**2
