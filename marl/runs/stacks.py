"""Runs that were begun together by one command (``marl run --seeds 0..9 --stacked``): they share the id in their names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from marl.inputs import read_json
from marl.old_names import with_current_names
from marl.runs.directories import find_runs, state_of, trial_id
from marl.runs.files import to_plain


def unfinished_stack(experiment: Path, wanted: Mapping[int, Mapping[str, Any]]) -> dict[int, Path]:
    """The newest stack whose runs have the wanted params by seed, if it was stopped before all of them had finished.

    Empty where there is none, where all have finished, and while another process trains it.
    """
    newest: dict[int, Path] = {}
    for stack in _stacks_in(experiment, wanted):
        if stack.keys() == wanted.keys():
            newest = stack
    states = {state_of(run, {})[0] for run in newest.values()}
    if "running" in states or states == {"finished"}:
        return {}
    return newest


def _stacks_in(experiment: Path, wanted: Mapping[int, Mapping[str, Any]]) -> list[dict[int, Path]]:
    """Runs that have the wanted params, by the id that they share and by seed; oldest first."""
    asked = {seed: with_current_names(json.loads(json.dumps(to_plain(params)))) for seed, params in wanted.items()}
    by_id: dict[str, dict[int, Path]] = {}
    for run in find_runs(experiment):
        params = _params(run)
        seed = params.get("seed")
        if seed in asked and params == asked[seed]:
            # Taken out and put in at the end: the last one is the newest.
            stack = by_id.pop(trial_id(run), {})
            by_id[trial_id(run)] = {**stack, seed: run}
    return list(by_id.values())


def _params(run: Path) -> dict[str, Any]:
    try:
        found = read_json(run / "params.json")
    except (OSError, ValueError):
        return {}
    return with_current_names(found) if isinstance(found, dict) else {}
