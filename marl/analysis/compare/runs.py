"""Where the runs of a comparison come from: they are read from directories, or trained from scenario files.

A scenario is trained once per seed into ``OUT/NAME/seed_S``. What is there already is not trained again, and a run that was
stopped goes on from its checkpoint, so the same command can be given again and again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from marl.analysis.compare.compare import Entrant, Run, agreed_metric, common_steps, measured
from marl.analysis.compare.keys import MOST, Difference, differences, told
from marl.analysis.compare.stacked import train_stack
from marl.analysis.report.curves import read_results
from marl.data.task import PolicyID
from marl.errors import ConfigError
from marl.inputs import read_json, real_path
from marl.needs import missing
from marl.old_names import with_current_names
from marl.runs.directories import find_runs
from marl.runs.fields import meaning_of
from marl.runs.files import safe_name, to_plain
from marl.runs.lock import check_unlocked
from marl.runs.old_defaults import as_it_ran
from marl.runs.result import check_field, reached
from marl.runs.resume import resumable_in
from marl.runs.resume_check import FREE, with_new_keys
from marl.scenario.config import Scenario
from marl.scenario.describe import describe
from marl.scenario.load import apply, compose, parse_set, read_yaml
from marl.scenario.resolve import resolve
from marl.scenario.unused_keys import FIELD_NEEDS
from marl.training.build import check_fields
from marl.training.display import Display, Progress, Quiet
from marl.training.loop import run_until_stopped
from marl.training.stacked import check_stack
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
        untrained: dict[str, list[Run]] = {}
        for name, scenarios in self.scenarios.items():
            untrained[name] = [Run(f"seed_{one.seed}", described(one), ()) for one in scenarios]
        return self.in_order(untrained)

    def in_order(self, trained: Mapping[str, Sequence[Run]]) -> list[Entrant]:
        """All entrants as the sources were given, with these runs for the scenarios."""
        found = []
        for name in self.names:
            found.append(self.read[name] if name in self.read else Entrant(name, trained[name]))
        return found


def described(scenario: Scenario) -> dict[str, Any]:
    """What ``read_params`` will find in its run."""
    return with_new_keys(with_current_names(json.loads(json.dumps(to_plain(describe(scenario))))))


def plan_comparison(
    sources: Sequence[str], seeds: Sequence[int], changes: Sequence[str] = (), stacked: bool = False
) -> Plan:
    """One entrant per source: runs are read, scenarios are composed; nothing is trained."""
    names = _names(sources)
    paths = [Path(source) for source in sources]
    for option, is_given in (("--set changes", changes), ("--stacked is about", stacked)):
        if is_given and not any(map(_is_scenario, paths)):
            raise ConfigError(f"{option} scenarios that are trained, but only finished runs were given. Drop it.")
    read: dict[str, Entrant] = {}
    scenarios: dict[str, list[Scenario]] = {}
    for name, path in zip(names, paths, strict=True):
        if not _is_scenario(path):
            read[name] = read_entrant(name, path)
            continue
        raw = scenario_of(path, changes)
        if stacked:
            raw["stacked"] = True
        scenarios[name] = [compose({**raw, "seed": seed}, name) for seed in seeds]
    return Plan(names, read, scenarios)


def _is_scenario(path: Path) -> bool:
    return path.suffix in (".yaml", ".yml")


def check_plan(plan: Plan, out: Path, metric: str | None = None, at: int | None = None) -> None:
    """Refuse, before anything is trained, what is sure to be refused afterwards."""
    chosen = agreed_metric(plan.entrants(), metric)
    points = {}
    for name, entrant in plan.read.items():
        points[name] = [measured(entrant, run, chosen) for run in entrant.runs]
    if points:
        common_steps(points, at)
    for name, scenarios in plan.scenarios.items():
        # One seed stands for all of them: seeds change neither envs nor the fields of results.
        policies = list(resolve(scenarios[0]).policies)
        check_fields(scenarios[0], policies)
        if scenarios[0].stacked:
            check_stack(scenarios)
        check_metric(name, scenarios[0], policies, chosen)
        for scenario in scenarios:
            _check_unchanged(_directory(out, name, scenario), described(scenario))


def check_metric(
    name: str, scenario: Scenario, policies: Sequence[PolicyID], metric: str, option: str = "--metric"
) -> None:
    """Refuse a field that results of the scenario will never have; ``option`` is where it was asked for."""
    block = metric.partition(".")[0]
    wanting = missing(FIELD_NEEDS[block], scenario) if block in FIELD_NEEDS else ""
    if wanting:
        raise ConfigError(f"{option} {metric}: {name} will never have it, because it {wanting}.")
    known = meaning_of(metric)
    if known is not None and known.is_number and known.name == metric:
        return
    # Callbacks may add any field to results, which shows only when they run.
    if scenario.callbacks is None:
        check_field(metric, policies, f"{option}, {name}")


def gather(plan: Plan, out: Path, report: Report = lambda *_: None) -> list[Entrant]:
    """All entrants with their results; scenarios are trained one after the other, stacked ones with all seeds at once."""
    total = sum(map(len, plan.scenarios.values()))
    done = 0
    trained: dict[str, list[Run]] = {}
    for name, scenarios in plan.scenarios.items():
        runs = trained.setdefault(name, [])
        if scenarios[0].stacked:
            runs += _train_all(name, scenarios, out, partial(_told, report, done, total, name))
            done += len(scenarios)
            continue
        for scenario in scenarios:
            watch = _Watch(report, done, total, f"{name}, seed {scenario.seed}")
            runs.append(train(scenario, _directory(out, name, scenario), watch))
            done += 1
    return plan.in_order(trained)


def _told(report: Report, done: int, total: int, name: str, part: float) -> None:
    report((done + part) / total, f"{name}, all seeds")


def _train_all(name: str, scenarios: Sequence[Scenario], out: Path, tell: Callable[[float], None]) -> list[Run]:
    """All seeds of a scenario in one process, besides those that have been trained already."""
    open_ones = {}
    for scenario in scenarios:
        directory = _directory(out, name, scenario)
        _check_unchanged(directory, described(scenario))
        if not is_done(scenario, read_results(directory / "result.json")):
            open_ones[directory] = scenario
    if open_ones:
        train_stack(list(open_ones.values()), list(open_ones), tell)
    runs = []
    for scenario in scenarios:
        directory = _directory(out, name, scenario)
        runs.append(Run(directory.name, described(scenario), read_results(directory / "result.json")))
    return runs


def _directory(out: Path, name: str, scenario: Scenario) -> Path:
    return out / name / f"seed_{scenario.seed}"


def _names(sources: Sequence[str]) -> list[str]:
    """Short names of the entrants; a second one of the same name gets a number."""
    names: list[str] = []
    for source in sources:
        path = real_path(Path(source).expanduser())
        words = path.name
        if _is_scenario(path):  # only then: a folder may have a dot in its name (lr_0.1), which is no suffix
            words = path.stem
        base = safe_name(words, empty="run")
        earlier = [name for name in names if name == base or name.startswith(f"{base}_no_")]
        if earlier:
            base = f"{base}_no_{len(earlier) + 1}"
        names.append(base)
    return names


def scenario_of(file: Path, changes: Sequence[str]) -> dict[str, Any]:
    """A scenario whose runs all get the same budget: none ends early because its goal is met."""
    raw = read_yaml(file)
    raw.setdefault("name", file.stem)
    for text in changes:
        apply(raw, *parse_set(text))
    stop = dict(raw.get("stop") or {})
    stop.pop("goal", None)
    if not stop.keys() & set(BUDGETS):
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
    if not is_done(scenario, results):
        _go(scenario, directory, display or Quiet())
        results = read_results(directory / "result.json")
    return Run(directory.name, wanted, results)


def is_done(scenario: Scenario, results: Sequence[Mapping[str, Any]]) -> bool:
    """Whether these results end with a stop condition of the scenario."""
    last = results[-1] if results else {}
    # Any of them: a run ends with the first stop condition that is met.
    return any(reached(last, {field: float(value)}) for field, value in scenario.stop.items())


def _check_unchanged(directory: Path, wanted: Mapping[str, Any]) -> None:
    """What is there already must be a run of the same scenario."""
    there = read_params(directory)
    if not there:
        return
    # What a resumed run may change freely, but measurements have to be the same in all runs of a comparison.
    changed = different(there, wanted, FREE - {"evaluation", "exploitability"})
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
    runs, dropped = _newest_by_seed(path)
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


def _newest_by_seed(folder: Path) -> tuple[dict[int, Run], list[str]]:
    """The runs that have results, and the names of older runs whose seed was trained again."""
    runs: dict[int, Run] = {}
    dropped: list[str] = []
    for directory in find_runs(folder):  # oldest first
        results, params = read_results(directory / "result.json"), read_params(directory)
        if not results or not params:
            continue
        seed = int(params.get("seed", 0))
        if seed in runs:
            dropped.append(runs[seed].name)
        runs[seed] = Run(directory.name, params, results)
    return runs, dropped


def _notes(name: str, dropped: Sequence[str]) -> list[str]:
    if not dropped:
        return []
    more = f" and {len(dropped) - MOST} more" if len(dropped) > MOST else ""
    return [f"{name}: of several runs with one seed the newest counts; left out: {', '.join(dropped[:MOST])}{more}"]


def read_params(directory: Path) -> dict[str, Any]:
    try:
        found = read_json(directory / "params.json")
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    # A key that is younger than the run is no difference: the run did what its default says, or what was done before.
    return with_new_keys(as_it_ran(with_current_names(found)))


def different(a: Mapping[str, Any], b: Mapping[str, Any], free: Collection[str] = FREE) -> list[Difference]:
    """The keys in which two runs differ, besides their seed and sections that change no numbers."""
    ignored = {*free, "seed"}
    return [one for one in differences(a, b) if one.key.partition(".")[0] not in ignored]
