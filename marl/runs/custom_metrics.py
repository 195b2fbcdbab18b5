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
    numbers = {}
    for name, values in found.items():
        column = np.array(values, np.float64)
        numbers[f"{name}_mean"] = float(column.mean())
        numbers[f"{name}_min"] = float(column.min())
        numbers[f"{name}_max"] = float(column.max())
    return numbers


def custom_histograms(stats: EpisodeStats, longest: int) -> dict[str, list[float]]:
    """All values of every ``hist_data``; of more than ``longest`` ones a part, spread evenly over the episodes."""
    found: dict[str, list[Array]] = {}
    for remark in stats.remarks:
        for name, values in remark.get("hist_data", {}).items():
            found.setdefault(name, []).append(values)
    histograms = {}
    for name, parts in found.items():
        column = np.concatenate(parts)
        # Every result carries them all: without a limit an episode with many values would fill the disk.
        if len(column) > longest:
            evenly = np.linspace(0, len(column) - 1, longest)
            column = column[evenly.round().astype(np.int64)]
        histograms[name] = column.tolist()
    return histograms


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
