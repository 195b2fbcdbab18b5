"""Empirical gamescapes: how a population of strategies lies in the game, and how much of its order is a cycle.

A table of margins is antisymmetric: ``A[i, j] = -A[j, i]`` is by how much ``i`` beats ``j``. It is the sum of two parts that
are orthogonal (Balduzzi et al., 2019, from Hodge theory):

    A = T + C,    T[i, j] = r[i] - r[j],    r[i] = mean_j A[i, j],    C 1 = 0

The *transitive* part ``T`` is all that a rating can tell; the *cyclic* part ``C`` is rock, paper, scissors. Their shares are
``|T|^2 / |A|^2`` and ``|C|^2 / |A|^2`` and sum to 1.

A real antisymmetric matrix also has a Schur form with blocks of two rows, so it is a sum of *disc games*

    A[i, j] = sum_k  y_k[i] x y_k[j],        (a, b) x (c, d) = a d - b c

Strategies are points in a plane for each ``k``, and each beats those that lie counter-clockwise of it, seen from the origin,
up to half a turn: the more the larger the triangle of the two points and the origin is. The first planes hold most: their
shares are ``2 s_k^2 / |A|^2`` with the strengths ``s_k``.

The *layers* are the Nash clusters of Czarnecki et al. (2020): who has a weight in the equilibrium of largest entropy, then the
same without them, and so on. A game of skill looks like a spinning top: wide layers, with many cycles, in the middle. The
*diversity* of Balduzzi et al. is ``p' max(A, 0) p`` in the first layer's equilibrium ``p``: 0 where one beats all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import schur

from marl.errors import ConfigError
from marl.gametheory.game import MatrixGame, Payoffs
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.rank.average import max_entropy_strategy
from marl.gametheory.rank.result import face_off, one_population, refuse_incomplete

ROUNDING = 1e-9  # relative to the largest margin: strengths and differences below are zero
IN_SUPPORT = 1e-6  # relative to the largest weight
DRAWS = 200
CONFIDENCE = 0.95


@dataclass(frozen=True, eq=False)
class Disc:
    """One plane: ``points[i]`` is where strategy ``i`` lies, ``share`` how much of the table it holds."""

    strength: float
    share: float
    points: Payoffs  # [n, 2]


@dataclass(frozen=True, eq=False)
class Gamescape:
    """Parts of an antisymmetric table; ``transitive + cyclic == margins``."""

    names: tuple[str, ...]
    margins: Payoffs  # [n, n]
    ratings: Payoffs  # [n]: mean margins
    transitive: Payoffs
    cyclic: Payoffs
    transitive_share: float
    transitive_interval: tuple[float, float]  # of the tables drawn anew within the errors; a point where there are none
    discs: tuple[Disc, ...]  # the strongest first
    layers: tuple[tuple[str, ...], ...]  # Nash clusters, the best first
    diversity: float
    triangles: tuple[int, ...]  # cycles of three that each strategy is part of

    @property
    def cyclic_share(self) -> float:
        return 1.0 - self.transitive_share

    def as_json(self) -> dict[str, Any]:
        return {
            "names": list(self.names),
            "ratings": self.ratings.tolist(),
            "transitive_share": self.transitive_share,
            "transitive_interval": list(self.transitive_interval),
            "cyclic_share": self.cyclic_share,
            "discs": [
                {"strength": disc.strength, "share": disc.share, "points": disc.points.tolist()} for disc in self.discs
            ],
            "layers": [list(layer) for layer in self.layers],
            "diversity": self.diversity,
            "triangles": list(self.triangles),
        }


def gamescape(table: PayoffTensor | MatrixGame, draws: int = DRAWS, seed: int = 0) -> Gamescape:
    """The gamescape of one population: a symmetric table of two players.

    Margins are ``(A[i, j] - A[j, i]) / 2``, so a constant sum and common payoffs do not matter. Noise is cyclic, mostly: of a
    measured table the interval of the transitive share is found by drawing it anew within its errors.
    """
    payoffs = PayoffTensor.exact(table) if isinstance(table, MatrixGame) else table
    _refuse_what_is_no_population(payoffs)
    margins = _margins(payoffs)
    ratings = margins.mean(axis=1)
    transitive = ratings[:, None] - ratings[None]
    equilibrium = max_entropy_strategy(margins, 0.0)
    return Gamescape(
        names=payoffs.names[0],
        margins=margins,
        ratings=ratings,
        transitive=transitive,
        cyclic=margins - transitive,
        transitive_share=transitive_share(margins),
        transitive_interval=_interval(payoffs, draws, seed),
        discs=discs_of(margins),
        layers=_layers(margins, payoffs.names[0]),
        diversity=float(equilibrium @ np.maximum(margins, 0.0) @ equilibrium),
        triangles=_triangles(margins),
    )


def _refuse_what_is_no_population(payoffs: PayoffTensor) -> None:
    if not one_population(payoffs):
        raise ConfigError(
            f"a gamescape is that of one population whose strategies meet in pairs, but this table has {len(payoffs.players)} "
            "players with strategies of their own. Measure all of them in both seats (symmetric), or rank them by alpha_rank."
        )
    refuse_incomplete(payoffs, "gamescape")


def _margins(payoffs: PayoffTensor) -> Payoffs:
    table = face_off(payoffs)[0]
    return np.asarray((table - table.T) / 2)


def transitive_share(margins: Payoffs) -> float:
    """``|T|^2 / |A|^2``; 1 where nobody beats anybody, for nothing is left to explain."""
    whole = float((margins**2).sum())
    if whole == 0.0:
        return 1.0
    ratings = margins.mean(axis=1)
    return float(((ratings[:, None] - ratings[None]) ** 2).sum()) / whole


def _interval(payoffs: PayoffTensor, draws: int, seed: int) -> tuple[float, float]:
    if payoffs.is_exact:
        share = transitive_share(_margins(payoffs))
        return share, share
    rng = np.random.default_rng(seed)
    shares = [transitive_share(_margins(payoffs.redrawn(rng))) for _ in range(max(1, draws))]
    low, high = np.quantile(shares, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def discs_of(margins: Payoffs) -> tuple[Disc, ...]:
    """The table as a sum of disc games, the strongest first, by its real Schur form ``A = Z S Z'``."""
    form, basis = schur(margins, output="real")
    smallest = ROUNDING * max(float(np.abs(margins).max()), np.finfo(float).tiny)
    whole = float((margins**2).sum()) or 1.0
    found: list[Disc] = []
    at = 0
    while at + 1 < len(margins):
        strength = float(form[at, at + 1])
        if abs(strength) <= smallest:
            at += 1  # a strategy that this plane does not tell from others
            continue
        first, second = basis[:, at], basis[:, at + 1]
        if strength < 0:  # the other way round, so that all planes turn alike
            first, second = second, first
        points = np.sqrt(abs(strength)) * np.stack([first, second], axis=1)
        found.append(Disc(abs(strength), 2 * strength**2 / whole, points))
        at += 2
    return tuple(sorted(found, key=lambda disc: -disc.strength))


def _layers(margins: Payoffs, names: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    left = np.arange(len(names))
    layers: list[tuple[str, ...]] = []
    while left.size:
        weights = max_entropy_strategy(margins[np.ix_(left, left)], 0.0)
        played = weights > IN_SUPPORT * weights.max()
        layers.append(tuple(names[i] for i in left[played]))
        left = left[~played]
    return tuple(layers)


def _triangles(margins: Payoffs) -> tuple[int, ...]:
    """For each strategy: the cycles i > j > k > i that it is part of, by closed walks of three steps."""
    smallest = ROUNDING * float(np.abs(margins).max())
    beats = (margins > smallest).astype(np.int64)
    walks = np.diagonal(beats @ beats @ beats)
    return tuple(walks.tolist())
