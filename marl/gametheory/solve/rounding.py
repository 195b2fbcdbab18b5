"""Ties of regrets stay ties, although sums are rounded.

Regret matching plays in proportion to *positive* regrets however small they are. Where actions tie, exact regrets are equal,
often 0, and computed ones differ by some 1e-17. Left alone, such noise decides what is played: all of the weight goes to one
of the tied actions instead of equal shares. And where equal shares are an unstable point, as in games in which players have to
come to terms, a difference of 1e-17 between two equally good actions grows with every iteration (sevenfold in
``blotto(coins=4,fields=2,players=3)``) until after a dozen of them another path is played.
"""

from __future__ import annotations

import numpy as np

from marl.data.task import Ints
from marl.gametheory.game import Payoffs

ROUNDING = 64 * float(np.finfo(np.float64).eps)
"""A difference below this share of the numbers that were added up is rounding: sums of a few thousand stay within it."""
WIDE = 32
"""Sets with more choices are sorted to find ties; in smaller ones all pairs are compared, which is faster for many sets."""


class Ties:
    """The regrets of one player; ``owner`` ``[choices]`` is the set of each choice; those of a set stand side by side."""

    def __init__(self, owner: Ints, scale: float) -> None:
        # What went up to 0.3 and came back in steps of 0.1 has the rounding of 0.3: the largest size so far counts, and from
        # the beginning that of the player's payoffs.
        self.largest = np.full(len(owner), scale)
        narrow: list[slice] = []
        self.wide: list[slice] = []
        ends = np.flatnonzero(np.diff(owner, append=-1)) + 1  # a set ends where the next choice belongs to another
        begin = 0
        for end in ends.tolist():
            found = narrow if end - begin <= WIDE else self.wide
            found.append(slice(begin, end))
            begin = end
        self.left, self.right = _pairs(narrow)
        self._grow(self.largest)

    def keep(self, regrets: Payoffs) -> None:
        """In place: regrets that are 0 but for rounding become 0; those of one set that are equal but for it become equal.

        It is called for every player in every iteration. Hence ``take`` and ``putmask``, faster than brackets on arrays of
        this size, and ``count_nonzero``, faster than ``any``: nearly always nothing has grown and there is no tie to mend.
        """
        size = np.abs(regrets)
        if np.count_nonzero(size > self.largest):
            self._grow(size)
        np.putmask(regrets, size <= self.tolerance, 0.0)
        apart = np.abs(regrets.take(self.left) - regrets.take(self.right))
        near = apart <= self.tolerance_right
        if np.count_nonzero(near) > np.count_nonzero(apart == 0.0):
            close = near & (apart > 0.0)
            regrets[self.right[close]] = regrets[self.left[close]]
        for choices in self.wide:
            _join(regrets[choices], self.tolerance[choices])

    def _grow(self, size: Payoffs) -> None:
        np.maximum(self.largest, size, out=self.largest)
        self.tolerance = ROUNDING * self.largest
        self.tolerance_right = self.tolerance.take(self.right)  # of every pair


def _pairs(sets: list[slice]) -> tuple[Ints, Ints]:
    """All pairs of choices of one set. Those with its first choice come last, so that ties of several end with its value."""
    left, right = [], []
    for choices in sets:
        for i in range(choices.stop - 1, choices.start - 1, -1):
            for j in range(i + 1, choices.stop):
                left.append(i)
                right.append(j)
    return np.array(left, np.int64), np.array(right, np.int64)


def _join(regrets: Payoffs, tolerance: Payoffs) -> None:
    """Neighbours in order of size that are equal but for rounding get the value of the smallest of them, in place."""
    order = np.argsort(regrets, kind="stable")
    ascending = regrets[order]
    begins = np.r_[True, np.diff(ascending) > tolerance[order[1:]]]
    group = np.cumsum(begins) - 1
    regrets[order] = ascending[begins][group]
