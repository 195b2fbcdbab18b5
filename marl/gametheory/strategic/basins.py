"""Basins of attraction: from which share of all starts does play end where?

Starts are drawn evenly from all mixed strategies (one population, or one start per player), and the dynamics goes on until
nothing moves any more. Ends that are near each other are one attractor. A basin's *area* is the chance that a start leads
there; it is estimated, so it has a standard error ``sqrt(p (1 - p) / n)`` and Wilson's interval, which is never empty.

Play that has stopped where somebody could still gain has not come to rest: it lingers at a corner, as in a cycle that
gets slower and slower. Such starts, and those that still move in the end, are *unsettled*.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from marl.errors import ConfigError
from marl.gametheory.game import MatrixGame, Payoffs, Profile
from marl.gametheory.strategic.motion import DYNAMICS, Dynamics
from marl.gametheory.strategic.populations import Earn, Place, count_populations, earnings, gains_at, rows_of

UNSETTLED = -1
NEAR = 0.05  # ends that are nearer than this, in any share, belong to one attractor
AT_REST = 0.05  # what somebody may still gain there, as a share of the spread of payoffs
HELD = 5  # units of time for which play has to rest
NORMAL_95 = 1.959963984540054


@dataclass(frozen=True, eq=False)
class Basin:
    """An attractor and the share of starts that lead to it. ``extent``: how far its ends lie apart; a whole set of
    equilibria, as a line of them, has one of more than rounding."""

    attractor: Profile  # one strategy per population: the middle of the ends
    area: float
    stderr: float
    interval: tuple[float, float]  # 95 %
    extent: float

    def as_json(self) -> dict[str, Any]:
        return {
            "attractor": [strategy.tolist() for strategy in self.attractor],
            "area": self.area,
            "stderr": self.stderr,
            "interval": list(self.interval),
            "extent": self.extent,
        }


@dataclass(frozen=True, eq=False)
class Basins:
    """All basins, the largest first. ``ends[n]`` is the number of the basin in which start ``n`` lies, -1 for none."""

    game: MatrixGame
    dynamics: str
    basins: tuple[Basin, ...]
    unsettled: float  # share of starts from which play did not come to rest
    unsettled_interval: tuple[float, float]
    starts: Place
    ends: NDArray[np.int64]

    def as_json(self) -> dict[str, Any]:
        return {
            "game": self.game.name,
            "dynamics": self.dynamics,
            "actions": [list(names) for names in self.game.actions[: len(self.starts)]],
            "starts": len(self.ends),
            "basins": [basin.as_json() for basin in self.basins],
            "unsettled": self.unsettled,
            "unsettled_interval": list(self.unsettled_interval),
        }


def basins(
    game: MatrixGame,
    dynamics: str = "replicator",
    starts: int = 1000,
    duration: float = 200.0,
    populations: int | None = None,
    seed: int = 0,
) -> Basins:
    """Where play from ``starts`` random places ends within ``duration``, in units of one over the spread of payoffs.

    ``populations``: 1 (a symmetric game against itself) or 2; by default 1 for symmetric games with more than two actions.
    """
    motion = DYNAMICS[dynamics]
    if starts < 1 or not duration >= 1:
        raise ConfigError(
            f"basins: starts is {starts} and duration {duration}; expected at least one start and a duration of 1 or more."
        )
    count = count_populations(game, populations)
    earn, rng = earnings(game, count), np.random.default_rng(seed)
    drawn: Place = tuple(rng.dirichlet(np.ones(actions), starts) for actions in game.shape[:count])
    found, settled = _follow(motion, earn, drawn, int(duration))
    ends = _clusters(rows_of(found), settled)
    known: list[Basin] = []
    for number in range(ends.max(initial=UNSETTLED) + 1):
        known.append(_basin(found, ends == number))
    lost = int((ends == UNSETTLED).sum())
    return Basins(game, dynamics, tuple(known), lost / starts, wilson(lost, starts), drawn, ends)


def _follow(motion: Dynamics, earn: Earn, starts: Place, duration: int) -> tuple[Place, NDArray[np.bool_]]:
    """Where play is in the end, and whether it rests. What rests is not followed any longer."""
    found: Place = tuple(shares.copy() for shares in starts)
    calm = np.zeros(len(starts[0]), np.int64)  # units of time for which nothing has moved
    steps = round(1 / motion.dt)
    for _ in range(duration):
        moving = np.flatnonzero(calm < HELD)
        if not moving.size:
            break
        before: Place = tuple(shares[moving] for shares in found)
        place = before
        for _ in range(steps):
            place = motion.step(earn, place, motion.dt)
        moved = np.abs(rows_of(place) - rows_of(before)).max(axis=1)
        for shares, now in zip(found, place, strict=True):
            shares[moving] = now
        rests = (moved < motion.resting) & (gains_at(earn, place) < AT_REST)
        calm[moving] = np.where(rests, calm[moving] + 1, 0)
    return found, calm >= HELD


def _clusters(ends: Payoffs, settled: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The number of the group of ends that are joined by short ways, the largest group first."""
    groups = np.full(len(ends), UNSETTLED)
    if not settled.any():
        return groups
    pairs = cKDTree(ends[settled]).query_pairs(NEAR, p=np.inf, output_type="ndarray")
    size = int(settled.sum())
    graph = coo_matrix((np.ones(len(pairs), bool), (pairs[:, 0], pairs[:, 1])), shape=(size, size))
    _, group = connected_components(graph, directed=False)
    sizes = np.bincount(group)
    order = np.argsort(-sizes, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    groups[settled] = place[group]
    return groups


def _basin(ends: Place, inside: NDArray[np.bool_]) -> Basin:
    total, count = len(inside), int(inside.sum())
    area = count / total
    rows = rows_of(ends)[inside]
    middle: Profile = tuple(shares[inside].mean(axis=0) for shares in ends)
    extent = float(np.ptp(rows, axis=0).max())
    return Basin(middle, area, sqrt(area * (1 - area) / total), wilson(count, total), extent)


def wilson(count: int, total: int) -> tuple[float, float]:
    """The 95 % interval of a share by Wilson (1927): good for shares near 0 and 1 too."""
    z = NORMAL_95
    share = count / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return max(0.0, middle - half), min(1.0, middle + half)
