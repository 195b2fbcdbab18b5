"""Flows of infinitely many small drivers: equilibrium, optimum and the price of anarchy.

In a *Wardrop equilibrium* nobody can be faster on another path, so all used paths of a trip take the same time. It minimises

    sum_e  integral from 0 to x_e of t_e(z) dz        (Beckmann, McGuire and Winsten, 1956)

over the path flows ``h >= 0`` that add up to the demand of each trip. The *system optimum* minimises ``sum_e x_e * t_e(x_e)``;
it is the equilibrium for the marginal costs ``t_e(x) + x * t_e'(x)``, so one solver serves both. The price of anarchy is the
ratio of the two total costs.

The solver moves flow between two paths of a trip at a time, each time to the minimum along that line, so the convex objective
falls with every move. With ``c`` the path costs it ends when the relative gap, which bounds the error, is small:

    gap = (sum_p h_p c_p - sum over trips of demand * min_p c_p) / sum_p h_p c_p
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from marl.envs.games.networks.routing import CongestionGame, Numbers

TOLERANCE = 1e-10


@dataclass(frozen=True, eq=False)
class Flow:
    """Flows by path and by edge. ``relative_gap`` certifies the answer: 0 is exact."""

    path_flows: Numbers
    edge_flows: Numbers
    total_cost: float
    relative_gap: float


@dataclass(frozen=True, eq=False)
class Price:
    """How much selfishness costs: ``price = equilibrium.total_cost / optimum.total_cost``, 1 or more."""

    price: float
    equilibrium: Flow
    optimum: Flow


def equilibrium_flow(game: CongestionGame, tolerance: float = TOLERANCE, max_rounds: int = 10_000) -> Flow:
    """The Wardrop equilibrium; the edge flows are unique where delays grow strictly."""
    return _Balance(game, game.coefficients).run(tolerance, max_rounds)


def optimal_flow(game: CongestionGame, tolerance: float = TOLERANCE, max_rounds: int = 10_000) -> Flow:
    """The flow with the least total cost. Its gap is measured in marginal costs."""
    # d/dx (x * c * x^p) = (p + 1) * c * x^p
    return _Balance(game, game.coefficients * (game.powers + 1.0)).run(tolerance, max_rounds)


def price_of_anarchy(game: CongestionGame) -> Price:
    """Total cost of the equilibrium flow divided by that of the optimal flow."""
    equilibrium, optimum = equilibrium_flow(game), optimal_flow(game)
    return Price(cost_ratio(equilibrium.total_cost, optimum.total_cost), equilibrium, optimum)


def cost_ratio(cost: float, least: float) -> float:
    """``cost / least``; 1 where both are 0, infinite where only the least is."""
    if least > 0:
        return cost / least
    return 1.0 if cost <= 0 else float("inf")


def total_cost(game: CongestionGame, edge_flows: Numbers) -> float:
    """``sum_e x_e * t_e(x_e)``: the time that all drivers spend together."""
    return float(edge_flows @ game.edge_delays(edge_flows))


class _Balance:
    """Evens out the costs ``sum_k coefficients_ek * x**p_ek`` of the paths of each trip."""

    def __init__(self, game: CongestionGame, coefficients: Numbers) -> None:
        self.game, self.coefficients = game, coefficients
        self.incidence = game.incidence
        self.flows = np.zeros(len(self.incidence))
        empty = self._path_costs(np.zeros(len(game.edges)))
        # Everybody on the path that is fastest while the roads are empty.
        for where, demand in zip(game.path_slices, game.demands, strict=True):
            self.flows[where.start + int(empty[where].argmin())] = demand

    def run(self, tolerance: float, max_rounds: int) -> Flow:
        for _ in range(max_rounds):
            if self._relative_gap() <= tolerance:
                break
            for where in self.game.path_slices:
                for path in range(where.start, where.stop):
                    if self.flows[path] > 0:
                        self._relieve(path, where)
        loads = self.game.loads(self.flows)
        return Flow(self.flows, loads, total_cost(self.game, loads), self._relative_gap())

    def _edge_costs(self, loads: Numbers, edges: slice | NDArray[np.int64] = slice(None)) -> Numbers:
        return np.asarray((self.coefficients[edges] * loads[:, None] ** self.game.powers[edges]).sum(axis=1))

    def _path_costs(self, loads: Numbers) -> Numbers:
        return self.incidence @ self._edge_costs(loads)

    def _relative_gap(self) -> float:
        costs = self._path_costs(self.game.loads(self.flows))
        spent = float(self.flows @ costs)
        if not spent > 0:
            return 0.0
        least = 0.0
        for where, demand in zip(self.game.path_slices, self.game.demands, strict=True):
            least += demand * costs[where].min()
        return max(0.0, float(spent - least) / spent)

    def _relieve(self, path: int, where: slice) -> None:
        """Moves flow from a path to the cheapest one of the trip until both cost the same, or the path is empty."""
        loads = self.game.loads(self.flows)
        cheapest = where.start + int(self._path_costs(loads)[where].argmin())
        turn = self.incidence[cheapest] - self.incidence[path]  # what each edge gains per unit that is moved
        edges = np.flatnonzero(turn).astype(np.int64)

        def advantage(moved: float) -> float:
            shifted = np.maximum(loads[edges] + moved * turn[edges], 0.0)
            return float(-turn[edges] @ self._edge_costs(shifted, edges))

        have = float(self.flows[path])
        if advantage(0.0) <= 0:
            return
        moved = have if advantage(have) >= 0 else float(brentq(advantage, 0.0, have, xtol=1e-16 * have, rtol=1e-15))
        self.flows[path] -= moved
        self.flows[cheapest] += moved
