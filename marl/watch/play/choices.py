"""What a person can choose to play: runs of the results, and envs that can be built here without a run."""

from __future__ import annotations

import importlib.util
from contextlib import suppress
from pathlib import Path
from typing import Any

from marl.inputs import read_json
from marl.runs.directories import find_runs

NOT_PLAYED = ("external", "copies")  # registered, but they need a program or another env
MORE = {
    "pettingzoo": ("pettingzoo:classic/tictactoe_v3", "pettingzoo:classic/connect_four_v3"),
    "gymnasium": ("CartPole-v1", "Pendulum-v1"),
}
"""Envs of other packages that are good to play, where the package is there; any other name can be typed."""


def choices(root: Path) -> dict[str, Any]:
    """Runs with a checkpoint, newest first, and names of envs."""
    runs = []
    for place in reversed(find_runs(root)):
        name = place.relative_to(root).as_posix()
        checkpoints = _checkpoints(place)
        # A run that has just begun has nothing to play against yet.
        if checkpoints:
            runs.append({"run": name, "checkpoints": checkpoints, **_told(place)})
    return {"runs": runs, "envs": envs()}


def _checkpoints(place: Path) -> list[str]:
    found = []
    for folder in (place / "checkpoints").glob("*"):
        if folder.is_dir():
            found.append(folder.name)
    return sorted(found)


def envs() -> list[str]:
    """Registered envs, and some of other packages that are installed."""
    import marl.envs.catalog  # noqa: F401  (the built-in games register themselves)
    from marl.envs.registry import ENVS

    found = list(ENVS)
    for name in NOT_PLAYED:
        found.remove(name)
    for package, names in MORE.items():
        if importlib.util.find_spec(package) is not None:
            found += names
    return found


def _told(place: Path) -> dict[str, Any]:
    """What a run's own file says of it; nothing where it cannot be read."""
    told: dict[str, Any] = {"env": "", "algo": "", "population": False}
    with suppress(OSError, ValueError, TypeError):
        params = read_json(place / "params.json")
        algo = params.get("algo")
        if isinstance(algo, dict):  # with keys of its own
            algo = algo.get("name", "")
        told["env"] = str(params.get("env", ""))
        told["algo"] = str(algo)
        told["population"] = bool(params.get("population"))
    return told
