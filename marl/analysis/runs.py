"""``marl runs``: which runs there are, how far each is, what it reached."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table
from rich.text import Text

from marl.errors import ConfigError, printable
from marl.inputs import open_input, read_json, real_path
from marl.runs.directories import State, default_results, find_runs, numbered_id, state_of, trial_id
from marl.runs.progress import progress_of
from marl.runs.result import reached


@dataclass(frozen=True)
class RunSummary:
    """One run; ``id`` names it wherever a run is asked for.

    Without an evaluation ``best`` is the best training reward. None: not known yet, or there is no goal.
    """

    name: str
    id: str
    experiment: str
    directory: str
    algo: str
    env: str
    seed: int | None
    state: State
    error: str
    iterations: int
    timesteps: int
    progress: float  # towards the nearest stop condition, 0 to 1
    progress_label: str
    reward: float | None
    best: float | None
    best_of: str  # the field that `best` is of
    goal: dict[str, float]
    goal_met: bool | None
    seconds: float
    newest: str  # when the last result was written

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def list_runs(root: Path) -> list[RunSummary]:
    """All runs in a folder, oldest first."""
    root = root.expanduser()
    if not root.is_dir():
        raise ConfigError(
            f"there is no folder {root}. Give one with runs in it, or train something first: marl run FILE."
        )
    found: dict[Path, RunSummary] = {}
    for run in find_runs(root):
        summary = summarise(run)
        if summary is not None:
            found[run] = summary
    names = usable_names(list(found))
    return [replace(summary, id=names[run]) for run, summary in found.items()]


def usable_names(runs: Sequence[Path]) -> dict[Path, str]:
    """The shortest name by which each run is found (``directories.named_run``): its id, its directory's name, or a path.

    Names are looked up among all results, whichever folder is listed; a run elsewhere is named by its path.
    """
    results = real_path(default_results())
    among: set[Path] = set()
    if results.is_dir():
        among = set(find_runs(results))
    often: Counter[str | None] = Counter()
    for run in among:
        often.update({trial_id(run), numbered_id(run), run.name})  # a set: a run may have two of its names alike
    found: dict[Path, str] = {}
    for run in runs:
        place = real_path(run)
        if place not in among:
            found[run] = str(run)
            continue
        found[run] = str(place.relative_to(results))
        for name in (run.name, numbered_id(run), trial_id(run)):  # the shortest last: it wins
            if name and often[name] == 1:
                found[run] = name
    return found


def summarise(run: Path) -> RunSummary | None:
    """What there is to know of one run from its files; None where its params cannot be read or are not those of a run."""
    try:
        return _summary(run, read_json(run / "params.json"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _summary(run: Path, params: Mapping[str, Any]) -> RunSummary:
    table = read_table(run / "progress.csv")
    state, error = state_of(run, table[-1] if table else {})
    rows = [_numbers(row) for row in table]
    last = rows[-1] if rows else {}
    best_of, best = _best(rows, metric_of(params))
    known: dict[str, float] = {}
    for row in rows:
        known |= row  # fields such as evaluations stand in some rows only: the newest of each counts
    return summary_of(run, params, state, error, Measured(known, last.get("episode_reward_mean"), best_of, best))


class Measured(NamedTuple):
    """What a summary says of a run's results. ``known``: the newest number of each field, empty before the first result."""

    known: Mapping[str, float]
    reward: float | None
    best_of: str
    best: float | None


def metric_of(params: Mapping[str, Any]) -> str:
    """The field that evaluations are judged by."""
    return f"evaluation.{params['evaluation']['metric']}"


def goal_of(params: Mapping[str, Any]) -> dict[str, float]:
    return {str(field): float(value) for field, value in (params.get("goal") or {}).items()}


