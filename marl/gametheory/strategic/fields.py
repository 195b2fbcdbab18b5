"""Vector fields: where play goes from everywhere, on a grid that a picture can show.

Two populations with two actions each are a square (the shares of their first actions); one population is a line with two
actions and a triangle with three.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from marl.errors import ConfigError
from marl.gametheory.game import MatrixGame, Payoffs
from marl.gametheory.strategic.motion import DYNAMICS, velocity_at
from marl.gametheory.strategic.populations import Place, count_populations, earnings, rows_of

SPACES = {(1, 2): "line", (1, 3): "triangle", (2, 2): "square"}
"""What can be drawn, by populations and actions."""
FINEST = 401


@dataclass(frozen=True, eq=False)
class VectorField:
    """Per population ``points`` and ``velocity`` ``[N, actions]``. Velocities sum to 0: shares stay shares.

    Payoffs are divided by how far they spread, so lengths can be compared between games.
    """

    game: MatrixGame
    dynamics: str
    space: str  # line, triangle or square
    points: Place
    velocity: Place

    @property
    def speed(self) -> Payoffs:
        """``[N]``: how fast shares move at each point."""
        return np.asarray(np.linalg.norm(rows_of(self.velocity), axis=1))

    def as_json(self) -> dict[str, Any]:
        return {
            "game": self.game.name,
            "dynamics": self.dynamics,
            "space": self.space,
            "actions": [list(names) for names in self.game.actions[: len(self.points)]],
            "points": [shares.tolist() for shares in self.points],
            "velocity": [moves.tolist() for moves in self.velocity],
        }


def vector_field(
    game: MatrixGame, dynamics: str = "replicator", resolution: int = 15, populations: int | None = None
) -> VectorField:
    """Directions on an even grid with ``resolution`` points along each side; the borders are part of it.

    ``populations``: 1 (a symmetric game against itself) or 2; by default 1 for symmetric games with three actions.
    """
    motion = DYNAMICS[dynamics]
    count = count_populations(game, populations)
    space = SPACES.get((count, max(game.shape)))
    if space is None or len(set(game.shape)) > 1:
        raise ConfigError(
            f"game {game.name!r} has {' x '.join(map(str, game.shape))} actions and {count} population(s), which no plane "
            "holds. Fields are drawn of 2 x 2 games and of symmetric games with two or three actions; basins() takes more."
        )
    if not 2 <= resolution <= FINEST:
        raise ConfigError(f"vector_field: resolution is {resolution}; expected a number of points from 2 to {FINEST}.")
    points = _grid(space, resolution)
    velocity = velocity_at(motion, earnings(game, count), points)
    return VectorField(game, dynamics, space, points, velocity)


def _grid(space: str, resolution: int) -> Place:
    side = np.linspace(0.0, 1.0, resolution)
    if space == "line":
        return (np.stack([side, 1 - side], axis=1),)
    first, second = (axis.ravel() for axis in np.meshgrid(side, side, indexing="ij"))
    if space == "square":
        return (np.stack([first, 1 - first], axis=1), np.stack([second, 1 - second], axis=1))
    inside = first + second <= 1 + 1e-9
    shares = np.stack([first, second, 1 - first - second], axis=1)[inside]
    return (np.maximum(shares, 0.0),)
