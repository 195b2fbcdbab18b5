"""Elo ratings by maximum likelihood (Bradley and Terry, 1952): one number per strategy, right where play is not cyclic.

The chance that ``a`` beats ``b`` is ``1 / (1 + 10^((b - a) / 400))``, a draw counts half, and the ratings maximise

    sum over pairings  n (w log s(d) + (1 - w) log s(-d))  +  prior * sum over strategies  log(s(r) s(-r)) / 2

with the win share ``w`` of ``n`` matches, ``d`` the difference of the ratings and ``s`` the logistic function. The second sum
is as if everybody had drawn ``prior`` matches against a rating of 0: it keeps undefeated strategies finite and fixes the
level. Standard errors come from the inverse of the second derivative; they are those of the distance to the mean rating, as
the common level is a convention.

Payoffs become win shares linearly: from the scale ``bounds`` (loss, win), which is -1..1 for zero-sum payoffs within it, 0..1
for shares that add up to 1, and else the smallest and largest payoff in the table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit

from marl.errors import ConfigError
from marl.gametheory.game import EXACT, Payoffs, numbers
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.rank.response import SIGNIFICANCE, cycles
from marl.gametheory.rank.result import Row, labels, one_population, populations, refuse_more_than_two, table_rows

POINTS = 400.0 / math.log(10.0)
"""Elo points per unit of the logistic scale."""
EXACT_WEIGHT = 1000.0
"""Matches that a pairing with an exact payoff counts for; next to them the prior is small."""
ROUNDING = 1e-7
"""Elo points that are only what the search for the best ratings leaves over."""
INTERVAL = 1.959964
"""Standard errors to each side that hold 95 %."""


@dataclass(frozen=True, eq=False)
class Elo:
    """``misfit`` is the root mean square of observed minus expected win shares; ``warning`` says when not to trust ratings."""

    names: tuple[str, ...]
    scores: Payoffs  # Elo points; 0 is the level of the prior
    population: NDArray[np.int64]
    stderr: Payoffs  # Elo points, of the distance to the mean rating; 0 where the payoffs are exact
    misfit: float
    worst: tuple[str, str, float, float]  # the pairing that fits worst: who, against whom, observed, expected
    warning: str | None

    def table(self) -> list[Row]:
        reach = INTERVAL * self.stderr
        return table_rows(self.names, self.scores, self.scores - reach, self.scores + reach)

    def expected(self, first: str, second: str) -> float:
        """The win share that the ratings promise the first against the second."""
        gap = self.scores[self.names.index(first)] - self.scores[self.names.index(second)]
        return float(expit(gap / POINTS))

    def as_json(self) -> dict[str, Any]:
        return {
            "method": "elo",
            "scores": dict(zip(self.names, self.scores.tolist(), strict=True)),
            "stderr": dict(zip(self.names, self.stderr.tolist(), strict=True)),
            "misfit": self.misfit,
            "worst": list(self.worst),
            "warning": self.warning,
        }


class _Matches(NamedTuple):
    """One entry per pairing: who met whom, the first one's win share, and how many matches it stands for."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    share: Payoffs
    weight: Payoffs


def elo(
    payoffs: PayoffTensor,
    bounds: tuple[float, float] | None = None,
    prior: float = 1.0,
    significance: float = SIGNIFICANCE,
) -> Elo:
    """Ratings from a two-player constant-sum table. Pairings without a payoff are left out."""
    refuse_more_than_two(payoffs, "Elo")
    if not prior > 0:
        raise ConfigError(f"Elo: prior is {prior}; expected a positive number of drawn matches, such as 1.")
    names = labels(payoffs)
    matches = _matches(payoffs, bounds)
    ratings, covariance = _fit(matches, len(names), prior)
    expected = expit(ratings[matches.first] - ratings[matches.second])
    gap = matches.share - expected
    misfit = math.sqrt(float(np.average(gap**2, weights=matches.weight))) if len(gap) else 0.0
    # The covariance takes weights for matches, and an exact payoff comes from none.
    exact = not payoffs.count.any()
    stderr = np.zeros(len(names)) if exact else POINTS * _spread(covariance)
    warning = _warning(payoffs, matches, len(names), significance)
    scores = POINTS * ratings
    scores[np.abs(scores) < ROUNDING] = 0.0
    return Elo(names, scores, populations(payoffs), stderr, misfit, _worst(names, matches, expected), warning)


