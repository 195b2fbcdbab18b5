"""The results in the form that marl-eval reads (Gorsane et al., 2022; package id-marl-eval).

    {suite: {env: {algo: {"run_0": {"step_1": {"step_count": n, "return": [...]}, ...,
                                    "absolute_metrics": {"return": [...]}}}}}}

marl-eval asks for the same algorithms in all envs, the same number of runs and the same number of evaluations in each. So
algorithms of which a cell is missing are left out (and told), and every run is read at equally many moments, evenly spread
over its cell's training: at each it counts with its newest evaluation, all of whose episodes are listed. ``absolute_metrics``
are the episodes of the run's best evaluation; nothing is played again, so they are a little too good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from marl.runs.result import SMALLER_IS_BETTER, look_up
from marl.suite.plan import EVALUATION
from marl.suite.results import CellResult

RETURN = "return"  # a name without underscores: marl-eval splits names there
MOST_POINTS = 100


@dataclass(frozen=True)
class ForMarlEval:
    content: dict[str, Any]
    left_out: Sequence[str]  # cells


def for_marl_eval(suite: str, results: Sequence[CellResult]) -> ForMarlEval:
    """What can be compared by marl-eval; empty where no cell is complete."""
    complete = {result.cell.name: result for result in results if result.complete}
    # Those that a page has kept lack the episodes that marl-eval asks for.
    kept = _common({name: result for name, result in complete.items() if not result.published})
    left_out = sorted(complete.keys() - kept.keys())
    if not kept:
        return ForMarlEval({}, left_out)
    cells = list(kept.values())
    runs = min(len(result.runs) for result in cells)
    points = min(map(_points, cells))
    tasks: dict[str, dict[str, Any]] = {}
    for result in cells:
        algos = tasks.setdefault(result.cell.env, {})
        algos[result.cell.algo] = _runs(result, runs, _moments(result, points))
    return ForMarlEval({suite: tasks}, left_out)


def _common(complete: Mapping[str, CellResult]) -> dict[str, CellResult]:
    """Cells of the algorithms that are complete in all envs. Envs without any complete cell do not count."""
    envs = dict.fromkeys(result.cell.env for result in complete.values())
    found: dict[str, CellResult] = {}
    for name, result in complete.items():
        if all(f"{env}/{result.cell.algo}" in complete for env in envs):
            found[name] = result
    return found


def _points(result: CellResult) -> int:
    """How many evaluations the longest run has."""
    return min(MOST_POINTS, max(len(run.line) for run in result.runs))


def _moments(result: CellResult, points: int) -> list[float]:
    """Env steps at which the runs of a cell are read."""
    assert result.curves is not None
    first, last = result.curves.steps[0], result.curves.steps[-1]
    return [float(step) for step in np.linspace(first, last, points)]


def _runs(result: CellResult, count: int, moments: Sequence[float]) -> dict[str, Any]:
    found = {}
    metric = result.cell.metric
    for number, run in enumerate(result.runs[:count]):
        measured = [one for one in run.results if look_up(one, metric) is not None]
        found[f"run_{number}"] = _run(measured, metric, moments)
    return found


def _run(measured: Sequence[Mapping[str, Any]], metric: str, moments: Sequence[float]) -> dict[str, Any]:
    """One run at these moments."""
    at = np.array([result["timesteps_total"] for result in measured], np.float64)
    newest = np.searchsorted(at, np.array(moments) + 1e-6, side="right") - 1
    found: dict[str, Any] = {}
    for number, (moment, place) in enumerate(zip(moments, newest, strict=True), start=1):
        found[f"step_{number}"] = {"step_count": round(moment), RETURN: _episodes(measured[place], metric)}
    values = np.array([look_up(result, metric) for result in measured], np.float64)
    best = int(values.argmin() if metric in SMALLER_IS_BETTER else values.argmax())
    return {**found, "absolute_metrics": {RETURN: _episodes(measured[best], metric)}}


def _episodes(result: Mapping[str, Any], metric: str) -> list[float]:
    """The value of every episode where the result has them, else the mean alone."""
    value = look_up(result, metric)
    assert value is not None  # only measurements come here
    inner = metric.removeprefix(EVALUATION)
    if inner == metric:  # of training, whose episodes are told again and again
        return [value]
    name = "episode_reward"
    policy = inner.removeprefix("policy_reward_mean.")
    if policy != inner:
        name = f"policy_{policy}_reward"
    elif inner != "episode_reward_mean":
        return [value]
    listed = result["evaluation"].get("hist_stats", {}).get(name) or [value]
    return [float(one) for one in listed]