def summary_of(run: Path, params: Mapping[str, Any], state: State, error: str, measured: Measured) -> RunSummary:
    """The summary of what was read already; ``id`` is the run's own name, whatever other runs there are."""
    known = measured.known
    goal = goal_of(params)
    goal_met = reached(known, goal) if goal and known else None
    way = progress_of(params.get("stop") or {}, known)
    return RunSummary(
        name=run.name,
        id=trial_id(run) or run.name,
        experiment=run.parent.name,
        directory=str(run),
        algo=str(params["algo"]["name"]),
        env=str(params["env"]),
        seed=params.get("seed"),
        state=state,
        error=error,
        iterations=int(known.get("training_iteration", 0)),
        timesteps=int(known.get("timesteps_total", 0)),
        progress=1.0 if state == "finished" else way.fraction,
        progress_label=way.label,
        reward=measured.reward,
        best=measured.best,
        best_of=measured.best_of,
        goal=goal,
        goal_met=goal_met,
        seconds=known.get("time_total_s", 0.0),
        newest=_last_written(run).isoformat(" ", "seconds"),
    )


def _best(rows: Sequence[Mapping[str, float]], metric: str) -> tuple[str, float | None]:
    """The field that a run is judged by, and the best of it: of evaluations, or of training where there are none."""
    for field in (metric, "episode_reward_mean"):
        measured = [row[field] for row in rows if field in row]
        if measured:
            return field, max(measured)
    return "episode_reward_mean", None


def _last_written(run: Path) -> datetime:
    # A run that was only just begun has no results yet.
    results = run / "result.json"
    newest = results if results.exists() else run
    return datetime.fromtimestamp(newest.stat().st_mtime)


def read_table(file: Path) -> list[dict[str, str]]:
    """Rows of ``progress.csv`` with dotted names; empty cells are left out."""
    try:
        with io.TextIOWrapper(open_input(file), encoding="utf-8", errors="replace", newline="") as text:
            rows = list(csv.DictReader(text))
    except (OSError, csv.Error):
        return []
    found = []
    for row in rows:
        # A run may be writing right now: cells of a cut line have no name, or no value.
        found.append({name.replace("/", "."): value for name, value in row.items() if name and value})
    return found


def _numbers(row: Mapping[str, str]) -> dict[str, float]:
    """Those cells of a row that are numbers."""
    found: dict[str, float] = {}
    for name, text in row.items():
        with suppress(ValueError):
            found[name] = float(text)
    return found


def runs_table(runs: Sequence[RunSummary], screen: int | None = None) -> Table:
    """The runs as rows; ``id`` is what `--resume` takes. On a narrow screen only names of experiments are shortened."""
    titles = ("id", "experiment", "algo", "seed", "state", "progress", "env steps", "reward", "best", "goal")
    rows = [list(map(printable, _cells(run))) for run in runs]  # files of strangers must not command the terminal
    if screen is not None:
        _shorten_experiments(titles, rows, screen)
    table = Table(box=None, pad_edge=False)
    for title in titles:
        right = title in ("seed", "progress", "env steps", "reward", "best")
        table.add_column(title, justify="right" if right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _shorten_experiments(titles: Sequence[str], rows: Sequence[list[str]], screen: int) -> None:
    """Make the table as narrow as the screen, at the cost of the one column that nobody types in again."""
    columns = zip(titles, *rows, strict=True)
    widths = [max(map(len, column)) for column in columns]
    experiment = 1
    gaps = 2 * (len(widths) - 1)
    others = sum(widths) - widths[experiment] + gaps
    longest = max(len(titles[experiment]), screen - others)
    for row in rows:
        name = row[experiment]
        if len(name) > longest:
            row[experiment] = f"{name[: longest - 1]}…"


def _cells(run: RunSummary) -> list[str]:
    missed = "missed" if run.state == "finished" else "not yet"
    met: Mapping[bool | None, str] = {True: "met", False: missed, None: "-"}
    return [
        run.id,
        run.experiment,
        run.algo,
        "-" if run.seed is None else str(run.seed),
        run.state,
        f"{run.progress:.0%}",
        f"{run.timesteps:,}",
        _short(run.reward),
        _short(run.best),
        met[run.goal_met],
    ]


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
