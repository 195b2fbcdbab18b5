"""How far a run is on its way to its stop condition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from marl.runs.result import look_up

# Of a reward that goes up and down nobody can say how far it is.
GROWING = ("timesteps_total", "training_iteration", "time_total_s", "episodes_total")


@dataclass(frozen=True)
class Progress:
    """How far the run is on its way to its stop condition."""

    fraction: float  # 0 at the start, 1 at the end
    label: str  # for instance "timesteps_total 12000/50000"


def progress_of(stop: Mapping[str, float | bool], result: Mapping[str, Any]) -> Progress:
    """How far the run is towards the nearest stop condition that only grows."""
    nearest = Progress(0.0, "until the goal is met")
    if not stop:
        nearest = Progress(0.0, "no limit: stop it with Ctrl-C")
    for field, limit in stop.items():
        if field not in GROWING or isinstance(limit, bool):
            continue
        value = look_up(result, field)
        if value is None:
            continue
        fraction = 1.0
        if limit:  # `stop: {timesteps_total: 0}` is met at once
            fraction = min(1.0, value / limit)
        if fraction >= nearest.fraction:
            nearest = Progress(fraction, f"{field} {value:.0f}/{limit:.0f}")
    return nearest
