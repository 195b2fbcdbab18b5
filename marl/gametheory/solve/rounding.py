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
        begins = np.flatnonzero(np.diff(owner, prepend=-1))  # a set begins where the choice before belongs to another
        counts = np.diff(begins, append=len(owner))
        wide = np.flatnonzero(counts > WIDE)
        self.wide = [slice(begin, begin + count) for begin, count in zip(begins[wide], counts[wide], strict=True)]
        self.left, self.right = _pairs(begins, counts)
        self._size, self._flags = np.empty(len(owner)), np.empty(len(owner), bool)
        self._apart, self._other = np.empty(len(self.left)), np.empty(len(self.left))
        self._near, self._equal = np.empty(len(self.left), bool), np.empty(len(self.left), bool)
        self._grow(self.largest)

    def keep(self, regrets: Payoffs) -> None:
        """In place: regrets that are 0 but for rounding become 0; those of one set that are equal but for it become equal.

        It is called for every player in every iteration. Hence arrays that are kept, ``take``, faster than brackets on
        arrays of this size, and ``count_nonzero``, faster than ``any``: nearly always nothing has grown and there
        is no tie to mend.
        """
        size, flags = np.abs(regrets, out=self._size), self._flags
        if np.count_nonzero(np.greater(size, self.largest, out=flags)):
            self._grow(size)
        # A product instead of a mask: what is 0 changes all the time, and processors guess branches badly.
        np.multiply(regrets, np.greater(size, self.tolerance, out=flags), out=regrets)
        self._join_pairs(regrets)
        for choices in self.wide:
            _join(regrets[choices], self.tolerance[choices])

    def _join_pairs(self, regrets: Payoffs) -> None:
        apart, near = self._apart, self._near
        # With an array for the answer, "clip" keeps numpy from making another one; all numbers are in range.
        regrets.take(self.left, None, apart, "clip")
        np.subtract(apart, regrets.take(self.right, None, self._other, "clip"), out=apart)
        np.abs(apart, out=apart)
        found = np.count_nonzero(np.less_equal(apart, self.tolerance_right, out=near))
        if found > np.count_nonzero(np.equal(apart, 0.0, out=self._equal)):
            close = near & ~self._equal
            regrets[self.right[close]] = regrets[self.left[close]]

    def _grow(self, size: Payoffs) -> None:
        np.maximum(self.largest, size, out=self.largest)
        self.tolerance = ROUNDING * self.largest
        self.tolerance_right = self.tolerance.take(self.right)  # of every pair


def _pairs(begins: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """All pairs of choices of one set. Those with its first choice come last, so that ties of several end with its value."""
    left, right = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for count in np.unique(counts[counts <= WIDE]).tolist():
        first = begins[counts == count][:, None]  # of all sets of this size
        for i in range(count - 1, -1, -1):
            later = np.arange(i + 1, count)
            left.append(np.broadcast_to(first + i, (len(first), len(later))).ravel())
            right.append((first + later).ravel())
    return np.concatenate(left), np.concatenate(right)


def _join(regrets: Payoffs, tolerance: Payoffs) -> None:
    """Neighbours in order of size that are equal but for rounding get the value of the smallest of them, in place."""
    order = np.argsort(regrets, kind="stable")
    ascending = regrets[order]
    begins = np.r_[True, np.diff(ascending) > tolerance[order[1:]]]
    group = np.cumsum(begins) - 1
    regrets[order] = ascending[begins][group]
