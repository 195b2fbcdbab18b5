"""From a suite file to its cells: which keys each cell has, before anything of it is resolved.

A cell's scenario is put together from four places, of which the later ones win: ``scenario`` of the suite, the env's entry,
the algorithm's entry, the cell's own entry. ``algo``, ``model``, ``evaluation`` and ``multiagent`` are merged key by key, as
``--set`` does.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from marl.config import explain
from marl.errors import ConfigError, did_you_mean
from marl.inputs import read_text
from marl.runs.files import safe_name
from marl.scenario.load import LARGEST_FILE, apply, section_of
from marl.scenario.yaml_text import parse_yaml
from marl.suite.config import CellEntry, EarlyStop, Entry, EnvEntry, Published, Suite, seeds_in

# Keys of a scenario that the suite decides, and how it is said here.
DECIDED = {
    "seed": "`seeds` says which seeds there are",
    "stop": "`budget` says how many env steps a run has, and early_stop whether it may end before",
    "stacked": "`stacked` of the suite says how seeds are trained",
    "name": "a cell is named after its env and algorithm",
}
T = TypeVar("T", bound=Entry)


@dataclass(frozen=True)
class Rule:
    """When a run may end before its budget."""

    goal: float
    in_a_row: int


@dataclass(frozen=True)
class Cell:
    """One env with one algorithm, as the file says it."""

    env: str
    algo: str
    metric: str
    keys: Mapping[str, Any]  # of its scenario, without seed and stop
    seeds: Sequence[int]
    budget: int | None
    goal: float | None
    early_stop: Rule | None
    published: Published | None
    tried: int | None
    notes: Sequence[str]
    excluded: str = ""  # the reason

    @property
    def name(self) -> str:
        return f"{self.env}/{self.algo}"

    @property
    def folder(self) -> Path:
        """Below the folder of the suite."""
        return Path(safe_name(self.env), safe_name(self.algo))


@dataclass(frozen=True)
class LoadedSuite:
    """A file with all its cells, in its order: env by env."""

    file: Path
    config: Suite
    cells: Sequence[Cell]


def load_suite(path: Path) -> LoadedSuite:
    """All cells of a file; what is wrong with names and keys of the suite itself is a ``ConfigError``."""
    path = _file_or_shipped(path)
    try:
        text = read_text(path, largest=LARGEST_FILE)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as a suite: {error}.{_nearest(path)}") from error
    raw = parse_yaml(text, str(path))
    if not isinstance(raw, dict):
        raise ConfigError(f"{path} holds a {type(raw).__name__}; expected keys and values, such as `suite: matrix`.")
    try:
        config = Suite(**{str(key): value for key, value in raw.items()})
    except ValidationError as error:
        raise explain(error, str(path), Suite.model_fields) from None
    for key in DECIDED.keys() & config.scenario.keys():
        raise ConfigError(f"{path}: scenario.{key} cannot be given here: {DECIDED[key]}.")
    envs = _entries(config.envs, EnvEntry, f"{path}: env")
    algos = _entries(config.algos, Entry, f"{path}: algo")
    own = _entries(config.cells, CellEntry, f"{path}: cell")
    _check_names(path, config, envs)
    cells = []
    for env in envs:
        for algo in algos:
            cells.append(_cell(config, (env, envs[env]), (algo, algos[algo]), own.get(f"{env}/{algo}")))
    _check_folders(path, cells)
    return LoadedSuite(path, config, cells)


def shipped_suites() -> dict[str, Path]:
    """Name to file of the suites that come with the package."""
    package = Path(__file__).parents[1]
    folder = package / "suites"
    # As scenarios: a built wheel holds them as marl/suites, a checkout beside marl.
    if not folder.is_dir() and (package.parent / "pyproject.toml").is_file():
        folder = package.parent / "suites"
    return {file.stem: file for file in sorted(folder.glob("*.yaml"))}


def _file_or_shipped(path: Path) -> Path:
    is_bare_name = path.name == str(path) and not path.suffix
    if path.is_file() or not is_bare_name:
        return path
    return shipped_suites().get(path.name, path)


def _nearest(path: Path) -> str:
    nearby = [str(file) for file in sorted(path.parent.glob("*.yaml"))] if path.parent.is_dir() else []
    return did_you_mean(path, [*nearby, *shipped_suites()])


@dataclass(frozen=True)
class _Given:
    """An entry apart: what the suite reads, and keys of a scenario."""

    entry: Any
    keys: Mapping[str, Any]


def _entries(raw: Mapping[str, Mapping[str, Any]], kind: type[Entry], what: str) -> dict[str, _Given]:
    return {name: _apart(keys, kind, f"{what} {name}") for name, keys in raw.items()}


def _apart(raw: Mapping[str, Any], kind: type[T], where: str) -> _Given:
    mine: dict[str, Any] = {}
    keys: dict[str, Any] = {}
    for key, value in raw.items():
        if key in kind.model_fields:
            mine[key] = value
        else:
            _check_scenario_key(str(key), kind, where)
            keys[str(key)] = value
    try:
        return _Given(kind(**mine), keys)
    except ValidationError as error:
        raise explain(error, where, kind.model_fields) from None


def _check_scenario_key(key: str, kind: type[Entry], where: str) -> None:
    """Other unknown keys are refused when the scenario is made; these are about the suite."""
    if key in DECIDED:
        raise ConfigError(f"{where}: {key!r} cannot be given here: {DECIDED[key]}.")
    if "." in key or section_of(key) is not None:
        return
    of_others = [name for other in (EnvEntry, CellEntry) for name in other.model_fields]
    if key in of_others:
        raise ConfigError(
            f"{where}: {key!r} cannot be given here. Known keys: {', '.join(kind.model_fields)}, and those of scenarios."
        )


def _check_names(path: Path, config: Suite, envs: Mapping[str, _Given]) -> None:
    """Every name that is used has to be one that the file defines."""
    names = [f"{env}/{algo}" for env in config.envs for algo in config.algos]
    for cell in config.cells:
        _check_meant(cell, cell in names, names, f"{path}: cells")
    for pattern in config.exclude:
        meant = fnmatch.filter(names, pattern)
        _check_meant(pattern, bool(meant), names, f"{path}: exclude")
    for env, given in envs.items():
        entry = given.entry
        by_algo = {**entry.published, **entry.goals, **entry.budgets}
        _check_algos(by_algo, config, f"{path}: env {env}")


def _check_meant(pattern: str, is_meant: bool, names: Sequence[str], where: str) -> None:
    if not is_meant:
        raise ConfigError(f"{where}: there is no cell {pattern!r}.{did_you_mean(pattern, names)} It is ENV/ALGO.")


def _check_algos(by_algo: Mapping[str, Any], config: Suite, where: str) -> None:
    for algo in by_algo:
        if algo not in config.algos:
            hint = did_you_mean(algo, config.algos)
            raise ConfigError(f"{where}: published, goals, budgets: the suite has no algorithm {algo!r}.{hint}")


def _check_folders(path: Path, cells: Sequence[Cell]) -> None:
    taken: dict[Path, Cell] = {}
    for cell in cells:
        other = taken.setdefault(cell.folder, cell)
        if other is not cell:
            raise ConfigError(
                f"{path}: {other.name} and {cell.name} would share the folder {cell.folder}. Rename one of them."
            )


def _cell(config: Suite, env: tuple[str, _Given], algo: tuple[str, _Given], own: _Given | None) -> Cell:
    own = own or _Given(CellEntry(), {})
    env_name, of_env = env
    algo_name, of_algo = algo
    # The nearest to the cell first.
    entries = [own.entry, of_algo.entry, of_env.entry, config]
    goals = [own.entry.goal, of_env.entry.goals.get(algo_name), of_algo.entry.goal, of_env.entry.goal]
    budgets = [
        own.entry.budget,
        of_env.entry.budgets.get(algo_name),
        of_algo.entry.budget,
        of_env.entry.budget,
        config.budget,
    ]
    goal = _first(goals)
    return Cell(
        env=env_name,
        algo=algo_name,
        metric=of_env.entry.metric or config.metric,
        keys=_scenario_keys(config.scenario, of_env.keys, of_algo.keys, own.keys, algo_name),
        seeds=seeds_in(_first([entry.seeds for entry in entries])),
        budget=_first(budgets),
        goal=goal,
        early_stop=_rule(_first([entry.early_stop for entry in entries]), goal),
        published=own.entry.published or of_env.entry.published.get(algo_name),
        tried=_first([entry.tried for entry in entries[:3]]),
        notes=[entry.note for entry in entries[:3] if entry.note],
        excluded=_reason(config, f"{env_name}/{algo_name}"),
    )


def _first(values: Sequence[Any]) -> Any:
    """The first that was given."""
    return next((value for value in values if value is not None), None)


def _rule(given: EarlyStop | str | None, goal: float | None) -> Rule | None:
    if not isinstance(given, EarlyStop):  # none, or off
        return None
    held = goal if given.goal is None else given.goal
    if held is None:  # nothing to hold: the run has its whole budget
        return None
    return Rule(held, given.in_a_row)


def _reason(config: Suite, name: str) -> str:
    for pattern, reason in config.exclude.items():
        if fnmatch.fnmatchcase(name, pattern):
            return reason
    return ""


def _scenario_keys(*places: Any) -> dict[str, Any]:
    *layers, algo = places
    raw: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            apply(raw, key, value)
    named = raw.get("algo") or {}
    if isinstance(named, dict) and "name" not in named:
        raw["algo"] = {"name": algo, **named}
    return raw


def chosen(cells: Sequence[Cell], only: Sequence[str]) -> list[Cell]:
    """The cells that ``--only`` means: ENV/ALGO with patterns, or the name of an env or an algorithm alone."""
    if not only:
        return list(cells)
    meant: set[str] = set()
    for pattern in only:
        meant |= _meant_by(pattern, cells)
    return [cell for cell in cells if cell.name in meant]


def _meant_by(pattern: str, cells: Sequence[Cell]) -> set[str]:
    """Names of the cells; an error where there is none."""
    found = {cell.name for cell in cells if _means(pattern, cell)}
    if not found:
        raise _no_such_cell(pattern, cells)
    return found


def _no_such_cell(pattern: str, cells: Sequence[Cell]) -> ConfigError:
    known: list[str] = []
    for cell in cells:
        known += [cell.name, cell.env, cell.algo]
    return ConfigError(f"--only {pattern}: no cell is called so.{did_you_mean(pattern, known)} It is ENV/ALGO.")


def _means(pattern: str, cell: Cell) -> bool:
    if "/" in pattern:
        return fnmatch.fnmatchcase(cell.name, pattern)
    return pattern in (cell.env, cell.algo)
