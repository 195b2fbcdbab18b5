"""Where the members of a population come from: a directed acyclic graph.

An edge ``parent -> child`` says ``relation: trained_from`` (the child went on with the parent's weights) or
``relation: trained_against`` (the parent was an opponent, met with ``chance``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import networkx as nx


@dataclass
class Lineage:
    """One member: who made it, when, and out of whom."""

    name: str
    side: str
    learner: str
    round: int
    timesteps: int
    parent: str | None = None
    against: dict[str, float] = field(default_factory=dict)  # opponents by name, those with a chance above 0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def lineage_graph(members: Mapping[str, Lineage]) -> nx.MultiDiGraph:
    """All members and their relations."""
    graph = nx.MultiDiGraph()  # multi: a child may go on from a parent that it also met
    for name, one in members.items():
        graph.add_node(name, side=one.side, learner=one.learner, round=one.round, timesteps=one.timesteps)
    for name, one in members.items():
        for foe, chance in one.against.items():
            graph.add_edge(foe, name, relation="trained_against", chance=chance)
        if one.parent is not None:
            graph.add_edge(one.parent, name, relation="trained_from")
    return graph
