"""What a game of goofspiel pays at its end, by everybody's points."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from marl.data.task import Bools, Floats, Ints

Returns: TypeAlias = Callable[[Ints], Floats]
"""From points ``[E, n]`` to what each player gets."""


def win_loss(points: Ints) -> Floats:
    """The winners share 1 and the others -1; nothing where all have equally many points."""
    best: Bools = points == points.max(axis=1, keepdims=True)
    won = best / best.sum(axis=1, keepdims=True)
    lost = ~best / np.maximum(1, (~best).sum(axis=1, keepdims=True))
    paid = np.where(best.all(axis=1, keepdims=True), 0.0, won - lost)
    return paid.astype(np.float32)


def point_difference(points: Ints) -> Floats:
    """Points less the mean of all players: a zero-sum game."""
    paid: Floats = (points - points.mean(axis=1, keepdims=True)).astype(np.float32)
    return paid


def total_points(points: Ints) -> Floats:
    return points.astype(np.float32)


RETURNS: dict[str, Returns] = {
    "win_loss": win_loss,
    "point_difference": point_difference,
    "total_points": total_points,
}
