"""Finitely many drivers: Rosenthal's potential, pure equilibria, the best and the worst of them, and NashConv.

With ``n_e`` drivers of weight ``w`` on edge ``e`` the potential (Rosenthal, 1973)

    Phi = sum_e  sum_{k=1..n_e}  t_e(k * w)

changes by exactly what a driver gains or loses who changes its path. So best responses never go round in circles, and where
they end is a pure equilibrium. Drivers of a trip are alike: a play is the number of drivers on each path, ``path_counts``.
Delays of atomic plays add up over drivers: a ``total_delay`` is minus the sum of the env's rewards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product
from math import comb, prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marl.data.task import Ints
from marl.envs.games.networks.routing import CongestionGame, Numbers
from marl.errors import ConfigError
from marl.gametheory.networks.flow import cost_ratio

EXACT = 1e-9
"""Gains below this share of the delays count as rounding."""
CHUNK = 2048  # plays that are looked at together
MOST_CELLS = 50_000_000  # of the table behind mixed strategies


@dataclass(frozen=True, eq=False)
class AtomicPlay:
    """Drivers per path, what all of them spend together, and how far it is from equilibrium."""

    path_counts: Ints
    total_delay: float
    nash_conv: float


@dataclass(frozen=True, eq=False)
class AtomicPrices:
    """Price of anarchy: the worst pure equilibrium against the optimum; of stability: the best one."""

    price_of_anarchy: float
    price_of_stability: float
    optimum: AtomicPlay
    best: AtomicPlay
    worst: AtomicPlay


def rosenthal_potential(game: CongestionGame, path_counts: ArrayLike) -> float:
    users = np.rint(game.loads(_counts(game, path_counts).astype(np.float64))).astype(np.int64)
    steps = np.arange(1, users.max() + 1)
    delays = game.edge_delays(np.repeat(steps[:, None] * game.flow_per_agent, len(users), axis=1))  # [n, edges]
    return float(delays[steps[:, None] <= users].sum())


def congestion_nash_conv(game: CongestionGame, play: ArrayLike | Sequence[ArrayLike]) -> float:
    """Sum over drivers of what each could save by its best deviation.

    ``play`` is the number of drivers on each path, or one distribution over its own paths per driver.
    """
    rows: list[Any] = list(play)  # type: ignore[arg-type]
    if all(np.ndim(row) == 0 for row in rows):
        return float(_nash_conv(game, _counts(game, rows)[None])[0])
    return _mixed_nash_conv(game, [np.asarray(row, np.float64) for row in rows])


def congestion_equilibrium(game: CongestionGame, start: ArrayLike | None = None) -> AtomicPlay:
    """A pure equilibrium by best responses: again and again the driver who gains most changes its path.

    Starts with everybody on the first path of its trip unless ``start`` gives the drivers on each path.
    """
    if start is None:
        counts = np.zeros(len(game.incidence), np.int64)
        counts[[where.start for where in game.path_slices]] = [trip.agents for trip in game.trips]
    else:
        counts = _counts(game, start).copy()
    while True:
        costs = _deviation_costs(game, counts[None])[0]
        own = costs.diagonal()
        gains = np.where(counts > 0, own - costs.min(axis=1), 0.0)
        leaves = int(gains.argmax())
        if gains[leaves] <= EXACT * own[leaves]:
            return _described(game, counts)
        counts[leaves] -= 1
        counts[costs[leaves].argmin()] += 1


def social_optimum(game: CongestionGame, max_plays: int = 200_000) -> AtomicPlay:
    """The play with the least total delay, by enumeration."""
    return _described(game, min(_plays(game, max_plays), key=lambda chunk: chunk[1].min())[2])


def atomic_prices(game: CongestionGame, max_plays: int = 200_000) -> AtomicPrices:
    """Optimum and all pure equilibria by enumeration; there is an equilibrium by Rosenthal's theorem."""
    optimum = social_optimum(game, max_plays)
    best = worst = congestion_equilibrium(game)
    for counts, delays, _ in _plays(game, max_plays):
        at_rest = np.flatnonzero(_nash_conv(game, counts) <= EXACT * delays)
        for i in at_rest:
            if delays[i] < best.total_delay:
                best = _described(game, counts[i])
            if delays[i] > worst.total_delay:
                worst = _described(game, counts[i])
    least = optimum.total_delay
    return AtomicPrices(cost_ratio(worst.total_delay, least), cost_ratio(best.total_delay, least), optimum, best, worst)


# -- plays by counts -------------------------------------------------------------------------------------------------


def _counts(game: CongestionGame, path_counts: ArrayLike) -> Ints:
    counts = np.asarray(path_counts)
    agents = [trip.agents for trip in game.trips]
    has_all_paths = counts.shape == (len(game.incidence),)
    are_counts = np.array_equal(counts, np.rint(counts)) and bool((counts >= 0).all())
    drivers = []
    if has_all_paths and are_counts:
        drivers = [int(counts[where].sum()) for where in game.path_slices]
    if drivers != agents:
        raise ConfigError(
            f"path_counts {counts.tolist()} do not fit {len(game.incidence)} paths with {agents} drivers per trip. Expected "
            f"the number of drivers on each path, in the order {', '.join(game.path_names)}."
        )
    return counts.astype(np.int64)


