"""``marl compare``: is one better than the other, or is it chance?

Learning curves of several seeds per entrant are laid over each other by env steps. At a step a run counts with its newest
measurement until then, so nothing looks ahead. The comparison is made at the last step that all runs have reached.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any, TypeAlias

import numpy as np

from marl.analysis.compare.keys import Difference, differences, told
from marl.analysis.compare.statistics import Scores, holm, improvement, interval, iqm, rank_test, resampled, smallest_p
from marl.analysis.report.curves import look_into
from marl.errors import ConfigError, did_you_mean
from marl.page import notebook
from marl.runs.fields import fields_of
from marl.runs.result import SMALLER_IS_BETTER, look_up

POINTS = 60  # of a drawn curve, at most
SAME_ENV = ("env", "env_config", "wrappers", "horizon", "multiagent.joint")
# Exploration changes what an evaluation measures as much as another env does.
SAME_EXAM = ("evaluation.env", "evaluation.env_config", "evaluation.explore")

Line: TypeAlias = list[tuple[float, float]]
"""What one run measured: env steps and value, in the order of training."""


@dataclass(frozen=True)
class Run:
    """One seed of an entrant: its scenario and its results."""

    name: str
    params: Mapping[str, Any]
    results: Sequence[Mapping[str, Any]]

    def points(self, metric: str) -> Line:
        """Env steps and value wherever the metric was measured."""
        found: Line = []
        for result in self.results:
            value = look_up(result, metric)
            # marl writes finite numbers alone, but another program may have written the file.
            if value is not None and math.isfinite(value):
                found.append((float(result["timesteps_total"]), value))
        return found


@dataclass(frozen=True)
class Entrant:
    name: str
    runs: Sequence[Run]
    notes: Sequence[str] = ()  # what a reader of the comparison should know about these runs


@dataclass(frozen=True)
class Curve:
    """An entrant over env steps: the runs' values ``[runs, points]`` and their IQM with its interval."""

    name: str
    values: Scores
    middle: Scores
    low: Scores
    high: Scores


@dataclass(frozen=True)
class Pair:
    """``first`` against ``second``: the probability that a run of the first is better, and whether it is chance."""

    first: str
    second: str
    probability: float
    low: float
    high: float
    p_value: float  # corrected for the number of pairs
    better: str | None  # None: not distinguishable
    why: str


@dataclass(frozen=True)
class Comparison:
    metric: str
    confidence: float
    steps: Scores
    curves: Sequence[Curve]
    pairs: Sequence[Pair]
    notes: Sequence[str]

    def as_json(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "confidence": self.confidence,
            "timesteps": float(self.steps[-1]),
            "entrants": [self._entrant_as_json(curve) for curve in self.curves],
            "pairs": [vars(pair) for pair in self.pairs],
            "notes": list(self.notes),
        }

    def _repr_html_(self) -> str:
        """What a notebook shows of it: everybody's scores, who is better than whom, and remarks folded."""
        rows = []
        for curve in self.curves:
            middle, low, high = float(curve.middle[-1]), float(curve.low[-1]), float(curve.high[-1])
            rows.append((curve.name, len(curve.values), middle, f"{low:.6g} to {high:.6g}"))
        verdicts = [
            (pair.first, pair.second, pair.better or "not distinguishable", pair.p_value) for pair in self.pairs
        ]
        parts = [
            notebook.table(("", "runs", "IQM", f"{self.confidence:.0%}"), rows),
            notebook.table(("first", "second", "better", "p"), verdicts),
        ]
        if self.notes:
            parts.append(notebook.folded(f"{len(self.notes)} notes", notebook.lines(self.notes)))
        return notebook.block(f"Comparison by {self.metric} at {self.steps[-1]:g} env steps", *parts)

    def _entrant_as_json(self, curve: Curve) -> dict[str, Any]:
        final = curve.values[:, -1]
        drawn = {
            "timesteps": self.steps.tolist(),
            "iqm": curve.middle.tolist(),
            "low": curve.low.tolist(),
            "high": curve.high.tolist(),
        }
        return {
            "name": curve.name,
            "runs": len(curve.values),
            "iqm": float(curve.middle[-1]),
            "low": float(curve.low[-1]),
            "high": float(curve.high[-1]),
            "mean": float(final.mean()),
            "scores": final.tolist(),
            "curve": drawn,
        }


