"""Pictures of discs on a plane, painted with numpy alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from marl.envs.games.particles.seeding import Doubles

Colour: TypeAlias = tuple[float, float, float]
"""Red, green, blue from 0 to 1."""
Picture: TypeAlias = NDArray[np.uint8]

PIXELS = 300
MARGIN = 1.15  # how much wider than the farthest body the view is
WHITE, EDGE = 1.0, 0.0


class Disc(NamedTuple):
    """Place and radius in units of the plane (x to the right, y up)."""

    x: float
    y: float
    radius: float
    colour: Colour


def camera_range(positions: Doubles) -> float:
    """Half the width of a view around the origin that holds the square from -1 to 1 and all of the positions."""
    return max(1.0, float(np.abs(positions).max(initial=0.0))) * MARGIN


def draw(discs: Sequence[Disc], reach: float) -> Picture:
    """``PIXELS`` x ``PIXELS`` x 3. The view goes from ``-reach`` to ``reach``; later discs lie over earlier ones."""
    canvas = np.full((PIXELS, PIXELS, 3), WHITE)
    scale = PIXELS / (2 * reach)
    for disc in discs:
        centre = np.array([(reach - disc.y) * scale, (disc.x + reach) * scale])  # row, column
        _paint(canvas, centre, max(disc.radius * scale, 1.5), disc.colour)
    return (canvas * 255).round().astype(np.uint8)


def _paint(canvas: Doubles, centre: Doubles, radius: float, colour: Colour) -> None:
    """A disc with a dark edge of one pixel; pixels on a border are mixed by how much of them is covered."""
    low = np.clip(np.floor(centre - radius - 1), 0, PIXELS).astype(int)
    high = np.clip(np.ceil(centre + radius + 1), 0, PIXELS).astype(int)
    rows, columns = (np.arange(a, b) + 0.5 for a, b in zip(low, high, strict=True))
    distance = np.hypot(rows[:, None] - centre[0], columns - centre[1])
    patch = canvas[low[0] : high[0], low[1] : high[1]]
    for size, paint in ((radius, np.full(3, EDGE)), (radius - 1, np.array(colour))):
        covered = np.clip(size - distance + 0.5, 0, 1)[..., None]
        patch += covered * (paint - patch)