def _deviation_costs(game: CongestionGame, counts: Ints) -> Numbers:
    """``[..., p, q]``: the time of a driver of path ``p`` who changes to ``q``; infinite for paths of other trips."""
    paths = game.incidence
    loads = _loads(game, counts)
    now, joined = game.edge_delays(loads), game.edge_delays(loads + game.flow_per_agent)
    # A driver adds its weight to the edges of q that are not on p as well.
    costs = (joined @ paths.T)[..., None, :] - (paths * (joined - now)[..., None, :]) @ paths.T
    apart = np.ones((len(paths), len(paths)), bool)
    for where in game.path_slices:
        apart[where, where] = False
    return np.where(apart, np.inf, costs)


def _nash_conv(game: CongestionGame, counts: Ints) -> Numbers:
    costs = _deviation_costs(game, counts)
    gains = np.diagonal(costs, axis1=-2, axis2=-1) - costs.min(axis=-1)
    return np.asarray((counts * gains).sum(axis=-1))


def _loads(game: CongestionGame, counts: Ints) -> Numbers:
    return game.loads(counts.astype(np.float64) * game.flow_per_agent)


def _total_delays(game: CongestionGame, counts: Ints) -> Numbers:
    return np.asarray((counts * game.path_delays(_loads(game, counts))).sum(axis=-1))


def _described(game: CongestionGame, counts: Ints) -> AtomicPlay:
    return AtomicPlay(counts, float(_total_delays(game, counts)), float(_nash_conv(game, counts[None])[0]))


def _plays(game: CongestionGame, max_plays: int) -> Iterator[tuple[Ints, Numbers, Ints]]:
    """All plays in chunks: counts ``[n, paths]``, their total delays, and the best of the chunk."""
    number = prod(comb(trip.agents + len(trip.paths) - 1, len(trip.paths) - 1) for trip in game.trips)
    if number > max_plays:
        raise ConfigError(
            f"this game has {number} plays; enumeration is limited to max_plays = {max_plays}. Take fewer drivers or paths, "
            "raise max_plays, or look at price_of_anarchy, which treats drivers as a flow."
        )
    plays = product(*(_ways(trip.agents, len(trip.paths)) for trip in game.trips))
    while chunk := [np.concatenate(play) for play in islice(plays, CHUNK)]:
        counts = np.array(chunk, np.int64)
        delays = _total_delays(game, counts)
        yield counts, delays, counts[int(delays.argmin())]


def _ways(agents: int, paths: int) -> Iterator[Ints]:
    """All ways to spread drivers over paths: bars between ``agents`` stars."""
    for bars in combinations(range(agents + paths - 1), paths - 1):
        ends = np.array((-1, *bars, agents + paths - 1))
        yield np.diff(ends) - 1


# -- mixed strategies ------------------------------------------------------------------------------------------------


def _mixed_nash_conv(game: CongestionGame, strategies: Sequence[NDArray[np.float64]]) -> float:
    trip_of = np.repeat(np.arange(len(game.trips)), [trip.agents for trip in game.trips])
    own = [game.incidence[game.path_slices[trip]] for trip in trip_of]  # [paths of the driver, edges]
    _check_strategies(game, strategies, own)
    uses = np.array([strategy @ paths for strategy, paths in zip(strategies, own, strict=True)])  # [drivers, edges]
    delays = _expected_delays(game, uses)
    conv = 0.0
    for strategy, paths, delay in zip(strategies, own, delays, strict=True):
        costs = paths @ delay
        conv += float(strategy @ costs - costs.min())
    return conv


def _check_strategies(
    game: CongestionGame, strategies: Sequence[NDArray[np.float64]], own: Sequence[NDArray[np.float64]]
) -> None:
    shapes = [strategy.shape for strategy in strategies]
    if shapes != [(len(paths),) for paths in own]:
        raise ConfigError(
            f"{len(strategies)} strategies with the shapes {shapes} do not fit {game.num_agents} "
            "drivers. Expected one distribution over its own paths per driver, trip after trip."
        )
    for driver, strategy in enumerate(strategies):
        if strategy.min() < -1e-6 or abs(strategy.sum() - 1) > 1e-6:
            raise ConfigError(f"the strategy {strategy} of driver {driver} is not a distribution (sum 1).")
    if game.num_agents**2 * len(game.edges) > MOST_CELLS:
        raise ConfigError(
            f"mixed strategies of {game.num_agents} drivers are too many. Give path_counts, or fewer drivers."
        )


def _expected_delays(game: CongestionGame, uses: Numbers) -> Numbers:
    """``[driver, edge]``: expected delay of the edge for a driver who takes it, over the choices of all others.

    Others decide independently, so their number on an edge is a sum of coins (Poisson binomial), one coin after the other.
    """
    drivers, edges = uses.shape
    others = np.zeros((drivers, edges, drivers))  # chance that k others are there, as seen by each driver
    others[:, :, 0] = 1.0
    for j in range(drivers):
        chance = np.where(np.arange(drivers)[:, None] == j, 0.0, uses[j])[:, :, None]
        joined = chance * others[:, :, :-1]
        others *= 1.0 - chance
        others[:, :, 1:] += joined
    loads = np.arange(1, drivers + 1)[:, None] * np.full(edges, game.flow_per_agent)
    return np.asarray((others * game.edge_delays(loads).T).sum(axis=2))
