"""Curves of runs: at most a thousand points each, and means with intervals over runs that differ in their seed alone.

mean(x)     = 1/n sum_i y_i(x)                        y_i(x): the newest measurement of run i until x, so nothing looks ahead
interval(x) = mean(x) +- t(n-1, 0.975) s(x) / sqrt(n)   Student's t, of the n runs that have come as far as x
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from marl.watch.runs.index import Index, RunEntry
from marl.watch.runs.table import Column

MOST_POINTS = 1_000
MOST_STEPS = 4_000  # at which means are computed before points are chosen
CONFIDENCE = 0.95
LONGEST_LABEL = 60  # letters of the key that tells two groups apart
STEPS = ("timesteps_total", "training_iteration", "time_total_s", "episodes_total")
METHOD = (
    "The line is the mean over the runs that differ only in their seed, the band its 95 % interval by Student's t. At each "
    "step a run counts with its newest value until then; runs that have not come that far do not count."
)
# Keys that say where and how long a run trains, not what it learns.
BESIDE = (
    "seed",
    "name",
    "stop",
    "goal",
    "checkpoint_freq",
    "keep_checkpoints",
    "log_level",
    "num_workers",
    "ray_num_cpus",
)


class Curve(NamedTuple):
    """``low`` and ``high`` are empty where there is no interval."""

    x: Column
    y: Column
    low: Column
    high: Column


NOTHING: Column = np.empty(0)
NO_CURVE = Curve(NOTHING, NOTHING, NOTHING, NOTHING)


def curve_of(index: Index, entry: RunEntry, field: str, over: str) -> Curve:
    """All points of one run at which the field was measured."""
    x, y = index.read(entry, [over, field])
    if len(x) != len(y):  # one of them is no column of this run
        return NO_CURVE
    there = ~(np.isnan(x) | np.isnan(y))
    return Curve(x[there], y[there], NOTHING, NOTHING)


def thinned(curve: Curve, most: int = MOST_POINTS) -> Curve:
    """Fewer points of the same picture: of every stretch the lowest and the highest, so no spike is lost."""
    count = len(curve.x)
    if count <= most:
        return curve
    edges = np.linspace(0, count, most // 2, dtype=int)
    kept = {0, count - 1}
    for begin, end in pairwise(edges):
        stretch = curve.y[begin:end]
        if np.isnan(stretch).all():
            kept.add(int(begin))
            continue
        kept.add(int(begin + np.nanargmin(stretch)))
        kept.add(int(begin + np.nanargmax(stretch)))
    chosen = sorted(kept)
    x, y = curve.x[chosen], curve.y[chosen]
    if not len(curve.low):
        return Curve(x, y, NOTHING, NOTHING)
    return Curve(x, y, curve.low[chosen], curve.high[chosen])


def mean_of(curves: Sequence[Curve]) -> Curve:
    """Mean and interval over runs (see the top of this file)."""
    measured = [curve for curve in curves if len(curve.x)]
    if not measured:
        return NO_CURVE
    if len(measured) == 1:
        return measured[0]
    # A damaged table may hold steps out of order, at which no run counts, and numbers whose squares no float holds.
    with np.errstate(all="ignore"):
        return _mean_of(measured)


def _mean_of(measured: Sequence[Curve]) -> Curve:
    steps = _steps_of(measured)
    values = np.stack([_at(curve, steps) for curve in measured])
    missing = np.isnan(values)
    runs = np.sum(~missing, axis=0)
    filled = np.where(missing, 0.0, values)
    mean = filled.sum(axis=0) / runs
    squares = np.where(missing, 0.0, (values - mean) ** 2)
    reach = _reach(squares.sum(axis=0), runs)
    return Curve(steps, mean, mean - reach, mean + reach)


def _steps_of(curves: Sequence[Curve]) -> Column:
    """All steps at which any of the runs was measured; of very many a part, evenly."""
    steps = np.unique(np.concatenate([curve.x for curve in curves]))
    if len(steps) <= MOST_STEPS:
        return steps
    places = np.linspace(0, len(steps) - 1, MOST_STEPS, dtype=int)
    return steps[places]


def _at(curve: Curve, steps: Column) -> Column:
    """The newest value until each step; nan before the first and after the last one."""
    places = np.searchsorted(curve.x, steps, side="right") - 1
    values = np.where(places >= 0, curve.y[np.maximum(places, 0)], np.nan)
    return np.where(steps <= curve.x[-1], values, np.nan)


def _reach(squares: Column, runs: Any) -> Column:
    """Half the width of the interval; nan where a single run is left, of which nobody knows how sure it is."""
    from scipy.special import stdtrit

    freedom = np.maximum(runs - 1, 1)
    deviation = np.sqrt(squares / freedom)
    reach = stdtrit(freedom, 0.5 + CONFIDENCE / 2) * deviation / np.sqrt(runs)
    found: Column = np.where(runs > 1, reach, np.nan)
    return found


# -- groups --------------------------------------------------------------------------------------------------------------


def groups_of(entries: Sequence[RunEntry]) -> dict[str, list[RunEntry]]:
    """Runs that differ in their seed alone, by a label that tells the groups apart."""
    by_keys: dict[tuple[str, str], list[RunEntry]] = {}
    for entry in entries:
        key = (entry.directory.parent.name, _digest(entry.params))
        by_keys.setdefault(key, []).append(entry)
    groups = list(by_keys.values())
    often = Counter(_label(members[0]) for members in groups)
    found: dict[str, list[RunEntry]] = {}
    for members in groups:
        name = _label(members[0])
        if often[name] > 1:
            name = f"{name} ({_difference(members[0], groups)})"
        if name in found:
            name = members[0].name
        found[name] = members
    return found


def _digest(params: Mapping[str, Any]) -> str:
    kept = dict(params)
    for key in BESIDE:
        kept.pop(key, None)
    return hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()


def _label(entry: RunEntry) -> str:
    summary = entry.known
    return f"{summary.experiment} · {summary.algo}"


def _difference(entry: RunEntry, groups: Sequence[Sequence[RunEntry]]) -> str:
    """The first key by which this group differs from another one of the same label."""
    from marl.analysis.compare.keys import differences

    alike = [members[0] for members in groups if _label(members[0]) == _label(entry)]
    for other in alike:
        for one in differences(entry.params, other.params):
            section = one.key.partition(".")[0]
            if section in BESIDE:
                continue
            told = f"{one.key}={one.first}"
            return told[:LONGEST_LABEL]
    return entry.name


def each_of(entries: Sequence[RunEntry]) -> dict[str, list[RunEntry]]:
    """Every run by itself, by the shortest label that tells it apart."""
    found: dict[str, list[RunEntry]] = {}
    for entry in entries:
        summary = entry.known
        label = f"{_label(entry)} · seed {summary.seed}"
        longer = f"{label} · {summary.id}"
        if label not in found:
            found[label] = [entry]
        elif longer not in found:
            found[longer] = [entry]
        else:
            found[entry.name] = [entry]
    return found


def curves_json(index: Index, entries: Sequence[RunEntry], field: str, over: str, together: bool) -> dict[str, Any]:
    """What the page draws: one curve for each run, or for each group."""
    groups = each_of(entries)
    if together:
        groups = groups_of(entries)
    series = []
    method = ""
    for label, members in groups.items():
        curves = [curve_of(index, entry, field, over) for entry in members]
        curve = thinned(mean_of(curves))
        told = {
            "label": label,
            "runs": [entry.name for entry in members],
            "x": _plain(curve.x),
            "y": _plain(curve.y),
        }
        if len(curve.low):
            told["low"] = _plain(curve.low)
            told["high"] = _plain(curve.high)
            method = METHOD
        series.append(told)
    return {
        "field": field,
        "over": over,
        "series": series,
        "method": method,
    }


def _plain(values: Column) -> list[float | None]:
    """Without the digits that no screen has dots for; null where there is no number."""
    found: list[float | None] = []
    for value in values.tolist():
        number = None
        if value == value:
            number = float(f"{value:.7g}")
        found.append(number)
    return found
