"""Which runs a figure is made of: run directories, names and ids of runs, folders, searches and comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marl.analysis.compare.compare import Run
from marl.analysis.compare.directory import ABOUT
from marl.analysis.compare.runs import read_params
from marl.analysis.report.curves import read_results
from marl.errors import ConfigError
from marl.inputs import read_json, real_path
from marl.runs.directories import find_runs, named_run, runs_called

MOST_NAMED = 5  # runs that a note names


@dataclass(frozen=True)
class PlotRun:
    """A run with results; ``source`` is the word of the command line by which it was found."""

    source: str
    run: Run
    written: float = 0.0  # seconds, when the run began


def read_runs(sources: Sequence[str]) -> tuple[list[PlotRun], list[str]]:
    """All runs that have results, each once, in the order of the sources; and a note on those that have none."""
    found: dict[Path, PlotRun] = {}
    empty: list[str] = []
    for source in sources:
        for directory in directories_of(source):
            place = real_path(directory)
            # A folder and a run in it may both be given, and a run that counts twice would look like two.
            if place in found:
                continue
            run = Run(directory.name, read_params(directory), read_results(directory / "result.json"))
            if run.results and run.params:
                found[place] = PlotRun(_short(source), run, _written(directory))
            else:
                empty.append(directory.name)
    if not found:
        raise ConfigError(f"no run in {', '.join(sources)} has a result yet. Give runs that have trained for a while.")
    notes = []
    if empty:
        notes.append(f"without results, hence left out: {listed(empty)}")
    return list(found.values()), notes


def _written(directory: Path) -> float:
    try:
        return (directory / "params.json").stat().st_mtime
    except OSError:  # it was removed meanwhile
        return 0.0


def listed(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(names[:MOST_NAMED])
    if len(names) > MOST_NAMED:
        return f"{shown} and {len(names) - MOST_NAMED} more"
    return shown


def directories_of(source: str) -> list[Path]:
    """The run directories that a word of the command line means."""
    path = Path(source).expanduser()
    if path.is_file():
        raise ConfigError(
            f"{source} is a file. marl plot draws runs that were trained: give a run directory, the id of a run, or a folder "
            "with runs. `marl run` trains a scenario, `marl compare` several."
        )
    if not path.is_dir():
        # A name or an id; of an experiment all runs are meant. `named_run` says what is wrong with one that is not there.
        return runs_called(source) or [named_run(source)]
    found = [*find_runs(path), *_compared_in(path)]
    if not found:
        raise ConfigError(f"{source} holds no run. Give a folder that does; `marl runs` lists the runs there are.")
    return found


def _compared_in(folder: Path) -> list[Path]:
    """Runs that a comparison in this folder was made of, but that lie elsewhere."""
    try:
        about: Any = read_json(folder / ABOUT)
    except (OSError, ValueError):
        return []
    sources = about.get("sources") if isinstance(about, dict) else None
    if not isinstance(sources, list):
        return []
    found: list[Path] = []
    for source in sources:
        # Scenario files stand there too: their runs lie in the folder itself.
        if isinstance(source, str) and Path(source).is_dir():
            found += find_runs(Path(source))
    return found


def _short(source: str) -> str:
    return Path(source).name or source
