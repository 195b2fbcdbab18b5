"""The kinds of figures: learning curves, performance profiles, aggregates over envs, probabilities of improvement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any, TypeAlias

import numpy as np

from marl.analysis.compare.compare import Run
from marl.analysis.compare.statistics import Scores, interval, iqm
from marl.analysis.plot.chart import NOTHING, Chart, Panel, Series
from marl.analysis.plot.estimates import AGGREGATES, Strata, band, better, drawn_again, profile
from marl.analysis.plot.groups import Grouped
from marl.analysis.plot.points import STEPS, aligned, check_exams, label_of, lines_of, metric_of, note_on_length
from marl.analysis.plot.scores import Finals, Scale, check_complete, finals_of, scales_of
from marl.analysis.report.content import plural
from marl.errors import ConfigError

THRESHOLDS = 201  # of a performance profile
MIDDLES: Mapping[str, Callable[..., Scores]] = {"iqm": iqm, "mean": np.mean, "median": np.median}
IN_WORDS = {"iqm": "interquartile means", "mean": "means", "median": "medians"}


@dataclass(frozen=True)
class Numbers:
    """What is computed from the runs; without ``metrics``, the field by which each env's runs are judged."""

    metrics: Sequence[str] = ()
    x: str = STEPS
    statistic: str = "iqm"
    confidence: float = 0.95
    resamples: int = 2_000
    smooth: int = 1
    extend: bool = False
    at: float | None = None
    normalise: Sequence[str] = ()
    seed: int = 0


Compute: TypeAlias = Callable[[Grouped, Numbers], Chart]


def curves(grouped: Grouped, numbers: Numbers) -> Chart:
    """A panel per env and field: the middle of the runs over env steps, with its interval."""
    rng = np.random.default_rng(numbers.seed)
    panels: list[Panel] = []
    notes: list[str] = []
    for env, lines in grouped.groups.items():
        for metric in numbers.metrics or [metric_of(grouped.runs_of(env))]:
            check_exams(lines, metric)
            series = []
            for name, members in lines.items():
                found, said = _curve(name, members, metric, numbers, rng)
                series.append(found)
                notes += said
            panels.append(Panel(env, label_of(numbers.x), label_of(metric), series))
    smooth = ""
    if numbers.smooth > 1:
        smooth = f", each run smoothed over its newest {numbers.smooth} measurements"
    caption = f"Lines: {IN_WORDS[numbers.statistic]} over {_runs(panels)}{smooth}; bands: {_intervals(numbers)}."
    facts = {
        "by": list(grouped.by),
        "x": numbers.x,
        "statistic": numbers.statistic,
        "smooth": numbers.smooth,
        "extend": numbers.extend,
        "confidence": numbers.confidence,
        "resamples": numbers.resamples,
        "seed": numbers.seed,
    }
    return Chart("curves", panels, caption, facts, list(dict.fromkeys(notes)))


def _curve(
    name: str, runs: Sequence[Run], metric: str, numbers: Numbers, rng: np.random.Generator
) -> tuple[Series, list[str]]:
    measured, notes = lines_of(name, runs, metric, numbers.x, numbers.smooth)
    notes += note_on_length(name, measured, numbers.x, numbers.extend)
    places, values = aligned(measured, numbers.extend)
    statistic = MIDDLES[numbers.statistic]
    low, high = band(values, statistic, numbers.resamples, numbers.confidence, rng)
    return Series(name, places, statistic(values, axis=0), low, high, len(values), values), notes


def profiles(grouped: Grouped, numbers: Numbers) -> Chart:
    """How large a part of the runs scores above a threshold, over all thresholds."""
    finals, rng = _finals(grouped, numbers), np.random.default_rng(numbers.seed)
    scales = scales_of(finals, numbers.normalise)
    by_line = finals.normalised(scales)
    everything = np.concatenate(list(chain.from_iterable(by_line.values())))
    thresholds = np.linspace(everything.min(), everything.max(), THRESHOLDS)
    series = []
    for name, scores in by_line.items():
        again = drawn_again(scores, numbers.resamples, rng)
        low, high = _profile_band(again, thresholds, numbers.confidence)
        series.append(Series(name, thresholds, profile(scores, thresholds), low, high, _count(scores)))
    panel = Panel("", "normalised score", "share of runs above", series)
    shown = f"Share of runs whose score is above a threshold{_over(finals)}; bands: {_intervals(numbers)}."
    facts = {**_facts(grouped, numbers, finals), **_scales_as_json(scales)}
    return Chart("profiles", [panel], f"{shown} {_in_words(scales)}", facts, finals.notes)


def _profile_band(again: Strata, thresholds: Scores, confidence: float) -> tuple[Scores, Scores]:
    low, high = np.empty(len(thresholds)), np.empty(len(thresholds))
    for place in range(len(thresholds)):
        # One threshold at a time, as resamples x runs x thresholds at once would be large.
        shares = profile(again, thresholds[[place]])
        (low[place],), (high[place],) = interval(shares, confidence)
    return low, high


