"""Drawings of a report as SVG texts, made without matplotlib's global state."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import networkx as nx

from marl.gametheory.rank import Responses
from marl.gametheory.rank.response import Node, node_name
from marl.gametheory.rank.result import Row
from marl.runs.curve import drawn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Line: TypeAlias = list[tuple[float, float]]
"""Points of a curve: env steps and value."""
INK, QUIET, PLAIN = "#24292f", "#8c959f", "#dfe6ee"
BEND = -0.15
SINKS = ["#f2a541", "#5aa9a3", "#b78ad6", "#e07a72", "#8bb95c", "#6f9fd8"]  # one colour per sink component


def draw_intervals(rows: Sequence[Row], label: str) -> str:
    """Scores as dots with their intervals, the best on top."""
    figure = new_figure(6.4, 0.9 + 0.32 * len(rows))
    axes = figure.add_subplot()
    for place, row in enumerate(reversed(rows)):
        axes.plot([row.low, row.high], [place, place], color=QUIET, linewidth=3, solid_capstyle="round")
        axes.plot([row.score], [place], "o", color="#1f6feb", markersize=7)
    axes.set_yticks(range(len(rows)), [drawn(row.name) for row in reversed(rows)])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel(drawn(label))
    axes.grid(axis="x", alpha=0.3)
    _bare(axes)
    return svg_of(figure)


def draw_responses(found: Responses) -> str:
    """Nodes on a circle, arrows to better replies, sink components in colours of their own."""
    graph = found.graph
    sink_of: dict[Node, int] = {}
    for number, sink in enumerate(found.sinks):
        sink_of |= dict.fromkeys(sink, number)
    size, nodes = 5.2, 2300
    if len(graph) > 8:  # smaller circles on a larger sheet, so that arrows between them are still seen
        size, nodes = 7.5, 1500
    figure = new_figure(size, size)
    axes = figure.add_subplot()
    places = nx.circular_layout(graph)
    colours, labels = [], {}
    for node in graph:
        colours.append(SINKS[sink_of[node] % len(SINKS)] if node in sink_of else PLAIN)
        labels[node] = drawn("\n".join(textwrap.wrap(node_name(node), 11)))
    nx.draw_networkx_nodes(graph, places, ax=axes, node_color=colours, node_size=nodes, edgecolors=INK, linewidths=0.8)
    for bend, edges in _bent_inwards(graph, places).items():
        nx.draw_networkx_edges(
            graph,
            places,
            edges,
            ax=axes,
            node_size=nodes,
            arrowsize=14,
            edge_color="#57606a",
            width=1.1,
            connectionstyle=f"arc3,rad={bend}",
        )
    nx.draw_networkx_labels(graph, places, labels, ax=axes, font_size=8, font_color=INK)
    axes.margins(0.12)
    axes.set_axis_off()
    return svg_of(figure)


def _bent_inwards(graph: nx.DiGraph, places: Mapping[Node, Any]) -> dict[float, list[tuple[Node, Node]]]:
    """Arrows by the bend that leads them past their neighbours on the circle, towards its centre."""
    found: dict[float, list[tuple[Node, Node]]] = {}
    for a, b in graph.edges:
        (x, y), (u, v) = places[a], places[b]
        # The sign of the cross product says on which side of the arrow the centre lies.
        bend = BEND if x * v - y * u > 0 else -BEND
        found.setdefault(bend, []).append((a, b))
    return found


def draw_curves(rewards: Mapping[str, Line], nash_conv: Line, checkpoints: Sequence[float]) -> str:
    """Rewards over env steps and, below, NashConv where it was measured."""
    panels: dict[str, Mapping[str, Line]] = {}
    if rewards:
        panels["mean reward per episode"] = rewards
    if nash_conv:
        panels["NashConv"] = {"NashConv": nash_conv}
    figure = new_figure(7.2, 3.2 * len(panels))
    for place, (label, lines) in enumerate(panels.items(), 1):
        axes = figure.add_subplot(len(panels), 1, place)
        for name, line in lines.items():
            _draw_line(axes, name, line)
        for steps in checkpoints:
            axes.axvline(steps, color=QUIET, linewidth=0.8, linestyle=":")
        axes.set_xlabel("env steps")
        axes.set_ylabel(label)
        axes.xaxis.set_major_formatter(lambda steps, _: f"{steps:,.10g}")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
        _bare(axes)
    return svg_of(figure)


def _draw_line(axes: Any, name: str, line: Line) -> None:
    style: dict[str, Any] = {}
    if len(line) < 40:  # a single point without a marker is not seen at all
        style = {"marker": "o", "markersize": 3.5}
    steps, values = zip(*line, strict=True)
    axes.plot(steps, values, label=drawn(name), linewidth=1.5, **style)


def new_figure(width: float, height: float) -> Figure:
    """An empty sheet, in inches."""
    from matplotlib.figure import Figure

    # Not pyplot: it keeps every figure in a global list until it is closed.
    return Figure(figsize=(width, height), layout="constrained")


def _bare(axes: Any) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def svg_of(figure: Figure) -> str:
    """The drawing; the same figure gives the same text. Letters are outlines, so any viewer shows them alike."""
    import matplotlib

    picture = io.StringIO()
    # Ids in the drawing are random and the date is today's unless matplotlib is told otherwise.
    with matplotlib.rc_context({"svg.hashsalt": "marl", "svg.fonttype": "path"}):
        figure.savefig(picture, format="svg", metadata={"Date": None, "Creator": None})
    return picture.getvalue()