def elo_from_results(wins: ArrayLike, draws: ArrayLike, names: Sequence[str], prior: float = 1.0) -> Elo:
    """Ratings from counts: ``wins[a, b]`` matches that ``a`` won against ``b``, ``draws[a, b]`` that nobody won."""
    return elo(payoffs_from_results(wins, draws, names), (0.0, 1.0), prior)


def payoffs_from_results(wins: ArrayLike, draws: ArrayLike, names: Sequence[str]) -> PayoffTensor:
    """Win shares with their standard errors, one population; a draw is half a win."""
    won, drawn = numbers(wins, "results: wins"), numbers(draws, "results: draws")
    _check_counts(won, drawn, len(names))
    matches = won + won.T + drawn
    with np.errstate(divide="ignore", invalid="ignore"):  # who has not met has NaN
        share = (won + drawn / 2) / matches
        square = (won + drawn / 4) / matches
        stderr = np.sqrt(np.maximum(square - share**2, 0.0) / np.maximum(matches - 1, 1))
    np.fill_diagonal(share, 0.5)  # nobody meets itself, and would draw
    np.fill_diagonal(stderr, 0.0)
    same = (tuple(names), tuple(names))
    mean, error = np.stack([share, share.T]), np.stack([stderr, stderr.T])
    return PayoffTensor(mean, error, matches.astype(np.int64), same, ("player_0", "player_1"), symmetric=True)


def _check_counts(won: Payoffs, drawn: Payoffs, strategies: int) -> None:
    size = (strategies, strategies)
    are_tables = strategies > 0 and won.shape == size and drawn.shape == size
    counts = np.concatenate([won.reshape(-1), drawn.reshape(-1)])
    are_counts = bool(np.isfinite(counts).all()) and bool((counts >= 0).all())
    # A draw between two is a draw for both of them.
    if not (are_tables and are_counts and np.array_equal(drawn, drawn.T)):
        raise ConfigError(
            f"results of {strategies} strategies: wins {won.shape} and draws {drawn.shape}; expected two tables of counts, 0 "
            f"or more, of shape {size}, the draws the same on both sides of the diagonal."
        )


def _matches(payoffs: PayoffTensor, bounds: tuple[float, float] | None) -> _Matches:
    low, high = bounds or _scale(payoffs)
    if not low < high:
        raise ConfigError(f"Elo: bounds are {(low, high)}; expected the payoff of a loss and a larger one of a win.")
    share = (payoffs.mean[0] - low) / (high - low)
    other = (payoffs.mean[1] - low) / (high - low)
    known = np.isfinite(share)
    off = np.abs(share + other - 1)[known].max(initial=0.0)
    if off > 1e-6 or (np.abs(share - 0.5)[known] > 0.5 + _chance(payoffs)[known]).any():
        raise ConfigError(
            f"Elo needs payoffs between {low:g} (loss) and {high:g} (win) that mirror each other for both players; win shares "
            f"are off by up to {off:.3g}. Give bounds=(loss, win), or rank with alpha_rank, which takes any game."
        )
    if one_population(payoffs):
        np.fill_diagonal(known, False)
        if payoffs.is_mirrored:
            known &= np.triu(known)  # both halves tell of the same matches
    first, second = np.nonzero(known)
    weight = np.where(payoffs.count[known] > 0, payoffs.count[known], EXACT_WEIGHT)
    offset = 0 if one_population(payoffs) else len(payoffs.names[0])
    return _Matches(first, second + offset, np.clip(share[known], 0.0, 1.0), weight.astype(np.float64))


def _scale(payoffs: PayoffTensor) -> tuple[float, float]:
    """The payoffs of a loss and of a win, as far as the table shows them."""
    known = payoffs.mean[:, np.isfinite(payoffs.mean).all(axis=0)]
    if not known.size:
        return 0.0, 1.0
    total = known.sum(axis=0)
    chance = _chance(payoffs)[np.isfinite(payoffs.mean).all(axis=0)]
    for low, high in ((-1.0, 1.0), (0.0, 1.0)):
        beyond = np.maximum(known - high, low - known) / (high - low)
        if np.abs(total - low - high).max() <= EXACT and (beyond <= chance).all():
            return low, high
    low, high = float(known.min()), float(known.max())
    return (low, high) if low < high else (low - 1.0, high + 1.0)


