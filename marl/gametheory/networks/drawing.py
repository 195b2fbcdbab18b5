"""A picture of a network with the flow on its edges: wider arrows carry more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from marl.envs.games.networks.routing import CongestionGame, Numbers
from marl.errors import ConfigError
from marl.storage import storing

LEAST_WIDTH, MOST_WIDTH = 0.8, 6.0  # of the arrows, in points


def draw_network(game: CongestionGame, edge_flows: Numbers, file: str | Path, title: str = "") -> Path:
    """Write a picture (the ending of ``file`` says which format) with flow and delay beside every edge."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    flows = np.asarray(edge_flows, np.float64)
    if flows.shape != (len(game.edges),):
        raise ConfigError(
            f"edge_flows have shape {flows.shape}; expected one flow for each of {len(game.edges)} edges."
        )
    figure = Figure(figsize=(8, 5))
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    places = _places(game)
    bends = _bends(game)
    for i, (flow, delay) in enumerate(zip(flows, game.edge_delays(flows), strict=True)):
        share = flow / max(flows.max(), 1e-12)
        text = f"{flow:.4g} (delay {delay:.4g})"
        _draw_edge(axes, places[game.edges[i][0]], places[game.edges[i][1]], bends[i], share, text)
    for node, (x, y) in places.items():
        axes.text(
            x, y, node, ha="center", va="center", bbox={"boxstyle": "circle", "fc": "white", "ec": "black"}, zorder=3
        )
    corners = np.array(list(places.values()))
    axes.set_aspect("equal")  # bends are measured on paper: only so do labels lie on their arrows
    axes.set_xlim(corners[:, 0].min() - 0.4, corners[:, 0].max() + 0.4)
    axes.set_ylim(corners[:, 1].min() - 0.4, corners[:, 1].max() + 0.4)
    axes.set_axis_off()
    axes.set_title(title)
    with storing(Path(file)):
        figure.savefig(file)
    return Path(file)


def _places(game: CongestionGame) -> dict[str, Any]:
    """Nodes in columns by their distance from the first trip's origin."""
    graph = nx.DiGraph(game.edges)
    graph.add_nodes_from(game.nodes)
    away = nx.single_source_shortest_path_length(graph, game.trips[0].origin)
    nx.set_node_attributes(graph, {node: away.get(node, len(game.nodes)) for node in graph}, "column")
    places: dict[str, Any] = nx.multipartite_layout(graph, subset_key="column")
    return places


def _bends(game: CongestionGame) -> list[float]:
    """How much each edge is bent, so that edges between the same two nodes do not hide each other."""
    bends = []
    for i, (u, v) in enumerate(game.edges):
        alike = []
        for j, edge in enumerate(game.edges):
            if edge == (u, v):
                alike.append(j)
        bend = 0.5 * (alike.index(i) - (len(alike) - 1) / 2)
        if not bend and (v, u) in game.edges:
            bend = 0.2  # else it would lie on the edge that goes back
        bends.append(bend)
    return bends


def _draw_edge(axes: Any, start: Any, end: Any, bend: float, share: float, text: str) -> None:
    style = {
        "arrowstyle": "-|>",
        "connectionstyle": f"arc3,rad={bend}",
        "lw": LEAST_WIDTH + (MOST_WIDTH - LEAST_WIDTH) * share,
        "color": "tab:blue" if share > 0 else "lightgray",
        "shrinkA": 14,
        "shrinkB": 14,
    }
    axes.annotate("", xy=end, xytext=start, arrowprops=style, zorder=1)
    along = np.asarray(end) - np.asarray(start)
    # The middle of the arc lies half of `bend` times the length to its side.
    middle = (np.asarray(start) + end) / 2 + 0.5 * bend * np.array([along[1], -along[0]])
    axes.text(
        *middle, text, ha="center", va="center", fontsize=8, bbox={"fc": "white", "ec": "none", "pad": 1}, zorder=2
    )
