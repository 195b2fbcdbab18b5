"""How sure a ranking is: rank again and again with payoffs drawn anew within their errors.

Any function from a :class:`PayoffTensor` to a ranking will do; `responses` and `cycles` too, whose answer are shares of the
drawn tables (:mod:`shares`). Intervals are percentiles of the scores over the draws; the
chance of a rank is the share of draws in which a strategy has it, tied ranks being shared out evenly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from marl.errors import ConfigError
from marl.gametheory.game import EXACT, Payoffs
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.rank.response import Cycles, Responses
from marl.gametheory.rank.result import Ranked, Row, table_rows
from marl.gametheory.rank.shares import ResponseShares, response_shares


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Scores of the measured table with intervals, and how often each strategy took which rank in its population."""

    names: tuple[str, ...]
    scores: Payoffs
    population: NDArray[np.int64]
    low: Payoffs
    high: Payoffs
    ranks: Payoffs  # [names, ranks]: chance of rank 1, 2, ... within the population
    orders: tuple[tuple[tuple[str, ...], float], ...]  # whole orders with their share of the draws, the commonest first
    confidence: float
    draws: int

    @property
    def first(self) -> Payoffs:
        """The chance of being the best of the population."""
        best: Payoffs = self.ranks[:, 0]
        return best

    def table(self) -> list[Row]:
        return table_rows(self.names, self.scores, self.low, self.high)

    def as_json(self) -> dict[str, Any]:
        rows = zip(self.names, self.scores, self.low, self.high, self.first, strict=True)
        return {
            "method": "bootstrap",
            "confidence": self.confidence,
            "draws": self.draws,
            "strategies": [
                {"name": name, "score": float(s), "low": float(lo), "high": float(hi), "first": float(first)}
                for name, s, lo, hi, first in rows
            ],
            "orders": [{"order": list(order), "share": share} for order, share in self.orders[:10]],
        }


@overload
def bootstrap(
    payoffs: PayoffTensor,
    method: Callable[[PayoffTensor], Responses | Cycles],
    draws: int = 200,
    confidence: float = 0.95,
    seed: int = 0,
) -> ResponseShares: ...
@overload
def bootstrap(
    payoffs: PayoffTensor,
    method: Callable[[PayoffTensor], Ranked],
    draws: int = 200,
    confidence: float = 0.95,
    seed: int = 0,
) -> Bootstrap: ...
def bootstrap(
    payoffs: PayoffTensor,
    method: Callable[[PayoffTensor], Ranked | Responses | Cycles],
    draws: int = 200,
    confidence: float = 0.95,
    seed: int = 0,
) -> Bootstrap | ResponseShares:
    """Ranks ``draws`` tables drawn anew. An exact table has no errors, so one draw says all.

    For `responses` and `cycles` the answer are shares, which have no intervals: ``confidence`` is of no use to them.
    """
    whole = isinstance(draws, int | np.integer)
    if not whole or draws < 1 or not 0 < confidence < 1:
        raise ConfigError(
            f"bootstrap: draws is {draws} and confidence {confidence}; expected at least 1 draw and a share between 0 and 1."
        )
    measured = method(payoffs)
    if isinstance(measured, Responses | Cycles):
        found = measured.cycles if isinstance(measured, Responses) else measured
        return response_shares(payoffs, measured.graph, found, measured.significance, draws, seed)
    return _ranked(payoffs, method, measured, draws, confidence, seed)


def _ranked(
    payoffs: PayoffTensor,
    method: Callable[[PayoffTensor], Any],
    measured: Ranked,
    draws: int,
    confidence: float,
    seed: int,
) -> Bootstrap:
    rng = np.random.default_rng(seed)
    count = 1 if payoffs.is_exact else draws
    scores = np.stack([method(payoffs.redrawn(rng)).scores for _ in range(count)])
    largest = float(np.nanmax(np.abs(payoffs.mean), initial=0.0))
    unit = min(1.0, largest) or 1.0
    low, high = np.quantile(scores, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    ranks = np.mean([rank_shares(row, measured.population, unit) for row in scores], axis=0)
    seen = Counter(tuple(np.lexsort((-_rounded(row, unit), measured.population)).tolist()) for row in scores)
    orders = tuple((tuple(measured.names[i] for i in order), n / count) for order, n in seen.most_common())
    return Bootstrap(measured.names, measured.scores, measured.population, low, high, ranks, orders, confidence, count)


def rank_shares(scores: Payoffs, population: NDArray[np.int64], unit: float = 1.0) -> Payoffs:
    """``[names, ranks]``: 1 at the rank within the population, shared out evenly among those with equal scores.

    ``unit`` is the size of scores that matter, 1 or that of small payoffs.
    """
    rounded = _rounded(scores, unit)
    rivals = population[:, None] == population
    better = (rivals & (rounded > rounded[:, None])).sum(axis=1)
    equal = (rivals & (rounded == rounded[:, None])).sum(axis=1)
    rank = np.arange(np.bincount(population).max())
    shares: Payoffs = ((rank >= better[:, None]) & (rank < (better + equal)[:, None])) / equal[:, None]
    return shares


def _rounded(scores: Payoffs, unit: float) -> Payoffs:
    """Scores without rounding noise, so that equal ones compare as equal."""
    digit = EXACT * max(unit, float(np.abs(scores).max()))
    rounded: Payoffs = np.round(scores / digit) * digit
    return rounded
