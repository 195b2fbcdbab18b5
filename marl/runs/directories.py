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

State: TypeAlias = Literal["running", "stopped", "finished", "failed"]
DEEPEST = 4  # folders below the results in which runs are looked for
_FILE = "state.json"


def default_results() -> Path:
    """Where results go: ``MARL_RESULTS_DIR``, else ``~/marl_results``."""
    # Set but empty counts as not set: an empty path would mean the folder in which the user happens to be.
    place = os.environ.get("MARL_RESULTS_DIR") or "~/marl_results"
    return Path(place).expanduser()


@contextmanager
def told_state(directory: Path) -> Iterator[list[State]]:
    """While the block runs, the run is running; afterwards it is what the block put into the list, or failed by an error."""
    ended: list[State] = ["finished"]
    _write(directory, "running")
    # What ended the run must not be hidden by a second error: a full disk takes no state either.
    try:
        yield ended
    except KeyboardInterrupt:
        with suppress(OSError):
            _write(directory, "stopped")
        raise
    except BaseException as error:
        first_line = next(iter(str(error).splitlines()), "")
        with suppress(OSError):
            _write(directory, "failed", f"{type(error).__name__}: {first_line}")
        raise
    _write(directory, ended[-1])


def _write(directory: Path, state: State, error: str = "") -> None:
    process = psutil.Process()
    content = {
        "state": state,
        "error": error,
        "pid": process.pid,
        "hostname": platform.node(),
        # Numbers of processes are used again; together with its start a process is known for sure.
        "process_began": process.create_time(),
    }
    write_atomically(directory / _FILE, json.dumps(content) + "\n")


def state_of(directory: Path, last: dict[str, Any]) -> tuple[State, str]:
    """How a run stands and, if it failed, why. ``last`` is its newest result, which decides for runs without a state file."""
    if _is_locked(directory):
        return "running", ""
    try:
        content = read_json(directory / _FILE)
        state: State = content["state"]
    except (OSError, ValueError, KeyError, TypeError):
        # From a table, `done` comes as text.
        if str(last.get("done")) == "True":
            return "finished", ""
        return "stopped", ""
    if state == "running" and _is_gone(content):
        return "failed", "its process is gone: it was killed, or the machine was restarted"
    return state, str(content.get("error") or "")


def _is_gone(content: dict[str, Any]) -> bool:
    """Whether the process has ended; of one on another machine nobody can tell here, so what it wrote last is believed."""
    if content.get("hostname") != platform.node():
        return False
    try:
        return not is_running(int(content["pid"]), float(content["process_began"]))
    except (KeyError, TypeError, ValueError, OverflowError):
        return True


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
        # `below` is changed in place: os.walk goes into what is left of it.
        if "params.json" in files:
            with suppress(OSError):  # it was removed meanwhile, or is a link that leads nowhere
                written = (place / "params.json").stat().st_mtime
                found.append((written, place))
            below.clear()
        elif len(place.relative_to(root).parts) >= DEEPEST:
            below.clear()
        else:
            below[:] = [name for name in below if not name.startswith(".")]
    found.sort()
    return [place for _, place in found]


def named_run(name: str, root: Path | None = None) -> Path:
    """The run directory that a name means, among the results: its own name, its trial id, or its experiment's name.

    Of several runs of one experiment none is chosen. ``EXPERIMENT/NAME`` is fine too.
    """
    if root is None:
        root = default_results()
    if (root / name / "params.json").is_file():
        return root / name
    meant = runs_called(name, root)
    if not meant:
        raise _no_such_run(name, root)
    if len(meant) > 1:
        names = [run.name for run in meant]
        newest = ", ".join(names[-8:])  # a search has hundreds of trials
        raise CheckpointError(f"{name!r} means {len(meant)} runs in {root}. Name one of them: {newest}.")
    return meant[0]


def _no_such_run(name: str, root: Path) -> CheckpointError:
    known = []
    for run in find_runs(root):
        known += [run.name, run.parent.name]
        if trial_id(run):
            known.append(trial_id(run))
    return CheckpointError(
        f"there is no run {name!r}: neither a path, nor the name of a run or an experiment in {root}."
        f"{did_you_mean(name, known)} `marl runs` lists them."
    )


def runs_called(name: str, root: Path | None = None) -> list[Path]:
    """All runs among the results that a name may mean: those that are called so, else those of an experiment."""
    if not name:
        return []
    if root is None:
        root = default_results()
    called_so: list[Path] = []
    of_experiment: list[Path] = []
    for run in find_runs(root):
        own_names = (run.name, trial_id(run), numbered_id(run))
        experiment = run.parent
        if name in own_names:
            called_so.append(run)
        elif experiment.name == name and experiment != root:
            of_experiment.append(run)
    return called_so or of_experiment


def trial_id(run: Path) -> str:
    """The short id in a run directory's name (see ``files.run_name``); empty where there is none."""
    return numbered_id(run).partition("_")[0]


def numbered_id(run: Path) -> str:
    """The same with the number of the trial, for trials of one search, which share their id: ``e0872_00003``."""
    found = re.search(r"_([0-9a-f]{5}_\d{5})(_|$)", run.name)
    if found is None:
        return ""
    return found[1]
