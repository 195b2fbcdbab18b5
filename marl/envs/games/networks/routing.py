"""Congestion games: who shares an edge slows everybody on it down (Rosenthal, 1973; Wardrop, 1952).

An edge ``e`` with the load ``x`` takes the time ``t_e(x) = sum_k c_ek * x**p_ek``. All ``c`` are 0 or more, and each
``p`` is 0, or 1 or more, so delays never fall with the load and the potentials are convex. Polynomials are written by
their coefficients; the formula of the US Bureau of Public Roads is

    t(x) = free_flow_time * (1 + bpr_factor * (x / capacity) ** bpr_power)

``congestion_of(env_config)`` gives the one description that the env and the theory share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Literal, TypeAlias

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, ValidationError

from marl.config import Config, explain
from marl.envs.games.networks.graphs import Node, RawEdge, RawGraph, named, read_graph, unknown_node
from marl.errors import ConfigError, did_you_mean
from marl.needs import above, declare, needs

Numbers: TypeAlias = NDArray[np.float64]
EdgePath: TypeAlias = tuple[int, ...]
"""Edges by their numbers, in the order of travel."""

BRAESS = [
    {"from": "s", "to": "a", "delay": [0, 1]},
    {"from": "s", "to": "b", "delay": [1]},
    {"from": "a", "to": "t", "delay": [1]},
    {"from": "b", "to": "t", "delay": [0, 1]},
]
NETWORKS: dict[str, list[dict[str, Any]]] = {
    "pigou": [{"from": "s", "to": "t", "delay": [1]}, {"from": "s", "to": "t", "delay": [0, 1]}],
    "braess": [*BRAESS, {"from": "a", "to": "b", "delay": [0]}],
    "braess_without_link": BRAESS,
}
"""Networks of the literature, for a whole demand of 1 from s to t."""


class EdgeKeys(Config):
    """What may stand next to ``from`` and ``to`` of an edge: a polynomial, or the keys of the BPR formula."""

    delay: NonNegativeFloat | list[NonNegativeFloat] = Field(
        [],
        description="Time to pass, by the load x: coefficients [a, b, c, ...] of a + b*x + c*x^2 + ..., or one number.",
    )
    free_flow_time: NonNegativeFloat = Field(0.0, description="BPR formula: time to pass the empty edge.")
    capacity: PositiveFloat = Field(1.0, description="BPR formula: load at which the delay has grown by bpr_factor.")
    bpr_factor: NonNegativeFloat = Field(0.15, description="BPR formula: relative growth of the delay at capacity.")
    bpr_power: float = Field(4.0, ge=1.0, description="BPR formula: exponent of load / capacity.")


class DemandKeys(Config):
    """One trip and how many agents make it."""

    origin: str | int = Field(alias="from", description="Node where the trip starts.")
    destination: str | int = Field(alias="to", description="Node where the trip ends.")
    agents: PositiveInt = Field(le=10_000, description="Number of agents that make this trip.")


class CongestionConfig(Config):
    """Keys of ``env_config``."""

    network: Any = Field(
        "braess",
        description="pigou, braess, braess_without_link, a list of edges, node-link JSON; untrained also a networkx graph.",
    )
    demands: list[DemandKeys] = Field(
        [], description="Trips [{from, to, agents}]; may be left out for networks with a name: 4 agents from s to t."
    )
    flow_per_agent: PositiveFloat = Field(
        1.0, description="Load that an agent puts on its edges. Networks with a name: 1 / number of agents if left out."
    )
    max_paths: PositiveInt = Field(50, description="Most simple paths that a trip may have; more are an error.")
    repetitions: PositiveInt = Field(1, description="Rounds per episode, one env step each.")
    observe: Literal["none", "last"] = Field(
        "none",
        description="In repeated games: only the own trip, or also the last loads of all edges (zeros at first).",
        json_schema_extra=declare(needs(above("repetitions", 1), why="it shows the round before")),
    )


@dataclass(frozen=True)
class Trip:
    """Agents with the same way to go, and the ways there are."""

    origin: Node
    destination: Node
    agents: int
    paths: tuple[EdgePath, ...]


@dataclass(frozen=True, eq=False)
class CongestionGame:
    """A network, its delays ``[edges, terms]`` and the trips. Paths are numbered over all trips, trip after trip."""

    nodes: tuple[Node, ...]
    edges: tuple[tuple[Node, Node], ...]
    coefficients: Numbers
    powers: Numbers
    trips: tuple[Trip, ...]
    flow_per_agent: float = 1.0

    @property
    def num_agents(self) -> int:
        return sum(trip.agents for trip in self.trips)

    @cached_property
    def demands(self) -> Numbers:
        """Flow of each trip."""
        return np.array([trip.agents * self.flow_per_agent for trip in self.trips])

    @cached_property
    def incidence(self) -> Numbers:
        """``[paths, edges]``: 1 where the path takes the edge."""
        paths = self._all_paths
        table = np.zeros((len(paths), len(self.edges)))
        for row, path in zip(table, paths, strict=True):
            row[list(path)] = 1.0
        return table

    @cached_property
    def _all_paths(self) -> list[EdgePath]:
        """Trip after trip, as they are numbered."""
        paths: list[EdgePath] = []
        for trip in self.trips:
            paths.extend(trip.paths)
        return paths

    @cached_property
    def path_slices(self) -> tuple[slice, ...]:
        """Which paths belong to which trip."""
        slices: list[slice] = []
        start = 0
        for trip in self.trips:
            end = start + len(trip.paths)
            slices.append(slice(start, end))
            start = end
        return tuple(slices)

    @cached_property
    def path_names(self) -> tuple[str, ...]:
        """``s > a > t``; parallel edges add the number of the edge."""
        return tuple(map(self._path_name, self._all_paths))

    def _path_name(self, path: EdgePath) -> str:
        text, _ = self.edges[path[0]]
        for edge in path:
            _, end = self.edges[edge]
            text += f" > {end}"
            is_parallel = self.edges.count(self.edges[edge]) > 1
            if is_parallel:
                text += f" (edge {edge})"
        return text

    def edge_delays(self, loads: Numbers) -> Numbers:
        """``t_e(x_e)`` for loads ``[..., edges]``."""
        return np.asarray((self.coefficients * loads[..., None] ** self.powers).sum(axis=-1))

    def path_delays(self, loads: Numbers) -> Numbers:
        """Time of every path ``[..., paths]`` when the edges carry ``[..., edges]``."""
        return self.edge_delays(loads) @ self.incidence.T

    def loads(self, path_flows: Numbers) -> Numbers:
        """Loads ``[..., edges]`` of flows ``[..., paths]``."""
        return path_flows @ self.incidence


def congestion_of(env_config: Mapping[str, Any]) -> CongestionGame:
    """The game that an ``env_config`` of the env ``congestion`` describes."""
    return build_game(read_config(env_config))


def read_config(env_config: Mapping[str, Any]) -> CongestionConfig:
    try:
        config = CongestionConfig(**env_config)
    except ValidationError as error:
        raise explain(error, "congestion: env_config", CongestionConfig.model_fields) from None
    return config


def build_game(config: CongestionConfig) -> CongestionGame:
    """Reads the network, finds the paths, and refuses what cannot be played."""
    has_name = isinstance(config.network, str)
    network = config.network
    if has_name:
        network = _by_name(network)
    raw = read_graph(network, "network")
    edges: list[RawEdge] = []
    for edge in raw.edges:
        edges.append(edge)
        if not raw.directed:  # a road for both ways: each direction has its own load
            edges.append(RawEdge(edge.end, edge.start, edge.keys))
    coefficients, powers = _delay_table([_delay(edge, raw) for edge in edges])
    trips = _trips(_demands(config, has_name), raw, edges, config.max_paths)
    flow = config.flow_per_agent
    if has_name and "flow_per_agent" not in config.model_fields_set:
        # The delays of networks with a name are meant for a whole demand of 1.
        flow = 1.0 / sum(trip.agents for trip in trips)
    ends = tuple((edge.start, edge.end) for edge in edges)
    return CongestionGame(raw.nodes, ends, coefficients, powers, trips, flow)


def _demands(config: CongestionConfig, has_name: bool) -> Sequence[DemandKeys]:
    """The trips; networks with a name have one that the literature plays on them."""
    if config.demands:
        return config.demands
    if has_name:
        return [DemandKeys(**{"from": "s", "to": "t", "agents": 4})]
    raise ConfigError("demands are missing. An own network needs one trip or more: demands: [{from, to, agents}].")


def _by_name(name: str) -> list[dict[str, Any]]:
    if name not in NETWORKS:
        raise ConfigError(
            f"no network is called {name!r}.{did_you_mean(name, NETWORKS)} Known: {', '.join(NETWORKS)}. An own network is "
            "a list of edges [{from, to, delay}, ...] or node-link JSON."
        )
    return NETWORKS[name]


def _delay(edge: RawEdge, raw: RawGraph) -> dict[float, float]:
    """Exponents to coefficients."""
    where = f"network: the edge from {edge.start!r} to {edge.end!r}"
    known = EdgeKeys.model_fields
    given = edge.keys
    if not raw.strict:  # a graph from elsewhere may say more about its edges than this game asks for
        given = {k: value for k, value in edge.keys.items() if k in known}
    try:
        keys = EdgeKeys(**given)
    except ValidationError as error:
        raise explain(error, where, known) from None
    terms = _delay_terms(keys, where)
    if not terms or not np.isfinite(list(terms.values())).all():
        raise ConfigError(f"{where}: its delay has no coefficients, or infinite ones. Expected numbers of 0 or more.")
    return terms


def _delay_terms(keys: EdgeKeys, where: str) -> dict[float, float]:
    """From a polynomial, or from the formula of road engineers (BPR): a free road's time, growing with load / capacity."""
    given = keys.model_fields_set
    has_formula = {"free_flow_time", "capacity"} <= given
    if given == {"delay"}:
        row = keys.delay
        if not isinstance(row, list):
            row = [row]
        return {float(power): value for power, value in enumerate(row)}
    if "delay" in given or not has_formula:
        listed = ", ".join(sorted(given)) or "none"
        raise ConfigError(f"{where} has the keys {listed}. Expected delay, or free_flow_time and capacity.")
    # t0 * (1 + b * (x / c) ** p) = t0 * x**0 + (t0 * b / c**p) * x**p: the formula as two terms of a polynomial.
    grown = keys.free_flow_time * keys.bpr_factor / keys.capacity**keys.bpr_power
    return {0.0: keys.free_flow_time, float(keys.bpr_power): grown}


