"""Where the runs of a comparison come from: they are read from directories, or trained from scenario files.

A scenario is trained once per seed into ``OUT/NAME/seed_S``. What is there already is not trained again, and a run that was
stopped goes on from its checkpoint, so the same command can be given again and again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from marl.analysis.compare import Entrant, Run
from marl.analysis.report.curves import read_results
from marl.errors import CheckpointError, ConfigError
from marl.scenario.config import Scenario
from marl.scenario.describe import describe
from marl.scenario.load import apply, compose, parse_set, read_yaml
from marl.training.checkpoint import find_checkpoint
from marl.training.display import Display, Progress, Quiet
from marl.training.files import safe_name, to_plain
from marl.training.result import reached
from marl.training.runs import find_runs
from marl.training.same_run import FREE
from marl.training.session import run_to_the_end
from marl.training.trainer import Trainer

Report = Callable[[float, str], None]
"""Called with the share of all training that is done, and what is being trained."""
BUDGETS = ("timesteps_total", "training_iteration", "episodes_total")


def gather(
    sources: Sequence[str],
    out: Path,
    seeds: Sequence[int],
    changes: Sequence[str] = (),
    report: Report = lambda *_: None,
) -> list[Entrant]:
    """One entrant per source; scenarios are trained one after the other."""
    names = _names(sources)
    scenarios = {
        name: scenario_of(Path(source), changes)
        for name, source in zip(names, sources, strict=True)
        if Path(source).suffix in (".yaml", ".yml")
    }
    if changes and not scenarios:
        raise ConfigError("--set changes scenarios that are trained, but only finished runs were given. Drop it.")
    read = {n: read_entrant(n, Path(s)) for n, s in zip(names, sources, strict=True) if n not in scenarios}
    total = len(scenarios) * len(seeds)
    jobs = [(name, seed) for name in scenarios for seed in seeds]
    trained: dict[str, list[Run]] = {name: [] for name in scenarios}
    for done, (name, seed) in enumerate(jobs):
        scenario = compose({**scenarios[name], "seed": seed}, name)
        watch = _Watch(report, done, total, f"{name}, seed {seed}")
        trained[name].append(train(scenario, out / name / f"seed_{seed}", watch))
    return [read[name] if name in read else Entrant(name, trained[name]) for name in names]


def _names(sources: Sequence[str]) -> list[str]:
    """Short names of the entrants; a second one of the same name gets a number."""
    names: list[str] = []
    for source in sources:
        path = Path(source).expanduser().resolve()
        base = safe_name(path.stem if path.suffix in (".yaml", ".yml") else path.name, empty="run")
        number = 1 + sum(name == base or name.startswith(f"{base}_no_") for name in names)
        names.append(base if number == 1 else f"{base}_no_{number}")
    return names


def scenario_of(file: Path, changes: Sequence[str]) -> dict[str, Any]:
    """A scenario whose runs all get the same budget: none ends early because its goal is met."""
    raw = read_yaml(file)
    raw.setdefault("name", file.stem)
    for text in changes:
        apply(raw, *parse_set(text))
    stop = {field: value for field, value in dict(raw.get("stop") or {}).items() if field != "goal"}
    if not any(field in BUDGETS for field in stop):
        raise ConfigError(
            f"{file}: to be compared a scenario needs a budget. Give it one: --set stop.timesteps_total=50000."
        )
    raw["stop"] = stop
    compose(raw, str(file))  # mistakes show before anything is trained
    return raw


class _Watch(Quiet):
    """A display that only hands the progress on."""

    def __init__(self, report: Report, done: int, total: int, what: str) -> None:
        self._report, self._done, self._total, self._what = report, done, total, what

    def start(self, header: Sequence[str]) -> None:
        del header
        self._tell(0.0)

    def update(self, result: Mapping[str, Any], progress: Progress) -> None:
        del result
        self._tell(progress.fraction)

    def _tell(self, part: float) -> None:
        self._report((self._done + part) / self._total, f"{self._what} ({self._done + 1} of {self._total})")


def train(scenario: Scenario, directory: Path, display: Display | None = None) -> Run:
    """Train into the directory, unless that has been done; ``KeyboardInterrupt`` when it was stopped."""
    wanted = json.loads(json.dumps(to_plain(describe(scenario))))
    there = _params(directory)
    changed = different(there, wanted, FREE - {"evaluation", "exploitability"}) if there else ""
    if changed:
        raise ConfigError(
            f"{directory} holds a run of another scenario: {changed} is {there.get(changed)!r} there and "
            f"{wanted.get(changed)!r} now. Choose another place by --out, or delete it."
        )
    results = read_results(directory / "result.json")
    budget = {field: float(value) for field, value in scenario.stop.items()}
    if not results or not any(reached(results[-1], {field: value}) for field, value in budget.items()):
        _go(scenario, directory, display or Quiet())
        results = read_results(directory / "result.json")
    return Run(directory.name, wanted, results)


def _go(scenario: Scenario, directory: Path, display: Display) -> None:
    folder = None
    with suppress(CheckpointError):
        folder = find_checkpoint(directory.resolve()) if directory.is_dir() else None
    with Trainer(scenario=scenario, fresh=folder is None) as trainer:
        if folder is None:
            trainer.workers.start()
        else:
            trainer.restore(folder)
        trainer.store.open(directory)
        trainer.store.go_on()
        if run_to_the_end(trainer, display).interrupted:
            raise KeyboardInterrupt


def read_entrant(name: str, path: Path) -> Entrant:
    """A run directory, or a folder whose runs are seeds of one scenario."""
    path = path.expanduser()
    if not path.is_dir():
        raise ConfigError(
            f"{path} is neither a scenario file (.yaml), nor a run directory, nor a folder of runs. Check the path; "
            "`marl runs` lists the runs there are."
        )
    runs: dict[int, Run] = {}
    for directory in find_runs(path):  # oldest first: of two runs with one seed the newer counts
        results, params = read_results(directory / "result.json"), _params(directory)
        if results and params:
            runs[int(params.get("seed", 0))] = Run(directory.name, params, results)
    if not runs:
        raise ConfigError(f"{path} holds no run with results. Train one there: marl run FILE --local-dir {path}.")
    found = [runs[seed] for seed in sorted(runs)]
    for run in found[1:]:
        key = different(found[0].params, run.params)
        if key:
            raise ConfigError(
                f"{path}: {found[0].name} and {run.name} are runs of different scenarios: {key} is "
                f"{found[0].params.get(key)!r} and {run.params.get(key)!r}. Give the run directories one by one."
            )
    return Entrant(name, found)


def _params(directory: Path) -> dict[str, Any]:
    try:
        found = json.loads((directory / "params.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def different(a: Mapping[str, Any], b: Mapping[str, Any], free: Collection[str] = FREE) -> str:
    """The first key of a scenario in which two runs differ, besides their seed and what changes no numbers; else empty."""
    keys = [key for key in dict.fromkeys([*a, *b]) if key not in free and key != "seed"]
    return next((key for key in keys if a.get(key) != b.get(key)), "")
