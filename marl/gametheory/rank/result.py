"""What all rankings share: who is ranked in which population, and rows for reports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from marl.errors import ConfigError
from marl.gametheory.game import Payoffs
from marl.gametheory.payoffs import PayoffTensor


class Row(NamedTuple):
    """A strategy with its score and the interval it lies in; the interval is a point where no error is known."""

    name: str
    score: float
    low: float
    high: float


class Ranked(Protocol):
    """What a ranking returns: a score for every strategy; ``population`` says among whom each of them competes."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def scores(self) -> Payoffs: ...
    @property
    def population(self) -> NDArray[np.int64]: ...


def one_population(payoffs: PayoffTensor) -> bool:
    """Whether seats do not matter and two meet at a time, so that all strategies form a single population."""
    return payoffs.symmetric and len(payoffs.players) == 2


def labels(payoffs: PayoffTensor) -> tuple[str, ...]:
    """One name per strategy and population; with the player in front where there are several populations."""
    _refuse_twins(payoffs)
    if one_population(payoffs):
        return payoffs.names[0]
    found: list[str] = []
    for player, names in zip(payoffs.players, payoffs.names, strict=True):
        found += [f"{player}: {name}" for name in names]
    return tuple(found)


def populations(payoffs: PayoffTensor) -> NDArray[np.int64]:
    """The population of each label."""
    counts = [len(names) for names in payoffs.names]
    if one_population(payoffs):
        counts = counts[:1]  # both players draw from it
    return np.repeat(np.arange(len(counts)), counts)


def face_off(payoffs: PayoffTensor) -> tuple[Payoffs, Payoffs]:
    """One population: what each strategy earns on average against each other, from both seats, and the standard error.

    Errors of the two seats are averaged, which is right when both show the same matches and cautious otherwise.
    """
    mean, stderr = payoffs.mean, payoffs.stderr
    return (mean[0] + mean[1].T) / 2, (stderr[0] + stderr[1].T) / 2


def refuse_incomplete(payoffs: PayoffTensor, method: str) -> None:
    missing = np.argwhere(np.isnan(payoffs.mean).any(axis=0))
    if len(missing):
        first = [names[i] for names, i in zip(payoffs.names, missing[0], strict=True)]
        raise ConfigError(
            f"{method}: {len(missing)} of {payoffs.count.size} pairings have no payoff yet, the first is "
            f"{' against '.join(first)}; expected a "
            "payoff for every pairing. Finish the cross-play first, or rank by Elo, which copes with gaps."
        )


def refuse_more_than_two(payoffs: PayoffTensor, method: str) -> None:
    if len(payoffs.players) != 2:
        raise ConfigError(
            f"{method} compares two sides, but the payoffs are those of {len(payoffs.players)} players "
            f"({', '.join(payoffs.players)}). Rank them with alpha_rank, which takes any number."
        )


def table_rows(names: Iterable[str], scores: Payoffs, low: Payoffs, high: Payoffs) -> list[Row]:
    """Rows, the best first; equal scores keep their order."""
    cells = zip(names, scores.tolist(), low.tolist(), high.tolist(), strict=True)
    rows = [Row(*row) for row in cells]
    return sorted(rows, key=lambda row: -row.score)


def _refuse_twins(payoffs: PayoffTensor) -> None:
    for player, names in zip(payoffs.players, payoffs.names, strict=True):
        twins = sorted({name for name in names if names.count(name) > 1})
        if twins:
            raise ConfigError(
                f"{player} has two strategies called {twins[0]!r}. Give every strategy a name of its own."
            )
