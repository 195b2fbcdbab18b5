"""What can be shown step by step: runs with checkpoints, checkpoints and exports that lie alone, and recordings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from marl.errors import UserError, printable
from marl.inputs import read_json
from marl.offline.manifest import MANIFEST as RECORDING
from marl.runs.directories import DEEPEST
from marl.runs.manifest import BEST, MANIFEST, numbered

PARAMS, EXPORT, PLAYED = "params.json", "policy.json", "play.json"
SIGNS = {
    "recording": {RECORDING},
    "run": {PARAMS},
    "checkpoint": {MANIFEST, "run.json"},
    "export": {EXPORT},
}
"""The files by which a folder is known for what it is; the first one that fits counts."""
MOST = 20_000  # folders that are looked into
WHOLE = frozenset({MANIFEST, RECORDING})
UNREADABLE = (OSError, ValueError, RecursionError, UserError)


def shown_things(root: Path) -> dict[str, Any]:
    """Runs and the like, and recordings, the newest first; names are paths in the results folder."""
    found: dict[str, list[dict[str, Any]]] = {"runs": [], "recordings": []}
    for place, files in islice(_folders(root), MOST):
        kind = _kind_of(place, set(files))
        name = place.relative_to(root).as_posix()
        if kind == "recording":
            found["recordings"].append({"recording": name, **_about_recording(place)})
        elif kind:
            found["runs"].append({"run": name, "kind": kind, **_about_run(place, kind)})
    for things in found.values():
        things.sort(key=lambda thing: -thing["time"])
    return found


def _kind_of(place: Path, files: set[str]) -> str:
    """What a folder is; empty: nothing that can be shown."""
    fitting = [kind for kind, needed in SIGNS.items() if needed <= files]
    kind = next(iter(fitting), "")
    # Nobody can play a run before its first checkpoint.
    if kind == "run" and not checkpoints_of(place):
        return ""
    return kind


def _folders(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """Folders and their files. What lies below a checkpoint or a recording belongs to it."""
    for folder, below, files in os.walk(root):
        place = Path(folder)
        yield place, files
        # `below` is changed in place: os.walk goes into what is left of it.
        below[:] = filter(_may_hold_more, below)
        deep = len(place.relative_to(root).parts) > DEEPEST
        if deep or not WHOLE.isdisjoint(files):
            below.clear()


def _may_hold_more(folder: str) -> bool:
    # Checkpoints and media of a run hold nothing of this sort, but may hold very much.
    return folder not in ("checkpoints", "media") and not folder.startswith(".")


def checkpoints_of(run: Path) -> list[str]:
    """The names of a run's checkpoints, the oldest first, then ``best``."""
    folder = run / "checkpoints"
    found = [place.name for place in numbered(folder)]
    if (folder / BEST / MANIFEST).is_file():
        found.append(BEST)
    return found


def _about_run(place: Path, kind: str) -> dict[str, Any]:
    """Env and algorithm, as far as a file says so that is quick to read."""
    told = _read(place / (EXPORT if kind == "export" else PARAMS))
    algo = told.get("algo")
    # In params.json the algorithm is a section with its keys.
    if isinstance(algo, dict):
        algo = algo.get("name")
    return {"env": _text(told.get("env")), "algo": _text(algo), "time": _time_of(place)}


def _about_recording(place: Path) -> dict[str, Any]:
    """Its env; of a game against people also the run and the seed, which recordings of rollouts do not say."""
    told, played = _read(place / RECORDING), _read(place / PLAYED)
    seed = played.get("seed")
    return {
        "env": _text(told.get("env")),
        "run": _text(played.get("run")),
        "checkpoint": _text(played.get("checkpoint")),
        "seed": seed if isinstance(seed, int) else None,
        "time": _time_of(place),
    }


def _read(file: Path) -> Mapping[str, Any]:
    """A small JSON file, which may be missing, half written, or anybody's."""
    with suppress(*UNREADABLE):
        found = read_json(file)
        if isinstance(found, dict):
            return found
    return {}


def _text(value: object) -> str | None:
    """What may be shown as a name."""
    if not isinstance(value, str):
        return None
    return printable(value)


def _time_of(place: Path) -> float:
    """When it was changed last."""
    try:
        return place.stat().st_mtime
    except OSError:
        # It was removed in this moment.
        return 0.0
