"""Who would switch to what: the response graph, where it leads, and cycles spelled out.

With several populations the nodes are profiles, and an edge leads to every profile in which one player alone has changed and
earns more; its weight is the gain. In one population the nodes are strategies, and an edge leads from ``s`` to every ``r``
that earns more than ``s`` when the two meet; its weight is the margin ``(A[r, s] - A[s, r]) / 2``, what ``r`` earned above the
mean of the two. An edge counts only if its weight exceeds ``significance`` standard errors.

Components that no edge leaves are the sinks: what better replies end in. A sink with several nodes is a cycle of play.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, TypeAlias

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from marl.errors import ConfigError
from marl.gametheory.game import EXACT, Payoffs
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.rank.result import Row, face_off, labels, one_population, table_rows

Node: TypeAlias = Hashable
"""A strategy's name, or a tuple of names, one per player."""
SIGNIFICANCE = 2.0
MOST_PATHS = 1000
"""Equally short cycles that are looked at to find the one with the clearest margins."""


@dataclass(frozen=True)
class Cycle:
    """Each of ``nodes`` beats the next one by the margin at its place, and the last beats the first."""

    nodes: tuple[Node, ...]
    margins: tuple[float, ...]
    stderrs: tuple[float, ...]
    in_sink: bool  # whether better replies end here, so that nothing outside beats all of it

    def __str__(self) -> str:
        return " > ".join(map(node_name, (*self.nodes, self.nodes[0])))

    def as_json(self) -> dict[str, Any]:
        return {
            "text": str(self),
            "nodes": [node_name(node) for node in self.nodes],
            "margins": list(self.margins),
            "stderrs": list(self.stderrs),
            "in_sink": self.in_sink,
        }


class Cycles(tuple[Cycle, ...]):
    """Cycles together with the graph that they were found in, and its significance."""

    graph: nx.DiGraph
    significance: float

    @classmethod
    def of(cls, found: Iterable[Cycle], graph: nx.DiGraph, significance: float) -> Cycles:
        cycles = cls(found)
        cycles.graph, cycles.significance = graph, significance
        return cycles


@dataclass(frozen=True, eq=False)
class Responses:
    """The graph (edge attributes ``weight`` and ``stderr``), its sink components and its cycles, the highest first."""

    graph: nx.DiGraph
    sinks: tuple[tuple[Node, ...], ...]
    cycles: Cycles
    significance: float

    def table(self) -> list[Row]:
        """Nodes with the share of other nodes from which better replies lead there."""
        names = list(self.graph)
        reach = np.array([len(nx.ancestors(self.graph, node)) for node in names]) / max(1, len(names) - 1)
        return table_rows(map(node_name, names), reach, reach, reach)

    def as_json(self) -> dict[str, Any]:
        return {
            "method": "response_graph",
            "significance": self.significance,
            "nodes": [node_name(node) for node in self.graph],
            "edges": [
                {"from": node_name(a), "to": node_name(b), "gain": d["weight"], "stderr": d["stderr"]}
                for a, b, d in self.graph.edges(data=True)
            ],
            "sinks": [[node_name(node) for node in sink] for sink in self.sinks],
            "cycles": [cycle.as_json() for cycle in self.cycles],
        }


def node_name(node: Node) -> str:
    if not isinstance(node, tuple):
        return str(node)
    return f"({', '.join(map(str, node))})"


def responses(payoffs: PayoffTensor, significance: float = SIGNIFICANCE) -> Responses:
    """Response graph, sinks and cycles at once."""
    graph = response_graph(payoffs, significance)
    return Responses(graph, sinks(graph), cycles(payoffs, significance), significance)


def response_graph(payoffs: PayoffTensor, significance: float = SIGNIFICANCE) -> nx.DiGraph:
    """Edges from each node to the better replies. Pairings that nobody has played have no edges."""
    if not significance >= 0:
        raise ConfigError(f"response graph: significance is {significance}; expected 0 or more standard errors.")
    labels(payoffs)  # refuses names that stand for two strategies: nodes would fall together
    graph = nx.DiGraph()
    if one_population(payoffs):
        graph.add_nodes_from(payoffs.names[0])
        _add_strategies(graph, payoffs, significance)
    else:
        graph.add_nodes_from(_profile(payoffs, place) for place in np.ndindex(payoffs.count.shape))
        for player in range(len(payoffs.players)):
            _add_deviations(graph, payoffs, player, significance)
    return graph


def sinks(graph: nx.DiGraph) -> tuple[tuple[Node, ...], ...]:
    """Strongly connected components that no edge leaves; nodes and components in the order of the graph."""
    order = {node: i for i, node in enumerate(graph)}
    found = (tuple(sorted(part, key=order.__getitem__)) for part in nx.attracting_components(graph))
    return tuple(sorted(found, key=lambda part: order[part[0]]))


