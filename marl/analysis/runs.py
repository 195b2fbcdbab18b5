"""``marl runs``: which runs there are, how far each is, what it reached."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from marl.errors import ConfigError, printable
from marl.inputs import open_input, read_json, real_path
from marl.runs.directories import State, default_results, find_runs, numbered_id, state_of, trial_id
from marl.runs.result import reached
from marl.training.loop import progress_of


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
    found = [(run, summary) for run in find_runs(root) if (summary := summarise(run)) is not None]
    names = usable_names([run for run, _ in found])
    return [replace(summary, id=names[run]) for run, summary in found]


def usable_names(runs: Sequence[Path]) -> dict[Path, str]:
    """The shortest name by which each run is found (see ``runs.named_run``): its id, its directory's name, or a path.

    Names are looked up among all results, whichever folder is listed; a run elsewhere is named by its path.
    """
    results = real_path(default_results())
    among = set(find_runs(results)) if results.is_dir() else set()
    often = Counter(name for run in among for name in {trial_id(run), numbered_id(run), run.name})
    found: dict[Path, str] = {}
    for run in runs:
        place = real_path(run)
        if place not in among:
            found[run] = str(run)
            continue
        short = (trial_id(run), numbered_id(run), run.name)
        found[run] = next((name for name in short if name and often[name] == 1), str(place.relative_to(results)))
    return found


def summarise(run: Path) -> RunSummary | None:
    """What there is to know of one run from its files; None where its params cannot be read or are not those of a run."""
    try:
        return _summary(run, read_json(run / "params.json"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _summary(run: Path, params: Mapping[str, Any]) -> RunSummary:
    metric = f"evaluation.{params['evaluation']['metric']}"
    algo, env = str(params["algo"]["name"]), str(params["env"])
    rows = read_table(run / "progress.csv")
    last = rows[-1] if rows else {}
    state, error = state_of(run, last)
    evaluated = [value for row in rows if (value := _number(row.get(metric))) is not None]
    best_of = metric if evaluated else "episode_reward_mean"
    values = evaluated or [value for row in rows if (value := _number(row.get(best_of))) is not None]
    known = {name: value for row in rows for name, text in row.items() if (value := _number(text)) is not None}
    goal = {str(field): float(value) for field, value in (params.get("goal") or {}).items()}
    way = progress_of(params.get("stop") or {}, known)
    newest = (run / "result.json").stat().st_mtime if (run / "result.json").exists() else run.stat().st_mtime
    return RunSummary(
        name=run.name, id=trial_id(run) or run.name, experiment=run.parent.name, directory=str(run), algo=algo, env=env,
        seed=params.get("seed"), state=state, error=error, iterations=int(known.get("training_iteration", 0)),
        timesteps=int(known.get("timesteps_total", 0)), progress=1.0 if state == "finished" else way.fraction,
        progress_label=way.label, reward=_number(last.get("episode_reward_mean")), best=max(values, default=None),
        best_of=best_of, goal=goal, goal_met=reached(known, goal) if goal and rows else None,
        seconds=known.get("time_total_s", 0.0), newest=datetime.fromtimestamp(newest).isoformat(" ", "seconds"),
    )  # fmt: skip


def read_table(file: Path) -> list[dict[str, str]]:
    """Rows of ``progress.csv`` with dotted names; empty cells are left out."""
    try:
        with io.TextIOWrapper(open_input(file), encoding="utf-8", errors="replace", newline="") as text:
            rows = list(csv.DictReader(text))
    except (OSError, csv.Error):
        return []
    return [{name.replace("/", "."): value for name, value in row.items() if name and value} for row in rows]


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def runs_table(runs: Sequence[RunSummary], screen: int | None = None) -> Table:
    """The runs as rows; ``id`` is what `--resume` takes. On a narrow screen only names of experiments are shortened."""
    titles = ("id", "experiment", "algo", "seed", "state", "progress", "env steps", "reward", "best", "goal")
    rows = [[printable(cell) for cell in _cells(run)] for run in runs]
    if screen is not None:
        others = sum(max(map(len, column)) + 2 for column in zip(titles, *rows, strict=True)) - 2
        others -= max(len(row[1]) for row in [titles, *rows])
        rows = [[row[0], _cut(row[1], max(len(titles[1]), screen - others)), *row[2:]] for row in rows]
    table = Table(box=None, pad_edge=False)
    for title in titles:
        right = title in ("seed", "progress", "env steps", "reward", "best")
        table.add_column(title, justify="right" if right else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _cells(run: RunSummary) -> list[str]:
    met: Mapping[bool | None, str] = {True: "met", False: "missed" if run.state == "finished" else "not yet", None: "-"}
    return [
        run.id, run.experiment, run.algo, "-" if run.seed is None else str(run.seed), run.state,
        f"{run.progress:.0%}", f"{run.timesteps:,}", _short(run.reward), _short(run.best), met[run.goal_met],
    ]  # fmt: skip


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