def _delay_table(delays: Sequence[Mapping[float, float]]) -> tuple[Numbers, Numbers]:
    """``[edges, terms]`` twice; shorter rows are filled up with ``0 * x**0``, which adds nothing."""
    width = max(map(len, delays))
    coefficients = np.zeros((len(delays), width))
    powers = np.zeros((len(delays), width))
    for i, terms in enumerate(delays):
        coefficients[i, : len(terms)] = list(terms.values())
        powers[i, : len(terms)] = list(terms)
    return coefficients, powers


def _trips(demands: Sequence[DemandKeys], raw: RawGraph, edges: Sequence[RawEdge], max_paths: int) -> tuple[Trip, ...]:
    graph = nx.MultiDiGraph()
    graph.add_nodes_from(raw.nodes)
    graph.add_edges_from((edge.start, edge.end, number) for number, edge in enumerate(edges))
    trips: list[Trip] = []
    for i, demand in enumerate(demands):
        where = f"demands[{i}]"
        origin = named(demand.origin)
        destination = named(demand.destination)
        for node in (origin, destination):
            if node not in graph:
                raise unknown_node(where, node, raw.nodes)
        paths = _simple_paths(graph, origin, destination, max_paths, where)
        trips.append(Trip(origin, destination, demand.agents, paths))
    different = {(trip.origin, trip.destination) for trip in trips}
    if len(different) < len(trips):
        raise ConfigError("demands: a trip stands there twice. Put all its agents into one entry.")
    return tuple(trips)


