"""What a run has come to, without wall clock: two runs are the same if this is equal to the last bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from marl.runs.checkpoint import find_checkpoint, has_part, read_part
from marl.runs.files import RunFiles
from marl.runs.result import without_wall_clock

PARTS = ("run", "policies", "learners", "workers", "replay", "population", "source")
OWN = ("time_total_s", "trial_id", "experiment_id")  # counters that belong to one run alone


def come_to(run: Path, rows: bool = True) -> dict[str, Any]:
    """Every parameter, counter and generator of a run's newest checkpoint, its best policies, and its results."""
    found: dict[str, Any] = {"newest": checkpoint(find_checkpoint(run))}
    if (run / "checkpoints" / "best").exists():
        found["best"] = read_part(run / "checkpoints" / "best", "policies")
    if (run / "population.json").exists():
        found["population.json"] = json.loads((run / "population.json").read_text())
    if rows:
        found["result.json"] = [_plain_row(row) for row in RunFiles(run).results()]
        found["progress.csv"] = len((run / "progress.csv").read_text().splitlines())
    return found


def checkpoint(folder: Path) -> dict[str, Any]:
    parts = {part: read_part(folder, part) for part in PARTS if has_part(folder, part)}
    for name in OWN:
        parts["run"]["counters"].pop(name, None)
    parts["run"].pop("scenario")  # `stop` differs after --stop-iters
    return parts


def _plain_row(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in without_wall_clock(row).items() if key != "config"}


def differences(a: Any, b: Any, path: str = "") -> list[str]:
    """Places where two trees of dicts, lists and arrays are not equal to the last bit."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        a, b = np.asarray(a), np.asarray(b)
        same = a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
        return [] if same else [f"{path}: arrays differ"]
    if isinstance(a, dict) and isinstance(b, dict):
        if set(a) != set(b):
            return [f"{path}: keys {sorted(set(a) ^ set(b), key=str)}"]
        return [text for key in a for text in differences(a[key], b[key], f"{path}/{key}")]
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        if len(a) != len(b):
            return [f"{path}: {len(a)} and {len(b)} items"]
        pairs = enumerate(zip(a, b, strict=True))
        return [text for i, (x, y) in pairs for text in differences(x, y, f"{path}/{i}")]
    return [] if a == b or (a != a and b != b) else [f"{path}: {a!r} != {b!r}"]
