"""Numbers that change over a run: points joined by straight lines."""

from __future__ import annotations

import itertools
from typing import Annotated

from pydantic import AfterValidator, NonNegativeFloat, NonNegativeInt


def _in_order(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    times = [time for time, _ in points]
    if not points or times != sorted(set(times)):
        raise ValueError("expected points [env steps, value] with growing env steps")
    return points


Schedule = Annotated[list[tuple[NonNegativeInt, NonNegativeFloat]], AfterValidator(_in_order)]


def scheduled(points: Schedule | None, constant: float, timesteps: int) -> float:
    """Value of a schedule after so many env steps; before the first and after the last point it is flat."""
    if not points:
        return constant
    if timesteps <= points[0][0]:
        return points[0][1]
    for (t0, v0), (t1, v1) in itertools.pairwise(points):
        if timesteps < t1:
            return v0 + (v1 - v0) * (timesteps - t0) / (t1 - t0)
    return points[-1][1]
