"""Where the runs of a comparison come from: they are read from directories, or trained from scenario files.

A scenario is trained once per seed into ``OUT/NAME/seed_S``. What is there already is not trained again, and a run that was
stopped goes on from its checkpoint, so the same command can be given again and again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marl.analysis.compare.check import check_scenario
from marl.analysis.compare.compare import Entrant, Run, agreed_metric, common_steps, measured
from marl.analysis.compare.keys import MOST, Difference, differences, told
from marl.analysis.report.curves import read_results
from marl.errors import ConfigError
from marl.inputs import read_json, real_path
from marl.old_names import with_current_names
from marl.runs.directories import find_runs
from marl.runs.files import safe_name, to_plain
from marl.runs.lock import check_unlocked
from marl.runs.result import reached
from marl.runs.resume import resumable_in
from marl.runs.resume_check import FREE
from marl.scenario.config import Scenario
from marl.scenario.describe import describe
from marl.scenario.load import apply, compose, parse_set, read_yaml
from marl.training.display import Display, Progress, Quiet
from marl.training.loop import run_until_stopped
from marl.training.trainer import Trainer

Report = Callable[[float, str], None]
"""Called with the share of all training that is done, and what is being trained."""
BUDGETS = ("timesteps_total", "training_iteration", "episodes_total")


@dataclass(frozen=True)
class Plan:
    """What is compared: runs that were read, and scenarios to train, one per seed; names in the order of the sources."""

    names: Sequence[str]
    read: Mapping[str, Entrant]
    scenarios: Mapping[str, Sequence[Scenario]]

    def entrants(self) -> list[Entrant]:
        """All entrants as far as they are known: runs that are still to be trained have no results."""
        return [
            self.read[n] if n in self.read else Entrant(n, [*map(_untrained, self.scenarios[n])]) for n in self.names
        ]


def _untrained(scenario: Scenario) -> Run:
    return Run(f"seed_{scenario.seed}", described(scenario), ())


def described(scenario: Scenario) -> dict[str, Any]:
    """What ``params.json`` of its run will hold."""
    found: dict[str, Any] = with_current_names(json.loads(json.dumps(to_plain(describe(scenario)))))
    return found


def plan_comparison(sources: Sequence[str], seeds: Sequence[int], changes: Sequence[str] = ()) -> Plan:
    """One entrant per source: runs are read, scenarios are composed; nothing is trained."""
    names = _names(sources)
    raws = {
        name: scenario_of(Path(source), changes)
        for name, source in zip(names, sources, strict=True)
        if Path(source).suffix in (".yaml", ".yml")
    }
    if changes and not raws:
        raise ConfigError("--set changes scenarios that are trained, but only finished runs were given. Drop it.")
    read = {n: read_entrant(n, Path(s)) for n, s in zip(names, sources, strict=True) if n not in raws}
    scenarios = {name: [compose({**raw, "seed": seed}, name) for seed in seeds] for name, raw in raws.items()}
    return Plan(names, read, scenarios)


def check_plan(plan: Plan, out: Path, metric: str | None = None, at: int | None = None) -> None:
    """Refuse, before anything is trained, what is sure to be refused afterwards."""
    chosen = agreed_metric(plan.entrants(), metric)
    points = {name: [measured(one, run, chosen) for run in one.runs] for name, one in plan.read.items()}
    if points:
        common_steps(points, at)
    for name, scenarios in plan.scenarios.items():
        check_scenario(name, scenarios[0], chosen)
        for scenario in scenarios:
            _check_unchanged(_directory(out, name, scenario), described(scenario))


def gather(plan: Plan, out: Path, report: Report = lambda *_: None) -> list[Entrant]:
    """All entrants with their results; scenarios are trained one after the other."""
    jobs = [(name, scenario) for name, scenarios in plan.scenarios.items() for scenario in scenarios]
    trained: dict[str, list[Run]] = {name: [] for name in plan.scenarios}
    for done, (name, scenario) in enumerate(jobs):
        watch = _Watch(report, done, len(jobs), f"{name}, seed {scenario.seed}")
        trained[name].append(train(scenario, _directory(out, name, scenario), watch))
    return [plan.read[name] if name in plan.read else Entrant(name, trained[name]) for name in plan.names]


def _directory(out: Path, name: str, scenario: Scenario) -> Path:
    return out / name / f"seed_{scenario.seed}"


def _names(sources: Sequence[str]) -> list[str]:
    """Short names of the entrants; a second one of the same name gets a number."""
    names: list[str] = []
    for source in sources:
        path = real_path(Path(source).expanduser())
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
    wanted = described(scenario)
    _check_unchanged(directory, wanted)
    results = read_results(directory / "result.json")
    budget = {field: float(value) for field, value in scenario.stop.items()}
    if not results or not any(reached(results[-1], {field: value}) for field, value in budget.items()):
        _go(scenario, directory, display or Quiet())
        results = read_results(directory / "result.json")
    return Run(directory.name, wanted, results)


def _check_unchanged(directory: Path, wanted: Mapping[str, Any]) -> None:
    """What is there already must be a run of the same scenario."""
    there = _params(directory)
    changed = different(there, wanted, FREE - {"evaluation", "exploitability"}) if there else []
    if changed:
        raise ConfigError(
            f"{directory} holds a run of another scenario: {told(changed, 'there', 'now')}. Choose another place by --out, "
            "or delete it."
        )


def _go(scenario: Scenario, directory: Path, display: Display) -> None:
    check_unlocked(directory)
    folder = resumable_in(real_path(directory))
    with Trainer(scenario=scenario, fresh=folder is None) as trainer:
        trainer.store.enter(directory, folder)
        if run_until_stopped(trainer, display).interrupted:
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
    dropped: list[str] = []
    for directory in find_runs(path):  # oldest first: of two runs with one seed the newer counts
        results, params = read_results(directory / "result.json"), _params(directory)
        if results and params:
            seed = int(params.get("seed", 0))
            dropped += [runs[seed].name] if seed in runs else []
            runs[seed] = Run(directory.name, params, results)
    if not runs:
        raise ConfigError(f"{path} holds no run with results. Train one there: marl run FILE --local-dir {path}.")
    found = [runs[seed] for seed in sorted(runs)]
    for run in found[1:]:
        changed = different(found[0].params, run.params)
        if changed:
            raise ConfigError(
                f"{path}: {found[0].name} and {run.name} are runs of different scenarios: {told(changed)}. Give the run "
                "directories one by one."
            )
    return Entrant(name, found, _notes(name, dropped))


def _notes(name: str, dropped: Sequence[str]) -> list[str]:
    if not dropped:
        return []
    more = f" and {len(dropped) - MOST} more" if len(dropped) > MOST else ""
    return [f"{name}: of several runs with one seed the newest counts; left out: {', '.join(dropped[:MOST])}{more}"]


def _params(directory: Path) -> dict[str, Any]:
    try:
        found = read_json(directory / "params.json")
    except (OSError, ValueError):
        return {}
    return with_current_names(found) if isinstance(found, dict) else {}


def different(a: Mapping[str, Any], b: Mapping[str, Any], free: Collection[str] = FREE) -> list[Difference]:
    """The keys in which two runs differ, besides their seed and sections that change no numbers."""
    first, second = ({k: v for k, v in params.items() if k not in free and k != "seed"} for params in (a, b))
    return differences(first, second)
