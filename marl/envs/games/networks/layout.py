"""Where the nodes of a graph are drawn: on a square from 0 to 1, the same place whenever it is asked for."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from typing import TypeAlias

import networkx as nx
import numpy as np

Point: TypeAlias = tuple[float, float]
MOST_NODES, MOST_EDGES = 150, 500  # that can be told apart in a drawing
Ends: TypeAlias = tuple[tuple[str, str], ...]


@lru_cache(maxsize=32)
def layered(nodes: tuple[str, ...], edges: Ends, origins: tuple[str, ...]) -> tuple[Point, ...]:
    """From left to right by how many edges a node is away from the origins."""
    graph = nx.DiGraph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(edges)
    layer = dict.fromkeys(nodes, 0)  # nodes that no way leads to stand at the left edge
    for node, distance in nx.multi_source_dijkstra_path_length(graph, set(origins), weight=None).items():
        layer[node] = int(distance)
    last = max(layer.values()) or 1
    sizes = Counter(layer.values())
    placed: Counter[int] = Counter()
    points: list[Point] = []
    for node in nodes:
        column = layer[node]
        height = 0.5  # of a node that stands alone
        if sizes[column] > 1:
            height = placed[column] / (sizes[column] - 1)
        placed[column] += 1
        points.append((round(column / last, 4), round(height, 4)))
    return tuple(points)


@lru_cache(maxsize=32)
def spread_out(nodes: tuple[str, ...], edges: Ends) -> tuple[Point, ...]:
    """By the distances in the graph, so that neighbours stand close and edges seldom cross."""
    graph = nx.Graph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(edges)
    if nx.is_connected(graph):
        found = nx.kamada_kawai_layout(graph)  # starts from a circle: nothing is drawn at random
    else:
        found = nx.circular_layout(graph)
    points = np.array([found[node] for node in nodes])
    low, high = points.min(axis=0), points.max(axis=0)
    width = np.where(high - low < 1e-6, 1.0, high - low)
    return tuple((float(x), float(y)) for x, y in ((points - low) / width).round(4))
