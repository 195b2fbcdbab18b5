"""What can be shown step by step: runs with checkpoints, checkpoints and exports that lie alone, and recordings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from marl.errors import UserError, printable
from marl.inputs import read_json
from marl.offline.manifest import MANIFEST as RECORDING
from marl.offline.manifest import read_manifest
from marl.runs.directories import DEEPEST
from marl.runs.manifest import BEST, MANIFEST, numbered

PARAMS, EXPORT = "params.json", "policy.json"
MOST = 20_000  # folders that are looked into


def shown_things(root: Path) -> dict[str, Any]:
    """Runs and the like, and recordings, the newest first; names are paths in the results folder."""
    found: dict[str, list[dict[str, Any]]] = {"runs": [], "recordings": []}
    for place, files in islice(_folders(root), MOST):
        kind = _kind_of(place, set(files))
        name = place.relative_to(root).as_posix()
        if kind == "recording":
            found["recordings"].append({"recording": name, **_about_recording(place)})
        elif kind:
            found["runs"].append({"run": name, "kind": kind, **_about_run(place)})
    for things in found.values():
        things.sort(key=lambda thing: -thing["time"])
    return found


def _kind_of(place: Path, files: set[str]) -> str:
    """What a folder is; empty: nothing that can be shown."""
    if RECORDING in files:
        return "recording"
    if PARAMS in files:
        # Nobody can play a run before its first checkpoint.
        return "run" if checkpoints_of(place) else ""
    if {MANIFEST, "run.json"} <= files:
        return "checkpoint"
    return "export" if EXPORT in files else ""


def _folders(root: Path) -> Iterator[tuple[Path, list[str]]]:
    for folder, below, files in os.walk(root):
        place = Path(folder)
        yield place, files
        # `below` is changed in place: os.walk goes into what is left of it.
        if len(place.relative_to(root).parts) > DEEPEST or MANIFEST in files:
            below.clear()
        below[:] = [name for name in below if not name.startswith(".") and name not in ("checkpoints", "media")]


def checkpoints_of(run: Path) -> list[str]:
    """The names of a run's checkpoints, the oldest first, then ``best``."""
    folder = run / "checkpoints"
    found = [place.name for place in numbered(folder)]
    if (folder / BEST / MANIFEST).is_file():
        found.append(BEST)
    return found


def _about_run(place: Path) -> dict[str, Any]:
    """Env and algorithm, as far as a file says so that is quick to read. Files may be half written, or anybody's."""
    told: dict[str, Any] = {"env": None, "algo": None, "time": _time_of(place)}
    for file in (PARAMS, EXPORT):
        with suppress(OSError, ValueError, UserError, RecursionError):
            found = read_json(place / file)
            if isinstance(found, dict):
                told["env"] = _text(found.get("env"))
                algo = found.get("algo")
                told["algo"] = _text(algo.get("name") if isinstance(algo, dict) else algo)
    return told


def _about_recording(place: Path) -> dict[str, Any]:
    told: dict[str, Any] = {"env": None, "policies": [], "time": _time_of(place)}
    with suppress(UserError):
        manifest = read_manifest(place)
        told |= {"env": _text(manifest["env"]), "policies": [_text(name) for name in manifest["policies"]]}
    return told


def _text(value: object) -> str | None:
    return printable(value) if isinstance(value, str) else None


def _time_of(place: Path) -> float:
    try:
        return place.stat().st_mtime
    except OSError:  # it was removed in this moment
        return 0.0
