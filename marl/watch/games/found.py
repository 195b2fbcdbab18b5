"""What the results folder has of games: populations, reports, cross-plays, and runs that measured their NashConv."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias

from marl.inputs import read_json
from marl.serve.refused import Refused, shortly

Kind: TypeAlias = Literal["population", "report", "crossplay", "run"]
FILES: dict[Kind, str] = {
    "population": "population.json",
    "report": "report.json",
    "crossplay": "payoffs.json",
    "run": "result.json",
}
"""The file by which each is known."""
DEEPEST = 6  # folders below the results folder that are looked into
MOST = 2000  # games in a list
NOT_INSIDE = ("checkpoints", "best", "recordings")  # folders of runs, which may be many and hold no games


def games_in(root: Path) -> list[dict[str, Any]]:
    """All games, the newest first."""
    found: list[dict[str, Any]] = []
    for folder, names in _folders(root):
        path = folder.relative_to(root).as_posix()
        title = root.resolve().name if path == "." else path
        for kind in _kinds_of(folder, names):
            # It may be gone by now: whoever made it may be making it anew.
            with suppress(OSError):
                changed = (folder / FILES[kind]).stat().st_mtime
                found.append({"kind": kind, "path": path, "title": title, "changed": changed})
        if len(found) >= MOST:
            break
    # What somebody has just made is what they want to look at.
    found.sort(key=lambda game: -game["changed"])
    return found


def _folders(root: Path) -> Iterator[tuple[Path, set[str]]]:
    """Folders and the names of their files. Links are not followed: they may lead out of the results, or in circles."""
    for place, inner, names in os.walk(root):
        folder = Path(place)
        depth = len(folder.relative_to(root).parts)
        # Changed in place: that is how os.walk is told where not to go.
        inner[:] = sorted(name for name in inner if _is_worth_a_look(name, depth))
        yield folder, set(names)


def _is_worth_a_look(name: str, depth: int) -> bool:
    return depth < DEEPEST and name not in NOT_INSIDE and not name.startswith(".")


def _kinds_of(folder: Path, names: set[str]) -> list[Kind]:
    """What a folder is. A report is a cross-play too, and a population is a run: only the first is told."""
    found: list[Kind] = []
    if "population.json" in names:
        found.append("population")
    elif "result.json" in names and _measures_nash_conv(folder):
        found.append("run")
    if "report.json" in names:
        found.append("report")
    elif "payoffs.json" in names:
        found.append("crossplay")
    return found


def _measures_nash_conv(run: Path) -> bool:
    """Whether the run was asked for it; its results are not read for that, as they may be long."""
    try:
        asked = read_json(run / "params.json").get("exploitability") or {}
        return bool(asked.get("interval"))
    except (OSError, ValueError, AttributeError):
        return False  # no run of ours, or one that is just being written


def kind_of(given: object) -> Kind:
    """The kind that a request names."""
    kinds: dict[object, Kind] = {kind: kind for kind in FILES}
    if not isinstance(given, str) or given not in kinds:
        raise Refused("bad_message", f"kind is {shortly(given)}; expected one of {', '.join(FILES)}.", 400)
    return kinds[given]
