"""Rankings by name: what a report ranks by, and what it says about it.

One from outside is a function of a ``PayoffTensor``::

    def worst_case(payoffs):
        return scored(payoffs, payoffs.mean[0].min(axis=1))

    marl.register_ranking("worst_case", worst_case, title="Worst case", meaning="What the hardest opponent leaves.")
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marl.errors import ConfigError
from marl.failures import call_own
from marl.gametheory.game import Payoffs
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.rank.alpha import alpha_rank
from marl.gametheory.rank.average import nash_average
from marl.gametheory.rank.elo import elo
from marl.gametheory.rank.result import Ranked, Row, labels, populations, table_rows
from marl.registry import Registry

Rank: TypeAlias = Callable[[PayoffTensor], Ranked]


@dataclass(frozen=True, eq=False)
class Scores:
    """A score for every strategy of a table."""

    names: tuple[str, ...]
    scores: Payoffs
    population: NDArray[np.int64]

    def table(self) -> list[Row]:
        return table_rows(self.names, self.scores, self.scores, self.scores)


def scored(payoffs: PayoffTensor, scores: ArrayLike) -> Scores:
    """A ranking out of plain numbers, the larger the better: one per strategy, as `labels` names them."""
    names, found = labels(payoffs), np.asarray(scores, np.float64)
    if found.shape != (len(names),):
        raise ConfigError(
            f"a ranking has scores of shape {found.shape}; expected one for each of the {len(names)} strategies "
            f"({', '.join(names[:4])}{', ...' if len(names) > 4 else ''})."
        )
    return Scores(names, found, populations(payoffs))


def earned(payoffs: PayoffTensor) -> Scores:
    """What each strategy of a single player earns."""
    return Scores(payoffs.names[0], payoffs.mean[0], np.zeros(len(payoffs.names[0]), np.int64))


@dataclass(frozen=True)
class Ranking:
    """How a report ranks, and what it says about it."""

    rank: Rank
    title: str
    meaning: str
    draws: int = 200  # tables that are ranked anew to see how sure it is
    alone: bool = False  # for a single player or team, where there is nobody to beat; else for two players and more
    as_share: bool = False  # scores are shares, shown in percent
    orders_all: bool = True  # whether its order means something beyond the first places


RANKINGS: Registry[Ranking] = Registry("ranking")
RANKINGS.register(
    "payoff",
    Ranking(
        earned,
        "Payoff",
        "what an episode earns on average. Nobody plays against anybody, so that is all there is to compare.",
        alone=True,
    ),
)
RANKINGS.register(
    "elo",
    Ranking(
        elo,
        "Elo",
        "one number per entrant, as in chess. 100 points more are expected to win 64 % of the points, 400 more 91 %. Only "
        "differences count, not the level.",
    ),
)
RANKINGS.register(
    "nash_average",
    Ranking(
        nash_average,
        "Nash averaging",
        "what an entrant earns against the mixture of opponents that a perfect player would send. Copies of a weak opponent "
        "do not help anybody who beats it. In one population 0 is the best there is.",
        draws=50,  # it is slow
    ),
)
RANKINGS.register(
    "alpha_rank",
    Ranking(
        alpha_rank,
        "alpha-Rank",
        "let entrants compete for a long time, better replies replacing worse ones. The score is the share of time that each "
        "is in use. It copes with cycles and with games that are not zero-sum.",
        as_share=True,
        orders_all=False,  # it gives nearly all mass to whatever play ends in
    ),
)


def register_ranking(
    name: str, rank: Rank, *, title: str | None = None, meaning: str = "", draws: int = 200, alone: bool = False
) -> None:
    """Let reports rank by this function too: from a ``PayoffTensor`` to names, scores and populations (see ``scored``).

    ``title`` and ``meaning`` are for readers of the report, ``draws`` is how many tables with payoffs drawn anew are ranked
    for the intervals, ``alone`` says that it ranks a single player instead of opponents. A table that it cannot rank is
    refused by a ``ConfigError``, which the report shows.
    """
    if not callable(rank):
        raise ConfigError(f"ranking {name!r} is {rank!r}; expected a function of a PayoffTensor.")
    if not isinstance(draws, int) or draws < 1:
        raise ConfigError(f"ranking {name!r}: draws is {draws!r}; expected a whole number of at least 1.")
    RANKINGS.add(name, Ranking(_Own(name, rank), title or name, meaning or "a ranking of your own.", draws, alone))


@dataclass(frozen=True)
class _Own:
    """A ranking from outside, whose mistakes name it."""

    name: str
    rank: Rank

    def __call__(self, payoffs: PayoffTensor) -> Ranked:
        found: Any = call_own(f"ranking {self.name!r}", self.rank, payoffs)
        if not all(hasattr(found, part) for part in ("names", "scores", "population")):
            raise ConfigError(
                f"ranking {self.name!r} gave a {type(found).__name__}; expected names, scores and population, as "
                "marl.gametheory.rank.scored(payoffs, scores) gives them."
            )
        ranked: Ranked = found
        return ranked