def compare(
    entrants: Sequence[Entrant],
    metric: str | None = None,
    *,
    at: int | None = None,
    confidence: float = 0.95,
    resamples: int = 2_000,
    seed: int = 0,
) -> Comparison:
    """Compare entrants of the same env by a field of their results; ``at`` env steps instead of the last common one."""
    metric = agreed_metric(entrants, metric)
    notes: list[str] = []
    points: dict[str, list[Line]] = {}
    for entrant in entrants:
        points[entrant.name] = [measured(entrant, run, metric) for run in entrant.runs]
        notes += entrant.notes
    steps, more_notes = common_steps(points, at)
    # One generator for all: a comparison with the same seed gives the same intervals.
    rng = np.random.default_rng(seed)
    curves, drawn = [], []
    for name, lines in points.items():
        values = np.array([held(line, steps) for line in lines])
        again = resampled(values, resamples, rng)
        low, high = interval(iqm(again, axis=1), confidence)
        curves.append(Curve(name, values, iqm(values), low, high))
        drawn.append(again[:, :, -1])
    sign = -1.0 if metric in SMALLER_IS_BETTER else 1.0
    pairs = _pairs(curves, drawn, sign, confidence)
    return Comparison(metric, confidence, steps, curves, pairs, [*notes, *more_notes])


def agreed_metric(entrants: Sequence[Entrant], metric: str | None = None) -> str:
    """The field to compare. Refuses what cannot be compared, as far as scenarios tell: runs need not be trained yet."""
    if len(entrants) < 2:
        raise ConfigError(
            "marl compare needs at least two to compare: scenario files, run directories, or folders of runs."
        )
    check_same(entrants, SAME_ENV, "different envs")
    metric = metric or common_metric(entrants)
    if metric.startswith("evaluation."):
        check_same(entrants, SAME_EXAM, "different evaluations")
    return metric


def common_metric(entrants: Sequence[Entrant]) -> str:
    """The field by which all runs judge their evaluations; without evaluations the reward in training."""
    runs: list[Run] = []
    for entrant in entrants:
        runs += entrant.runs
    asked = {f"evaluation.{run.params['evaluation']['metric']}" for run in runs}
    if len(asked) > 1:
        raise ConfigError(
            f"the runs judge themselves by different fields ({', '.join(sorted(asked))}). Say by --metric which one to "
            "compare."
        )
    (metric,) = asked
    if all(_evaluated(run, metric) for run in runs):
        return metric
    # Evaluations of some runs say nothing beside training rewards of others: training is what all have.
    return "episode_reward_mean"


def _evaluated(run: Run, metric: str) -> bool:
    """Whether the run has evaluations; one that is still to be trained will have them if its scenario says so."""
    if run.results:
        return bool(run.points(metric))
    return bool(run.params["evaluation"].get("interval"))


def measured(entrant: Entrant, run: Run, metric: str) -> Line:
    """The run's values of the metric, at least one."""
    found = run.points(metric)
    if found:
        return found
    numbers: list[str] = []
    if run.results:
        last = run.results[-1]
        numbers = [name for name in fields_of(last) if look_up(last, name) is not None]
    raise ConfigError(
        f"{entrant.name}, run {run.name}: no result has a number {metric!r}.{did_you_mean(metric, numbers)} Choose a field "
        "that all runs have, by --metric; `marl explain` lists them."
    )


