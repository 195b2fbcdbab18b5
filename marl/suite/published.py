"""Finished cells of a page, kept beside its picture, so that a table can be measured in parts and on several machines.

{"suite": "matrix", "cells": {"climbing/vdn": {"keys": {...}, "cpu_s": 90, "wall_s": 95, "last": {...}, "best": {...},
  "seeds": {"0": {"steps": 40960, "stopped_early": null, "line": [[2048, 125.0], ...]}}}}}

A cell without runs in the suite's folder is shown as it was kept, as long as the file asks for the same: other keys, other
seeds or a larger budget make it another cell.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from marl.analysis.compare.compare import Line
from marl.errors import ConfigError
from marl.inputs import read_json
from marl.storage import make_folder, write_atomically
from marl.suite.plan import Plan, PlannedCell
from marl.suite.results import CellResult, Estimate, SeedRun, curves_of

POINTS = 40  # of a kept line, at most


def with_published(plan: Plan, results: Sequence[CellResult], file: Path) -> list[CellResult]:
    """The same results; where nothing was measured, what the file holds."""
    cells = _read(file) if file.exists() else {}
    found = []
    for result in results:
        planned, kept = plan.find(result.cell), cells.get(result.cell.name)
        if result.last is None and planned is not None and kept is not None and _is_same(planned, kept):
            result = _restored(result, kept)
        found.append(result)
    return found


def write_published(plan: Plan, results: Sequence[CellResult], file: Path) -> None:
    """All finished cells, those that were read from the file included."""
    before = _read(file) if file.exists() else {}
    cells = {}
    for result in results:
        planned = plan.find(result.cell)
        if planned is None or not result.complete:
            continue
        cells[result.cell.name] = before[result.cell.name] if result.published else _as_json(planned, result)
    make_folder(file.parent)
    rows = ",\n".join(f" {json.dumps(name)}: {json.dumps(cell)}" for name, cell in cells.items())
    write_atomically(file, f'{{"suite": {json.dumps(plan.config.suite)}, "cells": {{\n{rows}\n}}}}\n')


def _read(file: Path) -> dict[str, Any]:
    content = read_json(file)
    cells = content.get("cells") if isinstance(content, Mapping) else None
    if not isinstance(cells, Mapping):
        raise ConfigError(
            f'{file}: expected a JSON object with "cells", as `marl suite --page` writes it. Delete the file.'
        )
    return dict(cells)


def _keys(planned: PlannedCell) -> dict[str, Any]:
    """What makes the cell, as JSON has it; how far it is trained is told by its steps."""
    keys: dict[str, Any] = json.loads(json.dumps({**planned.raw, "metric": planned.cell.metric}, default=str))
    keys.pop("stop", None)
    return keys


def _is_same(planned: PlannedCell, kept: Mapping[str, Any]) -> bool:
    runs = kept["seeds"]
    if kept["keys"] != _keys(planned) or list(runs) != [str(seed) for seed in planned.cell.seeds]:
        return False
    budget = planned.cell.budget or 0
    return all(run["stopped_early"] is not None or run["steps"] >= budget for run in runs.values())


def _as_json(planned: PlannedCell, result: CellResult) -> dict[str, Any]:
    assert result.last is not None  # of a complete cell
    assert result.best is not None
    runs = {}
    for run in result.runs:
        line = [[steps, round(value, 6)] for steps, value in _thinned(run.line)]
        runs[str(run.seed)] = {"steps": run.steps, "stopped_early": run.stopped_early, "line": line}
    return {
        "keys": _keys(planned),
        # Whole seconds, as the table shows them: what is rounded twice may come out otherwise (1.46, 1.5, 2).
        "cpu_s": round(result.cpu_s),
        "wall_s": round(result.wall_s),
        "last": result.last.as_json(),
        "best": result.best.as_json(),
        "seeds": runs,
    }


def _thinned(line: Line) -> Line:
    """Evenly chosen points of a line, its ends among them."""
    if len(line) <= POINTS:
        return line
    chosen = np.unique(np.linspace(0, len(line) - 1, POINTS).round().astype(int))
    return [line[place] for place in chosen]


def _restored(result: CellResult, kept: Mapping[str, Any]) -> CellResult:
    runs = []
    for seed, run in kept["seeds"].items():
        line = [(steps, value) for steps, value in run["line"]]
        only = [{"timesteps_total": run["steps"]}]
        runs.append(SeedRun(int(seed), only, line, True, run["stopped_early"]))
    last, best = _estimate(kept["last"]), _estimate(kept["best"])
    curves = curves_of([run.line for run in runs])
    return replace(
        result,
        runs=runs,
        curves=curves,
        last=last,
        best=best,
        cpu_s=kept["cpu_s"],
        wall_s=kept["wall_s"],
        published=True,
    )


def _estimate(kept: Mapping[str, float]) -> Estimate:
    return Estimate(kept["iqm"], kept["low"], kept["high"], kept["timesteps"])
