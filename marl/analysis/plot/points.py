"""What runs measured, ready to be drawn: smoothed, and aligned so that nothing looks ahead."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from marl.analysis.compare.compare import SAME_EXAM, Entrant, Line, Run, check_same, common_metric, held, measured
from marl.analysis.compare.statistics import Scores
from marl.analysis.plot.runs import listed
from marl.errors import ConfigError
from marl.runs.result import look_up

STEPS = "timesteps_total"
REWARD = "episode_reward_mean"
POINTS = 200  # of a drawn line, at most
A_LITTLE = 1.05  # runs end with a whole iteration, so equal budgets end a little apart

LABELS = {
    STEPS: "env steps",
    "training_iteration": "iterations",
    "episodes_total": "episodes",
    "agent_timesteps_total": "agent steps",
    "time_total_s": "training time (s)",
    REWARD: "return in training",
    f"evaluation.{REWARD}": "evaluation return",
    "episode_len_mean": "episode length",
    "evaluation.episode_len_mean": "episode length in evaluation",
    "exploitability.nash_conv": "NashConv",
    "exploitability.exploitability": "exploitability",
}
"""What fields are called in figures; all others by their names."""


def label_of(field: str) -> str:
    return LABELS.get(field, field)


def metric_of(runs: Sequence[Run]) -> str:
    """The field by which all of these runs are judged."""
    for run in runs:
        # Trials of a function that the user wrote have params of their own.
        if "metric" not in (run.params.get("evaluation") or {}):
            return REWARD
    return common_metric([Entrant("", runs)])


def check_exams(lines: Mapping[str, Sequence[Run]], metric: str) -> None:
    """Refuse lines of one panel that were evaluated in different ways."""
    if metric.startswith("evaluation."):
        entrants = [Entrant(name, runs) for name, runs in lines.items()]
        check_same(entrants, SAME_EXAM, "different evaluations")


def points_of(run: Run, metric: str, x: str = STEPS) -> Line:
    """Where a run stood and what it measured there, in the order of training."""
    found: Line = []
    for result in run.results:
        place, value = look_up(result, x), look_up(result, metric)
        # marl writes finite numbers alone, but another program may have written the file.
        if place is not None and value is not None and math.isfinite(place) and math.isfinite(value):
            found.append((place, value))
    _check_forward(run, x, found)
    return found


def _check_forward(run: Run, x: str, line: Line) -> None:
    """Refuse an x axis that goes back: which value is the newest at a place could not be said."""
    for (before, _), (after, _) in pairwise(line):
        if after < before:
            raise ConfigError(
                f"--x {x}: in run {run.name} it goes back from {before:,.6g} to {after:,.6g}. Choose a field that only "
                f"grows, such as {STEPS} or time_total_s."
            )


def lines_of(name: str, runs: Sequence[Run], metric: str, x: str, smooth: int) -> tuple[list[Line], list[str]]:
    """The runs' measurements, at least of one run, and a note on runs without any."""
    lines: list[Line] = []
    without: list[str] = []
    for run in runs:
        found = points_of(run, metric, x)
        if found:
            lines.append(smoothed(found, smooth))
        else:
            without.append(run.name)
    # Some runs may have been stopped before their first evaluation; without any there is nothing to draw.
    if not lines:
        measured(Entrant(name, runs), runs[0], metric)  # says which field was meant
        raise ConfigError(f"--x {x}: no result of {name} has this number. `marl explain` lists the fields.")
    if not without:
        return lines, []
    return lines, [f"{name}: without a value of {metric}, hence left out: {listed(without)}"]


def smoothed(line: Line, window: int) -> Line:
    """Each value as the mean of the newest ``window`` ones until then; of fewer at the beginning."""
    places, values = np.array(line).T
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - window, 0)
    means = (sums[ends] - sums[starts]) / (ends - starts)
    if window == 1:
        means = values  # not a difference of sums, which rounds
    return list(zip(places.tolist(), means.tolist(), strict=True))


def aligned(lines: Sequence[Line], extend: bool) -> tuple[Scores, Scores]:
    """Places at which every run has a value, and the values ``[runs, places]``; at a place the newest value counts.

    With ``extend`` a run that ended early keeps its last value until the last run ends.
    """
    first, last = shared_range(lines, extend)
    if last < first:
        raise ConfigError(
            f"runs of one line do not overlap: one ended at {last:.6g}, another was first measured at {first:.6g}. Give runs "
            "of the same length, or --extend to keep the last value of runs that ended."
        )
    known = np.concatenate([_places(line) for line in lines])
    places = np.unique([*known[(known >= first) & (known <= last)], last])
    if len(places) > POINTS:
        places = np.linspace(first, last, POINTS)
    return places, np.array([held(line, places) for line in lines])


def _places(line: Line) -> Scores:
    return np.array(line)[:, 0]


def shared_range(lines: Sequence[Line], extend: bool) -> tuple[float, float]:
    """From the place at which the last run has its first value to the one at which the first run ends."""
    begins = [line[0][0] for line in lines]
    ends = [line[-1][0] for line in lines]
    if extend:
        return max(begins), max(ends)
    return max(begins), min(ends)


def note_on_length(name: str, lines: Sequence[Line], x: str, extend: bool) -> list[str]:
    """Where runs of one line end far apart, what was done about it."""
    ends = [line[-1][0] for line in lines]
    if max(ends) <= A_LITTLE * min(ends):
        return []
    if extend:
        return [f"{name}: runs that ended early, the first at {min(ends):,.6g} {label_of(x)}, keep their last value"]
    return [
        f"{name}: drawn until {min(ends):,.6g} {label_of(x)}, where its first run ends; the last one goes on to "
        f"{max(ends):,.6g} (--extend keeps the last value of runs that ended)"
    ]
