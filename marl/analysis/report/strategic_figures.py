"""Drawings of gamescapes and vector fields, as SVG texts."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from marl.analysis.report.figures import INK, QUIET, SINKS, new_figure, svg_of
from marl.gametheory.game import Payoffs
from marl.gametheory.strategic import Basins, Gamescape, VectorField
from marl.gametheory.strategic.populations import Place
from marl.runs.curve import drawn

CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, sqrt(3) / 2]])
LOST = "#c9d1d9"  # starts from which play does not come to rest


def draw_disc(scape: Gamescape) -> str:
    """The strongest plane: a point per strategy, with the origin around which they turn."""
    points = scape.discs[0].points
    figure = new_figure(5.2, 4.6)
    axes = figure.add_subplot()
    axes.axhline(0, color=QUIET, linewidth=0.6)
    axes.axvline(0, color=QUIET, linewidth=0.6)
    axes.scatter(points[:, 0], points[:, 1], color="#1f6feb", s=40, zorder=3)
    for name, (x, y) in zip(scape.names, points.tolist(), strict=True):
        axes.annotate(drawn(name), (x, y), xytext=(5, 4), textcoords="offset points", fontsize=8, color=INK)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.15)
    return svg_of(figure)


def draw_field(field: VectorField, found: Basins) -> str:
    """Arrows in the direction of play; starts in the colours of the basins that they belong to."""
    figure = new_figure(4.8, 2.0 if field.space == "line" else 4.6)
    axes = figure.add_subplot()
    starts = _in_plane(field.space, found.starts)
    axes.scatter(starts[:, 0], starts[:, 1], color=_colours(found), s=9, linewidths=0, zorder=1)
    at, moves = _in_plane(field.space, field.points), _in_plane(field.space, field.velocity)
    length = np.linalg.norm(moves, axis=1, keepdims=True)
    # All arrows of one length: slow places would not be seen. Where nothing moves there is none.
    arrows = np.divide(moves, length, out=np.zeros_like(moves), where=length > 1e-9)
    axes.quiver(*at.T, *arrows.T, color=INK, angles="xy", scale=26, width=0.0035, zorder=2)
    _name_corners(axes, field)
    axes.set_aspect("equal")
    axes.set_axis_off()
    return svg_of(figure)


def _colours(found: Basins) -> list[str]:
    return [SINKS[end % len(SINKS)] if end >= 0 else LOST for end in found.ends.tolist()]


def _in_plane(space: str, place: Place) -> Payoffs:
    """``[N, 2]``: shares of first actions, or a place in the triangle. Linear, so it takes velocities as well."""
    if space == "triangle":
        return np.asarray(place[0] @ CORNERS)
    across = place[0][:, 0]
    up = place[1][:, 0] if space == "square" else np.zeros_like(across)
    return np.stack([across, up], axis=1)


def _name_corners(axes: Any, field: VectorField) -> None:
    actions = field.game.actions
    if field.space == "triangle":
        named = list(zip(actions[0], CORNERS.tolist(), strict=True))
    elif field.space == "line":
        named = [(actions[0][0], [1.0, 0.0]), (actions[0][1], [0.0, 0.0])]
    else:
        (first, second), (up, down) = actions
        named = [(f"{second}, {down}", [0, 0]), (f"{first}, {down}", [1, 0])]
        named += [(f"{second}, {up}", [0, 1]), (f"{first}, {up}", [1, 1])]
    for name, (x, y) in named:
        below = y < 0.5
        axes.annotate(
            drawn(name),
            (x, y),
            xytext=(0, -12 if below else 8),
            textcoords="offset points",
            ha="center",
            va="top" if below else "bottom",
            fontsize=8,
        )