def check_same(entrants: Sequence[Entrant], keys: Sequence[str], what: str) -> None:
    first = entrants[0].runs[0]
    for entrant in entrants:
        for run in entrant.runs:
            found: list[Difference] = []
            for key in keys:
                words = key.split(".")
                # An empty section says as much as none.
                there, here = look_into(first.params, words) or None, look_into(run.params, words) or None
                found += differences(there, here, key)
            if found:
                raise ConfigError(
                    f"{entrants[0].name} and {entrant.name} cannot be compared, because they have {what}: "
                    f"{told(found, 'there', 'here')}. Compare runs that play the same."
                )


def common_steps(points: Mapping[str, list[Line]], at: int | None) -> tuple[Scores, list[str]]:
    """Steps at which every run has a value, and a note where a run that ended early cuts the others short."""
    lines = list(chain.from_iterable(points.values()))
    first = max(line[0][0] for line in lines)
    last = min(line[-1][0] for line in lines)
    notes: list[str] = []
    if at is None:
        _check_overlap(first, last)
        notes = _cut_short(points, last)
    elif first <= at <= last:
        last = float(at)
    else:
        raise ConfigError(f"--at {at}: all runs have a value from {first:.0f} to {last:.0f} env steps only.")
    measured_at = [step for step, _ in chain.from_iterable(lines) if first <= step <= last]
    known = np.unique([*measured_at, last])
    if len(known) > POINTS:
        known = np.linspace(first, last, POINTS)
    return known, notes


def _check_overlap(first: float, last: float) -> None:
    if last < first:
        raise ConfigError(
            f"the runs do not overlap: one ended after {last:.0f} env steps, another was first measured after {first:.0f}."
        )


def _cut_short(points: Mapping[str, list[Line]], last: float) -> list[str]:
    """A note where others were trained much further than the run that ended first."""
    furthest = max(line[-1][0] for line in chain.from_iterable(points.values()))
    if furthest <= 1.05 * last:  # runs end with a whole iteration, so equal budgets end a little apart
        return []
    ends = {}
    for name, lines in points.items():
        ends[name] = min(line[-1][0] for line in lines)
    shortest = min(ends, key=lambda name: ends[name])
    return [f"compared at {last:,.0f} env steps, where a run of {shortest} ends; other runs go on to {furthest:,.0f}"]


def held(line: Sequence[tuple[float, float]], steps: Scores) -> Scores:
    """The newest value at or before each step."""
    at, values = np.array(line).T
    found: Scores = values[np.searchsorted(at, steps, side="right") - 1]
    return found


def _pairs(curves: Sequence[Curve], drawn: Sequence[Scores], sign: float, confidence: float) -> list[Pair]:
    numbers = list(combinations(range(len(curves)), 2))
    finals = [sign * curve.values[:, -1] for curve in curves]
    # Raised for their number: of twenty pairs without any difference one is below 5 % by chance.
    p_values = holm([rank_test(finals[i], finals[j]) for i, j in numbers])
    found = []
    for (i, j), p in zip(numbers, p_values, strict=True):
        probability = float(improvement(finals[i], finals[j]))
        low, high = interval(improvement(sign * drawn[i], sign * drawn[j]), confidence)
        names = curves[i].name, curves[j].name
        better: str | None = names[0] if probability > 0.5 else names[1]
        if p > 1.0 - confidence:
            better = None
        why = _why(better, len(finals[i]), len(finals[j]), len(numbers), confidence)
        found.append(Pair(*names, probability, float(low), float(high), p, better, why))
    return found


def _why(better: str | None, n: int, m: int, pairs: int, confidence: float) -> str:
    """The verdict in a sentence; says so where the runs are too few to show any difference."""
    sure = f"at {confidence:.0%}"
    if better is not None:
        return f"{better} is better ({sure})."
    if pairs * smallest_p(n, m) > 1.0 - confidence:
        enough = 1
        while pairs * smallest_p(enough, enough) > 1.0 - confidence:
            enough += 1
        return f"not distinguishable: {n} and {m} runs can never show a difference {sure}; take at least {enough} seeds each."
    return f"not distinguishable ({sure}): chance may explain the difference. More seeds may tell."
