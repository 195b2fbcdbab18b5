"""What callbacks noted in episodes, as results report it: mean, smallest and largest number, histograms, pictures."""

from __future__ import annotations

from typing import Any

import numpy as np

from marl.data.episode import EpisodeStats
from marl.data.task import Array

MOST_PICTURES = 8  # newest ones of each name in one result


def custom_numbers(stats: EpisodeStats) -> dict[str, float]:
    """``NAME_mean``, ``NAME_min`` and ``NAME_max`` of every custom metric, over the episodes that set it."""
    found: dict[str, list[float]] = {}
    for remark in stats.remarks:
        for name, value in remark.get("custom_metrics", {}).items():
            found.setdefault(name, []).append(value)
    return {
        f"{name}_{how}": float(reduce(np.array(values, np.float64)))
        for name, values in found.items()
        for how, reduce in (("mean", np.mean), ("min", np.min), ("max", np.max))
    }


def custom_histograms(stats: EpisodeStats, longest: int) -> dict[str, list[float]]:
    """All values of every ``hist_data``; of more than ``longest`` ones a part, spread evenly over the episodes."""
    found: dict[str, list[Array]] = {}
    for remark in stats.remarks:
        for name, values in remark.get("hist_data", {}).items():
            found.setdefault(name, []).append(values)
    return {name: _thinned(np.concatenate(parts), longest).tolist() for name, parts in found.items()}


def _thinned(values: Array, longest: int) -> Array:
    if len(values) <= longest:
        return values
    return values[np.linspace(0, len(values) - 1, longest).round().astype(np.int64)]


def pictures(stats: EpisodeStats) -> dict[str, list[Any]]:
    """The newest pictures of every name."""
    found: dict[str, list[Any]] = {}
    for remark in stats.remarks:
        for name, given in remark.get("media", {}).items():
            found.setdefault(name, []).extend(given)
    return {name: given[-MOST_PICTURES:] for name, given in found.items()}


def without_pictures(stats: EpisodeStats) -> EpisodeStats:
    """The same episodes for later results, which show their numbers again but not their pictures."""
    for remark in stats.remarks:
        remark.pop("media", None)
    return stats
