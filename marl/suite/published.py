"""Finished cells of a page, kept beside its picture, so that a table can be measured in parts and on several machines.

{"suite": "matrix", "cells": {"climbing/vdn": {"keys": {...}, "cpu_s": 90, "wall_s": 95, "last": {...}, "best": {...},
  "seeds": {"0": {"steps": 40960, "stopped_early": null, "line": [[2048, 125.0], ...]}}}}}

A cell that is not finished in the suite's folder is shown as it was kept, as long as the file asks for the same: other keys,
other seeds or a larger budget make it another cell.
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
from marl.suite.load import Cell
from marl.suite.plan import MAY_CHANGE, raw_of
from marl.suite.results import CellResult, Estimate, SeedRun, curves_of

POINTS = 40  # of a kept line, at most
PARTS = frozenset({"keys", "cpu_s", "wall_s", "last", "best", "seeds"})


def with_published(results: Sequence[CellResult], file: Path) -> list[CellResult]:
    """The same results; where nothing was trained to its end, what the file holds."""
    cells = read_published(file)
    found = []
    for result in results:
        kept = cells.get(result.cell.name)
        if not result.complete and not result.cell.excluded and kept is not None and _is_same(result.cell, kept):
            result = _restored(result, kept)
        found.append(result)
    return found


def write_published(suite: str, results: Sequence[CellResult], file: Path) -> None:
    """All finished cells. What was kept of the others stays: it may be of use where the file says again what it said."""
    before = read_published(file)
    cells = {}
    for result in results:
        name = result.cell.name
        if result.complete and not result.published:
            cells[name] = _as_json(result)
        elif name in before:
            cells[name] = before[name]
    make_folder(file.parent)
    rows = ",\n".join(f" {json.dumps(name)}: {json.dumps(cell)}" for name, cell in cells.items())
    write_atomically(file, f'{{"suite": {json.dumps(suite)}, "cells": {{\n{rows}\n}}}}\n')


def read_published(file: Path) -> dict[str, Any]:
    """The kept cells by name; none where there is no file."""
    if not file.exists():
        return {}
    try:
        content = read_json(file)
    except ValueError as error:
        raise _damaged(file, f"it is no JSON ({error})") from None
    cells = content.get("cells") if isinstance(content, Mapping) else None
    if not isinstance(cells, Mapping):
        raise _damaged(file, 'it has no "cells"')
    for name, cell in cells.items():
        if not isinstance(cell, Mapping) or not cell.keys() >= PARTS:
            raise _damaged(file, f"cell {name!r} lacks parts of {', '.join(sorted(PARTS))}")
    return dict(cells)


def _damaged(file: Path, what: str) -> ConfigError:
    return ConfigError(
        f"{file} holds the finished cells of a page, and is damaged: {what}. Restore it, or delete it: "
        "cells whose runs are here are written anew."
    )


def _keys(cell: Cell) -> dict[str, Any]:
    """What makes the cell, as JSON has it; how far it is trained is told by its steps."""
    keys: dict[str, Any] = json.loads(json.dumps({**raw_of(cell), "metric": cell.metric}, default=str))
    return _that_count(keys)


def _that_count(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Without those that change no number. A stack learns what its runs learn alone."""
    return {key: value for key, value in keys.items() if key not in MAY_CHANGE and key != "stacked"}


def _is_same(cell: Cell, kept: Mapping[str, Any]) -> bool:
    runs = kept["seeds"]
    if _that_count(kept["keys"]) != _keys(cell) or list(runs) != [str(seed) for seed in cell.seeds]:
        return False
    budget = cell.budget or 0
    return all(run["stopped_early"] is not None or run["steps"] >= budget for run in runs.values())


def _as_json(result: CellResult) -> dict[str, Any]:
    assert result.last is not None  # of a complete cell
    assert result.best is not None
    runs = {}
    for run in result.runs:
        line = [[steps, round(value, 6)] for steps, value in _thinned(run.line)]
        runs[str(run.seed)] = {"steps": run.steps, "stopped_early": run.stopped_early, "line": line}
    return {
        "keys": _keys(result.cell),
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
