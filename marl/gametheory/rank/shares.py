"""How sure a response graph is: the share of tables, drawn anew within their errors, in which it looks the same.

A drawn table is a repetition of the measurement: other means, the same errors. So an arrow has to be clear again by as many
standard errors, and one that was only just clear is there again in about half of the tables. A sink counts where the same
component, no node more or less, is a sink again; a cycle where all of its arrows are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np

from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.rank.response import Cycle, Node, node_name, response_graph, sinks
from marl.gametheory.rank.result import Row


@dataclass(frozen=True, eq=False)
class ResponseShares:
    """Shares of the drawn tables, in the order of what was measured; all 1 where the table is exact."""

    edges: tuple[tuple[Node, Node, float], ...]  # from, to, share
    sinks: tuple[tuple[tuple[Node, ...], float], ...]
    cycles: tuple[tuple[Cycle, float], ...]
    significance: float
    draws: int

    def table(self) -> list[Row]:
        """Sinks, the surest first; the share is the score."""
        rows = [Row(sink_name(sink), share, share, share) for sink, share in self.sinks]
        return sorted(rows, key=lambda row: -row.score)

    def as_json(self) -> dict[str, Any]:
        return {
            "method": "response_shares",
            "significance": self.significance,
            "draws": self.draws,
            "edges": [{"from": node_name(a), "to": node_name(b), "share": share} for a, b, share in self.edges],
            "sinks": [{"sink": [node_name(node) for node in sink], "share": share} for sink, share in self.sinks],
            "cycles": [{"text": str(cycle), "share": share} for cycle, share in self.cycles],
        }


def sink_name(sink: Sequence[Node]) -> str:
    return "{" + ", ".join(map(node_name, sink)) + "}"


def response_shares(
    payoffs: PayoffTensor, graph: nx.DiGraph, found: Sequence[Cycle], significance: float, draws: int, seed: int
) -> ResponseShares:
    """Shares for a measured graph and its cycles."""
    rng = np.random.default_rng(seed)
    count = 1 if payoffs.is_exact else draws
    ends, edges = sinks(graph), list(graph.edges)
    arrows = [_arrows(cycle) for cycle in found]
    edges_seen, sinks_seen, cycles_seen = np.zeros(len(edges)), np.zeros(len(ends)), np.zeros(len(found))
    for _ in range(count):
        drawn = response_graph(replace(payoffs.redrawn(rng), stderr=payoffs.stderr), significance)
        drawn_edges, drawn_sinks = set(drawn.edges), set(sinks(drawn))
        edges_seen += [edge in drawn_edges for edge in edges]
        sinks_seen += [sink in drawn_sinks for sink in ends]
        cycles_seen += [drawn_edges.issuperset(cycle) for cycle in arrows]
    return ResponseShares(
        edges=tuple((a, b, share) for (a, b), share in zip(edges, (edges_seen / count).tolist(), strict=True)),
        sinks=tuple(zip(ends, (sinks_seen / count).tolist(), strict=True)),
        cycles=tuple(zip(found, (cycles_seen / count).tolist(), strict=True)),
        significance=significance,
        draws=count,
    )


def _arrows(cycle: Cycle) -> list[tuple[Node, Node]]:
    """From the loser to the winner, as in the graph; the last node is beaten by the first."""
    around = pairwise((*cycle.nodes, cycle.nodes[0]))
    return [(loser, winner) for winner, loser in around]
