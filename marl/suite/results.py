"""What the runs of a cell have come to.

    last   IQM over seeds of each run's last measurement
    best   the largest IQM over seeds at any moment of training (the convention of many published tables), and when that was

Both have percentile bootstrap intervals: seeds are drawn again with replacement within the cell, 2,000 times, from a fixed
generator. At a moment a run counts with its newest measurement until then; one that has ended counts with its last, which is
how a run that stopped early is compared with those that went on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from marl.analysis.compare.compare import Line, Run, held
from marl.analysis.compare.runs import is_done
from marl.analysis.compare.statistics import Scores, interval, iqm, resampled
from marl.analysis.report.curves import read_results
from marl.runs.result import SMALLER_IS_BETTER, reached
from marl.suite.early_stop import held_since
from marl.suite.load import Cell
from marl.suite.plan import Plan, PlannedCell
from marl.suite.train import Status

RESAMPLES = 2_000


@dataclass(frozen=True)
class Estimate:
    """An IQM over seeds with its interval, at a number of env steps."""

    iqm: float
    low: float
    high: float
    steps: float

    def as_json(self) -> dict[str, float]:
        return {"iqm": self.iqm, "low": self.low, "high": self.high, "timesteps": self.steps}


@dataclass(frozen=True)
class Curves:
    """Values of all seeds ``[seeds, points]`` over env steps."""

    steps: Scores
    values: Scores

    @property
    def middle(self) -> Scores:
        return iqm(self.values)

    def thinned(self, points: int) -> Curves:
        """The same at so many moments at most, for drawing."""
        if len(self.steps) <= points:
            return self
        chosen = np.unique(np.linspace(0, len(self.steps) - 1, points).round().astype(int))
        return Curves(self.steps[chosen], self.values[:, chosen])

    def band(self, confidence: float, resamples: int = RESAMPLES) -> tuple[Scores, Scores]:
        """Ends of the interval at every step."""
        again = resampled(self.values, resamples, np.random.default_rng(0))
        return interval(iqm(again, axis=1), confidence)


@dataclass(frozen=True)
class SeedRun:
    """One seed of a cell as far as it was trained."""

    seed: int
    results: Sequence[Mapping[str, Any]]
    line: Line
    done: bool
    stopped_early: int | None  # env steps at which it ended by holding its goal

    @property
    def steps(self) -> int:
        return int(self.results[-1]["timesteps_total"]) if self.results else 0


@dataclass(frozen=True)
class CellResult:
    """A cell of the table. ``last`` and ``best`` are None where nothing was measured."""

    cell: Cell
    stacked: bool
    runs: Sequence[SeedRun]
    curves: Curves | None
    last: Estimate | None
    best: Estimate | None
    cpu_s: float
    wall_s: float
    failed: Sequence[str]
    published: bool = False  # its runs are not here: it is shown as a page had it

    @property
    def measured(self) -> list[SeedRun]:
        return [run for run in self.runs if run.line]

    @property
    def complete(self) -> bool:
        """Whether every seed was trained to its end and measured."""
        return bool(self.runs) and all(run.done and run.line for run in self.runs)

    @property
    def early(self) -> list[SeedRun]:
        return [run for run in self.runs if run.stopped_early is not None]

    @property
    def goal_state(self) -> str:
        """``met`` by the last value, ``best only``, ``missed``, or nothing where there is no goal or no whole cell."""
        goal, metric = self.cell.goal, self.cell.metric
        if goal is None or not self.complete:
            return ""
        for found, state in ((self.last, "met"), (self.best, "best only")):
            if found is not None and reached({metric: found.iqm}, {metric: goal}):
                return state
        return "missed"


def read_suite(plan: Plan) -> list[CellResult]:
    """All cells of the file, also those that are excluded, were not run, or were run with other keys than the file has."""
    found = []
    for cell in plan.loaded.cells:
        planned = plan.find(cell)
        if planned is None:
            trouble = plan.unresolved.get(cell.name)
            errors = [] if trouble is None else [f"cannot be run here: {trouble}"]
            found.append(CellResult(cell, False, [], None, None, None, 0.0, 0.0, errors))
        elif changed := planned.changed():
            error = f"runs with other keys are there, which are not shown: {changed}"
            found.append(CellResult(cell, planned.stacked, [], None, None, None, 0.0, 0.0, [error]))
        else:
            found.append(read_cell(planned, plan.config.confidence))
    return found


def read_cell(planned: PlannedCell, confidence: float) -> CellResult:
    runs = [_read_seed(planned, seed) for seed in planned.cell.seeds]
    cost = _cost(planned)
    lines = [run.line for run in runs if run.line]
    if not lines:
        return CellResult(planned.cell, planned.stacked, runs, None, None, None, *cost)
    curves = curves_of(lines)
    last = last_of(lines, confidence)
    best = best_of(curves, confidence, planned.cell.metric in SMALLER_IS_BETTER)
    return CellResult(planned.cell, planned.stacked, runs, curves, last, best, *cost)


def _cost(planned: PlannedCell) -> tuple[float, float, list[str]]:
    """Seconds of CPU and on the wall of all jobs of a cell, and their errors."""
    cpu, wall = 0.0, 0.0
    errors = []
    for file in sorted(planned.folder.glob("job_*.json")):
        job = Status.read(file)
        cpu, wall = cpu + job.cpu_s, wall + job.wall_s
        errors += [job.error] if job.error else []
    return cpu, wall, errors


def _read_seed(planned: PlannedCell, seed: int) -> SeedRun:
    results = read_results(planned.directory(seed) / "result.json")
    line = Run(str(seed), {}, results).points(planned.cell.metric)
    in_budget = is_done(planned.scenarios[seed], results)
    rule = planned.cell.early_stop
    early = held_since(results, planned.cell.metric, rule) if rule is not None and not in_budget else None
    return SeedRun(seed, results, line, in_budget or early is not None, early)


def curves_of(lines: Sequence[Line]) -> Curves:
    """All runs at every moment at which one of them was measured, from the first moment at which all have a value."""
    first = max(line[0][0] for line in lines)
    moments = [step for line in lines for step, _ in line if step >= first]
    steps = np.unique(np.array(moments, np.float64))
    return Curves(steps, np.array([held(line, steps) for line in lines]))


def last_of(lines: Sequence[Line], confidence: float) -> Estimate:
    """Of the last measurement of each run, wherever it was."""
    final = np.array([line[-1][1] for line in lines], np.float64)
    return estimate(final, max(line[-1][0] for line in lines), confidence)


def best_of(curves: Curves, confidence: float, less_is_better: bool = False) -> Estimate:
    """At the moment at which the IQM over runs is best; of several the first."""
    middle = -curves.middle if less_is_better else curves.middle
    place = int(np.argmax(middle))
    return estimate(curves.values[:, place], float(curves.steps[place]), confidence)


def estimate(scores: Scores, steps: float, confidence: float) -> Estimate:
    again = resampled(scores, RESAMPLES, np.random.default_rng(0))
    low, high = interval(iqm(again, axis=1), confidence)
    return Estimate(float(iqm(scores)), float(low), float(high), steps)