def aggregates(grouped: Grouped, numbers: Numbers) -> Chart:
    """Median, IQM, mean and optimality gap of the normalised scores, a panel each."""
    finals, rng = _finals(grouped, numbers), np.random.default_rng(numbers.seed)
    scales = scales_of(finals, numbers.normalise)
    by_line = finals.normalised(scales)
    # All four from the same resamples.
    again = {name: drawn_again(scores, numbers.resamples, rng) for name, scores in by_line.items()}
    panels = []
    for title, estimate in AGGREGATES.items():
        series = []
        for name, scores in by_line.items():
            low, high = interval(estimate(again[name]), numbers.confidence)
            series.append(_single(name, estimate(scores), low, high, _count(scores)))
        panels.append(Panel(title, "normalised score", "", series))
    notes = list(finals.notes)
    if len(finals.envs) == 1:
        notes.append("with one env the median over envs is that env's mean")
    shown = f"Aggregates of scores{_over(finals)}; bars: {_intervals(numbers)}. Of the optimality gap less is better."
    facts = {**_facts(grouped, numbers, finals), **_scales_as_json(scales)}
    return Chart("aggregates", panels, f"{shown} {_in_words(scales)}", facts, notes)


def improvements(grouped: Grouped, numbers: Numbers) -> Chart:
    """For each pair of lines, the probability that a run of the better one beats a run of the other."""
    if len(grouped.lines) < 2:
        raise ConfigError(
            "--kind improvement compares lines with each other, but there is only one. Give runs of another one, or tell them "
            "apart by --by."
        )
    finals, rng = _finals(grouped, numbers), np.random.default_rng(numbers.seed)
    by_line = finals.signed()
    again = {name: drawn_again(scores, numbers.resamples, rng) for name, scores in by_line.items()}
    series = []
    for first, second in combinations(by_line, 2):
        # Of both directions the one that says who is better; the other one is 1 minus it.
        if better(by_line[first], by_line[second]) < 0.5:
            first, second = second, first
        found = better(by_line[first], by_line[second])
        low, high = interval(better(again[first], again[second]), numbers.confidence)
        series.append(_single(f"{first} > {second}", found, low, high, _count(by_line[first])))
    panel = Panel("", "probability of improvement", "", series, mark=0.5)
    shown = f"Probability that a run of the first is better than a run of the second{_over(finals)}"
    caption = f"{shown}; bars: {_intervals(numbers)}."
    return Chart("improvement", [panel], caption, _facts(grouped, numbers, finals), finals.notes)


KINDS: Mapping[str, Compute] = {
    "curves": curves,
    "profiles": profiles,
    "aggregates": aggregates,
    "improvement": improvements,
}


def _finals(grouped: Grouped, numbers: Numbers) -> Finals:
    if len(numbers.metrics) > 1:
        raise ConfigError("scores are of one field: give --metric once. Only --kind curves draws several fields.")
    check_complete(grouped)
    metric = next(iter(numbers.metrics), None)
    return finals_of(grouped, metric, numbers.x, numbers.smooth, numbers.at, numbers.extend)


def _single(name: str, middle: Any, low: Any, high: Any, runs: int) -> Series:
    return Series(name, NOTHING, np.atleast_1d(middle), np.atleast_1d(low), np.atleast_1d(high), runs)


def _count(scores: Strata) -> int:
    return sum(map(len, scores))


def _runs(panels: Sequence[Panel]) -> str:
    counts: set[int] = set()
    for panel in panels:
        counts |= {series.runs for series in panel.series}
    if len(counts) == 1:
        return plural(counts.pop(), "run")
    return f"{min(counts)} to {max(counts)} runs"


def _over(finals: Finals) -> str:
    if len(finals.envs) == 1:
        return f" in {finals.envs[0]}"
    return f" over {len(finals.envs)} envs"


def _intervals(numbers: Numbers) -> str:
    return f"{100 * numbers.confidence:.4g}% stratified bootstrap intervals ({numbers.resamples:,} resamples)"


def _in_words(scales: Mapping[str, Scale]) -> str:
    """What counts as 0 and as 1, in every env."""
    parts = []
    for env, scale in scales.items():
        source = "given" if scale.given else "the worst and the best run"
        parts.append(f"{env} 0 is {scale.zero:.4g} and 1 is {scale.one:.4g} ({source})")
    return f"Normalised scores: in {'; in '.join(parts)}."


def _scales_as_json(scales: Mapping[str, Scale]) -> dict[str, Any]:
    return {"normalised": {env: scale._asdict() for env, scale in scales.items()}}


def _facts(grouped: Grouped, numbers: Numbers, finals: Finals) -> dict[str, Any]:
    return {
        "by": list(grouped.by),
        "metrics": dict(finals.metrics),
        "at": numbers.at,
        "confidence": numbers.confidence,
        "resamples": numbers.resamples,
        "seed": numbers.seed,
    }