def cycles(payoffs: PayoffTensor, significance: float = SIGNIFICANCE) -> Cycles:
    """One cycle for each component of play that has one: the shortest through its best node.

    Best is who wins most on average (in a profile: whose players together have least to gain). Among equally short cycles the
    one whose smallest margin is largest is taken. Components from which better replies do not lead away come first.
    """
    graph = response_graph(payoffs, significance)
    closed: set[Node] = set()
    for sink in sinks(graph):
        closed.update(sink)
    strength = {node: _strength(graph, node) for node in graph}
    found = []
    for part in nx.strongly_connected_components(graph):
        if len(part) < 2:
            continue
        members = [node for node in graph if node in part]  # in the order of the graph, which decides ties
        best = max(members, key=strength.__getitem__)
        cycle = _shortest_through(graph.subgraph(part), best)
        found.append(_spelled_out(graph, cycle, best in closed))
    found.sort(key=lambda cycle: (not cycle.in_sink, -strength[cycle.nodes[0]]))
    return Cycles.of(found, graph, significance)


def _add_strategies(graph: nx.DiGraph, payoffs: PayoffTensor, significance: float) -> None:
    mean, stderr = face_off(payoffs)
    margin = (mean - mean.T) / 2
    total = (mean + mean.T)[np.isfinite(mean)]
    opposed = np.ptp(total) <= EXACT * _largest(mean) if total.size else False
    # In a constant-sum game both sides show the same number; else the two payoffs err on their own.
    error = (stderr + stderr.T) / 2 if opposed else np.hypot(stderr, stderr.T) / 2
    names = payoffs.names[0]
    for better, worse in np.argwhere(_clear(margin, error, significance, _largest(mean))):
        graph.add_edge(
            names[worse], names[better], weight=float(margin[better, worse]), stderr=float(error[better, worse])
        )


def _add_deviations(graph: nx.DiGraph, payoffs: PayoffTensor, player: int, significance: float) -> None:
    """Gains of one player at ``[rest, from, to]``, where ``rest`` is what the others play."""
    count = len(payoffs.names[player])
    earned, error = (np.moveaxis(x[player], player, -1).reshape(-1, count) for x in (payoffs.mean, payoffs.stderr))
    gain = earned[:, None, :] - earned[:, :, None]
    errors = np.hypot(error[:, None, :], error[:, :, None])
    index = np.moveaxis(np.arange(payoffs.count.size).reshape(payoffs.count.shape), player, -1).reshape(-1, count)
    nodes = list(graph)
    for rest, old, new in np.argwhere(_clear(gain, errors, significance, _largest(earned))):
        at = rest, old, new
        graph.add_edge(
            nodes[index[rest, old]], nodes[index[rest, new]], weight=float(gain[at]), stderr=float(errors[at])
        )


def _clear(gain: Payoffs, error: Payoffs, significance: float, scale: float) -> NDArray[np.bool_]:
    """Gains above rounding and above so many standard errors; never where a payoff is missing."""
    known = np.isfinite(gain)
    rounding = EXACT * scale
    clear: NDArray[np.bool_] = known & (gain > np.maximum(rounding, significance * np.nan_to_num(error)))
    return clear


def _largest(payoffs: Payoffs) -> float:
    """What rounding is compared with; gaps are left out."""
    return float(np.nanmax(np.abs(payoffs), initial=0.0))


def _profile(payoffs: PayoffTensor, place: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(names[i] for names, i in zip(payoffs.names, place, strict=True))


def _strength(graph: nx.DiGraph, node: Node) -> float:
    """Margins of what it beats minus margins of what beats it."""
    return float(graph.in_degree(node, weight="weight") - graph.out_degree(node, weight="weight"))


def _shortest_through(graph: nx.DiGraph, node: Node) -> tuple[Node, ...]:
    """The nodes of the shortest cycle, the given one first, each followed by one that it beats."""
    back = graph.reverse(copy=False)  # from winner to loser
    length = min(nx.shortest_path_length(back, loser, node) for loser in back[node])

    def paths() -> Iterator[list[Node]]:
        for loser in back[node]:
            if nx.shortest_path_length(back, loser, node) == length:
                yield from nx.all_shortest_paths(back, loser, node)

    def smallest_margin(path: list[Node]) -> float:
        return min(float(back.edges[a, b]["weight"]) for a, b in pairwise([node, *path]))

    # There may be exponentially many paths of one length, and any of them is a right answer.
    clearest = max(islice(paths(), MOST_PATHS), key=smallest_margin)
    return (node, *clearest[:-1])


def _spelled_out(graph: nx.DiGraph, nodes: tuple[Node, ...], in_sink: bool) -> Cycle:
    margins, stderrs = [], []
    for winner, loser in pairwise((*nodes, nodes[0])):
        edge = graph.edges[loser, winner]
        margins.append(edge["weight"])
        stderrs.append(edge["stderr"])
    return Cycle(nodes, tuple(margins), tuple(stderrs), in_sink)