def _chance(payoffs: PayoffTensor) -> Payoffs:
    """How far beyond 0..1 a win share may be by chance when it was drawn anew: five standard errors at most."""
    chance: Payoffs = np.where(payoffs.count > 0, 2.5 / np.sqrt(np.maximum(payoffs.count, 1)), EXACT)
    return chance


def _fit(matches: _Matches, count: int, prior: float) -> tuple[Payoffs, Payoffs]:
    """Ratings on the logistic scale and their covariance, by Newton's method with halved steps; the problem is convex."""
    ratings: Payoffs = np.zeros(count)
    rounding = 1e-12 * (matches.weight.sum() + prior * count)
    for _ in range(200):
        gradient, hessian = _slopes(ratings, matches, prior)
        step = np.linalg.solve(hessian, -gradient)
        if np.abs(step).max() < 1e-11:
            break
        loss, factor = _loss(ratings, matches, prior), 1.0
        while _loss(ratings + factor * step, matches, prior) > loss + rounding and factor > 1e-9:
            factor /= 2
        ratings = ratings + factor * step
    return ratings, np.linalg.inv(_slopes(ratings, matches, prior)[1]).astype(np.float64)


def _spread(covariance: Payoffs) -> Payoffs:
    """Standard errors of the ratings' distances to their mean."""
    centred = covariance - covariance.mean(axis=0) - covariance.mean(axis=1)[:, None] + covariance.mean()
    spread: Payoffs = np.sqrt(np.maximum(np.diag(centred), 0.0))
    return spread


def _loss(ratings: Payoffs, matches: _Matches, prior: float) -> float:
    gap = ratings[matches.first] - ratings[matches.second]
    fit = matches.weight * (matches.share * log_expit(gap) + (1 - matches.share) * log_expit(-gap))
    return -float(fit.sum() + prior * (log_expit(ratings) + log_expit(-ratings)).sum() / 2)


def _slopes(ratings: Payoffs, matches: _Matches, prior: float) -> tuple[Payoffs, Payoffs]:
    """Gradient and second derivative of the loss."""
    won = expit(ratings[matches.first] - ratings[matches.second])
    pull = matches.weight * (won - matches.share)
    curve = matches.weight * won * (1 - won)
    own = expit(ratings)
    gradient = prior * (own - 0.5)
    np.add.at(gradient, matches.first, pull)
    np.add.at(gradient, matches.second, -pull)
    hessian = np.diag(prior * own * (1 - own))
    a, b = matches.first, matches.second
    for row, column, sign in ((a, a, 1), (b, b, 1), (a, b, -1), (b, a, -1)):
        # Not `+=`, which counts a pair that stands there twice only once.
        np.add.at(hessian, (row, column), sign * curve)
    return gradient, hessian


def _worst(names: tuple[str, ...], matches: _Matches, expected: Payoffs) -> tuple[str, str, float, float]:
    if not len(expected):
        return names[0], names[0], 0.5, 0.5
    at = int(np.abs(matches.share - expected).argmax())
    return names[matches.first[at]], names[matches.second[at]], float(matches.share[at]), float(expected[at])


def _warning(payoffs: PayoffTensor, matches: _Matches, count: int, significance: float) -> str | None:
    """Why one number per strategy does not tell the story, if it does not."""
    if one_population(payoffs):
        found = cycles(payoffs, significance)
        if found:
            return f"play is cyclic: {found[0]}. Ratings cannot show that; see alpha-Rank and the response graph."
    linked = _linked(matches, count)
    if not linked.all():
        apart = sum(1 for value in linked if not value)
        return f"{apart} of {count} strategies have not met the others, even through third parties: only the prior rates them."
    return None


def _linked(matches: _Matches, count: int) -> NDArray[np.bool_]:
    """Who is linked to the first strategy by pairings."""
    reached = np.zeros(count, bool)
    reached[0] = True
    for _ in range(count):
        touched = reached[matches.first] | reached[matches.second]
        reached[matches.first[touched]] = reached[matches.second[touched]] = True
    return reached