def _simple_paths(graph: Any, origin: Node, destination: Node, max_paths: int, where: str) -> tuple[EdgePath, ...]:
    """All paths that visit no node twice, short ones first."""
    trip = f"{where}: from {origin!r} to {destination!r}"
    if origin == destination:
        raise ConfigError(f"{trip} there is nowhere to go. Expected two different nodes.")
    if not nx.has_path(graph, origin, destination):
        raise ConfigError(f"{trip} there is no path. Check the direction of the edges: they lead from `from` to `to`.")
    # Without dead ends: the search would walk into each of them again and again.
    reachable = nx.descendants(graph, origin) | {origin}
    leading_there = nx.ancestors(graph, destination) | {destination}
    useful = graph.subgraph(reachable & leading_there)
    paths: list[EdgePath] = []
    # One more than allowed tells that there are too many; all of them may be exponentially many.
    for path in islice(nx.all_simple_edge_paths(useful, origin, destination), max_paths + 1):
        numbers = [number for _, _, number in path]
        paths.append(tuple(numbers))
    if len(paths) > max_paths:
        raise ConfigError(
            f"{trip} there are more than max_paths = {max_paths} simple paths. Raise max_paths, or cut the network."
        )
    # Sorted: the number of an action must not depend on the order in which a search finds paths.
    return tuple(sorted(paths, key=lambda path: (len(path), path)))
