"""Run directories: which ones there are, how each stands, and which one a name means.

A run directory holds everything by paths inside itself, so it may be moved or copied. ``state.json`` says how the run stands;
a run that says it is running while its process is gone has failed.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias

import psutil

from marl.errors import CheckpointError, RunLockedError, did_you_mean
from marl.inputs import read_json
from marl.runs.atomic import write_atomically
from marl.runs.lock import holder_of, is_running
from marl.runs.places import default_results

State: TypeAlias = Literal["running", "stopped", "finished", "failed"]
DEEPEST = 4  # folders below the results in which runs are looked for
_FILE = "state.json"


@contextmanager
def told_state(directory: Path) -> Iterator[list[State]]:
    """While the block runs, the run is running; afterwards it is what the block put into the list, or failed by an error."""
    ended: list[State] = ["finished"]
    _write(directory, "running")
    try:
        yield ended
    except KeyboardInterrupt:
        _try_to_write(directory, "stopped")
        raise
    except BaseException as error:
        lines = str(error).splitlines()
        _try_to_write(directory, "failed", f"{type(error).__name__}: {lines[0] if lines else ''}")
        raise
    _write(directory, ended[-1])


def _try_to_write(directory: Path, state: State, error: str = "") -> None:
    """The run ended by an error, which must not be hidden by a second one: a full disk takes no state either."""
    with suppress(OSError):
        _write(directory, state, error)


def _write(directory: Path, state: State, error: str = "") -> None:
    process = psutil.Process()
    told = {"state": state, "error": error, "pid": process.pid, "hostname": platform.node()}
    write_atomically(directory / _FILE, json.dumps({**told, "process_began": process.create_time()}) + "\n")


def state_of(directory: Path, last: dict[str, Any]) -> tuple[State, str]:
    """How a run stands and, if it failed, why. ``last`` is its newest result, which decides for runs without a state file."""
    if _is_locked(directory):
        return "running", ""
    try:
        told = read_json(directory / _FILE)
        state: State = told["state"]
    except (OSError, ValueError, KeyError, TypeError):
        return ("finished" if str(last.get("done")) == "True" else "stopped"), ""
    if state == "running" and told.get("hostname") == platform.node() and not _alive(told):
        return "failed", "its process is gone: it was killed, or the machine was restarted"
    return state, str(told.get("error") or "")


def _alive(told: dict[str, Any]) -> bool:
    try:
        return is_running(int(told["pid"]), float(told["process_began"]))
    except (KeyError, TypeError, ValueError, OverflowError):
        return False


def _is_locked(directory: Path) -> bool:
    """Whether a process of this host is writing to the run at this moment."""
    try:
        holder = holder_of(directory)
    except RunLockedError:
        return False
    return holder is not None and holder.running


def find_runs(root: Path) -> list[Path]:
    """Run directories in a folder, or the folder itself if it is one; oldest first."""
    found: list[tuple[float, Path]] = []
    for folder, below, files in os.walk(root):
        place = Path(folder)
        if "params.json" in files:
            found.append(((place / "params.json").stat().st_mtime, place))
        if "params.json" in files or len(place.relative_to(root).parts) >= DEEPEST:
            below.clear()
        below[:] = [name for name in below if not name.startswith(".")]
    return [place for _, place in sorted(found)]


def named_run(name: str, root: Path | None = None) -> Path:
    """The run directory that a name means, among the results: its own name, its trial id, or its experiment's name.

    Of several runs of one experiment none is chosen. ``EXPERIMENT/NAME`` is fine too.
    """
    root = root or default_results()
    if (root / name).is_dir() and (root / name / "params.json").is_file():
        return root / name
    runs = find_runs(root) if root.is_dir() else []
    meant = [run for run in runs if name in (run.name, trial_id(run), numbered_id(run))]
    meant = meant or [run for run in runs if run.parent.name == name and run.parent != root]
    if len(meant) == 1:
        return meant[0]
    if meant:
        names = ", ".join(run.name for run in meant[-8:])
        raise CheckpointError(f"{name!r} means {len(meant)} runs in {root}. Name one of them: {names}.")
    known = [*(run.name for run in runs), *(run.parent.name for run in runs), *map(trial_id, runs)]
    raise CheckpointError(
        f"there is no run {name!r}: neither a path, nor the name of a run or an experiment in {root}."
        f"{did_you_mean(name, [n for n in known if n])} `marl runs` lists them."
    )


def trial_id(run: Path) -> str:
    """The short id in a run directory's name (see ``files.run_name``); empty where there is none."""
    return numbered_id(run).partition("_")[0]


def numbered_id(run: Path) -> str:
    """The same with the number of the trial, for trials of one search, which share their id: ``e0872_00003``."""
    found = re.search(r"_([0-9a-f]{5}_\d{5})(_|$)", run.name)
    return found[1] if found else ""
