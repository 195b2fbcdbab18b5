"""What callbacks noted in episodes, as results report it: mean, smallest and largest number, histograms, pictures."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any, Literal

import numpy as np

from marl.data.episode import EpisodeStats, Remarks

MOST_PICTURES = 8  # newest ones of each name in one result


def custom_numbers(stats: EpisodeStats) -> dict[str, float]:
    """``NAME_mean``, ``NAME_min`` and ``NAME_max`` of every custom metric, over the episodes that set it."""
    numbers = {}
    for name, values in _by_name(stats, "custom_metrics").items():
        column = np.array(values, np.float64)
        numbers[f"{name}_mean"] = float(column.mean())
        numbers[f"{name}_min"] = float(column.min())
        numbers[f"{name}_max"] = float(column.max())
    return numbers


def custom_histograms(stats: EpisodeStats, longest: int) -> dict[str, list[float]]:
    """All values of every ``hist_data``; of more than ``longest`` ones a part, spread evenly over the episodes."""
    histograms = {}
    for name, parts in _by_name(stats, "hist_data").items():
        column = np.concatenate(parts)
        # Every result carries them all: without a limit an episode with many values would fill the disk.
        if len(column) > longest:
            evenly = np.linspace(0, len(column) - 1, longest)
            column = column[evenly.round().astype(np.int64)]
        histograms[name] = column.tolist()
    return histograms


def pictures(stats: EpisodeStats) -> dict[str, list[Any]]:
    """The newest pictures of every name."""
    newest = {}
    for name, given in _by_name(stats, "media").items():
        of_all_episodes = list(chain.from_iterable(given))
        newest[name] = of_all_episodes[-MOST_PICTURES:]
    return newest


def _by_name(stats: EpisodeStats, kind: Literal["custom_metrics", "hist_data", "media"]) -> dict[str, list[Any]]:
    """What callbacks noted under each name, one entry per episode that did."""
    found: dict[str, list[Any]] = {}
    for remark in stats.remarks:
        for name, noted in remark.get(kind, {}).items():
            found.setdefault(name, []).append(noted)
    return found


def without_pictures(stats: EpisodeStats) -> EpisodeStats:
    """The same episodes for later results, which show their numbers again but not their pictures."""
    remarks: list[Remarks] = []
    for remark in stats.remarks:
        kept = remark.copy()
        kept.pop("media", None)
        remarks.append(kept)
    return replace(stats, remarks=remarks)
