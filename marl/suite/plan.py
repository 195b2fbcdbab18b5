"""Every cell resolved and checked before the first one is trained, and what is still to be done of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from marl.analysis.compare.keys import told
from marl.analysis.compare.runs import check_metric, described, different, is_done, read_params
from marl.analysis.report.curves import read_results
from marl.errors import ConfigError, UserError
from marl.runs.directories import default_results
from marl.runs.files import safe_name
from marl.scenario.config import Scenario
from marl.scenario.load import compose
from marl.scenario.resolve import Setup, resolve
from marl.suite.config import Suite
from marl.suite.early_stop import held_since
from marl.suite.load import Cell, LoadedSuite
from marl.training.build import check_fields, check_stacks
from marl.training.memory_estimate import check_memory

EVALUATION = "evaluation."
MAY_CHANGE = frozenset(
    {
        "name", "stop", "goal", "checkpoint_freq", "keep_checkpoints", "keep_resumable", "pool", "address", "ray_num_cpus",
        "num_cpus_per_worker", "num_gpus_per_worker", "custom_resources_per_worker", "recreate_failed_workers",
        "env_timeout_s", "device", "num_gpus", "torch_threads", "imports", "loggers", "log_sys_usage", "log_level", "output",
        "create_env_on_driver", "record_env", "render_env",
    }
)  # fmt: skip
"""Keys that change no number of a run. A run that is resumed may change others too (``load``, step sizes); a cell may not."""


@dataclass(frozen=True)
class PlannedCell:
    """A cell that can be trained: its scenario by seed, and where its runs are."""

    cell: Cell
    raw: dict[str, Any]  # the scenario without its seed
    folder: Path

    @cached_property
    def scenarios(self) -> dict[int, Scenario]:
        return {seed: self.scenario(seed) for seed in self.cell.seeds}

    def scenario(self, seed: int) -> Scenario:
        return compose({**self.raw, "seed": seed}, self.cell.name)

    @property
    def stacked(self) -> bool:
        return bool(self.raw["stacked"])

    def directory(self, seed: int) -> Path:
        return self.folder / f"seed_{seed}"

    def open_seeds(self) -> list[int]:
        """Seeds whose runs have neither their budget nor held their goal."""
        return [seed for seed in self.cell.seeds if not self.is_done(seed)]

    def is_done(self, seed: int) -> bool:
        results = read_results(self.directory(seed) / "result.json")
        if is_done(self.scenarios[seed], results):
            return True
        rule = self.cell.early_stop
        return rule is not None and held_since(results, self.cell.metric, rule) is not None

    def changed(self) -> str:
        """In which keys runs that are there differ from what the file says now; empty: in none."""
        for seed, scenario in self.scenarios.items():
            there = read_params(self.directory(seed))
            if there:
                found = different(there, described(scenario), MAY_CHANGE)
                if found:
                    return told(found, "there", "now")
        return ""


@dataclass(frozen=True)
class Plan:
    """A suite that can be trained; ``cells`` are those that are not excluded, in the order of the file."""

    loaded: LoadedSuite
    folder: Path
    cells: Sequence[PlannedCell]
    unresolved: Mapping[str, str]  # cells that were not asked for and cannot be run, and why

    @property
    def config(self) -> Suite:
        return self.loaded.config

    def find(self, cell: Cell) -> PlannedCell | None:
        return next((planned for planned in self.cells if planned.cell is cell), None)


def folder_of(config: Suite, out: Path | None) -> Path:
    """Where everything of a suite goes."""
    if out is not None:
        return out.expanduser()
    return default_results() / f"suite_{safe_name(config.suite)}"


def plan_suite(loaded: LoadedSuite, out: Path | None = None, only: Sequence[str] = ()) -> Plan:
    """Resolve all cells; one error tells what is wrong with each that cannot be trained.

    ``only``: names of the cells that are to be trained (``--only``); default: all. Others need not be in order.
    """
    folder = folder_of(loaded.config, out)
    cells: list[PlannedCell] = []
    problems: dict[str, str] = {}
    for cell in loaded.cells:
        if cell.excluded:
            continue
        try:
            cells.append(_planned(loaded.config, cell, folder))
        except UserError as error:
            # Without the name in front of every line, equal mistakes of several cells are told once.
            problems[cell.name] = str(error).replace(f", {cell.name}: ", ": ").replace(f"{cell.name}: ", "")
    wanted = {name: error for name, error in problems.items() if not only or name in only}
    if wanted:
        raise _cannot_be_run(loaded, wanted)
    return Plan(loaded, folder, cells, problems)


def _cannot_be_run(loaded: LoadedSuite, problems: Mapping[str, str]) -> ConfigError:
    """Every problem once, with the cells that have it."""
    cells: dict[str, list[str]] = {}
    for name, error in problems.items():
        cells.setdefault(error, []).append(name)
    total = sum(1 for cell in loaded.cells if not cell.excluded)
    head = (
        f"{loaded.file}: {len(problems)} of {total} cells cannot be run, so nothing was begun. Mend them, or name them under "
        "`exclude` with a reason:"
    )
    return ConfigError("\n".join([head, *[f"{', '.join(names)}: {error}" for error, names in cells.items()]]))


def _planned(config: Suite, cell: Cell, folder: Path) -> PlannedCell:
    """The cell's scenario, resolved once: seeds change neither envs nor the fields of results."""
    raw = raw_of(cell)
    scenario = compose({**raw, "seed": cell.seeds[0]}, cell.name)
    setup = resolve(scenario)
    policies = list(setup.policies)
    check_metric(cell.name, scenario, policies, cell.metric, "metric")  # first: the goal is one of the metric
    check_fields(scenario, policies)
    raw["stacked"] = _stacks(config, cell, raw, setup)
    return PlannedCell(cell, raw, folder / cell.folder)


def raw_of(cell: Cell) -> dict[str, Any]:
    """The cell's scenario without a seed, not yet checked."""
    if cell.budget is None:
        raise ConfigError("it has no budget. Give `budget`, env steps per run, to the suite, the env or the algorithm.")
    if not cell.seeds or len(set(cell.seeds)) < len(cell.seeds):
        raise ConfigError(f"its seeds are {list(cell.seeds)}; expected at least one, and each once.")
    raw = dict(cell.keys)
    if "goal" in raw:
        raise ConfigError("scenario.goal cannot be given: the suite's own `goal` is a number of its metric.")
    raw |= {"name": f"{cell.env}_{cell.algo}", "stop": {"timesteps_total": cell.budget}}
    if cell.goal is not None:
        raw["goal"] = {cell.metric: cell.goal}
    if cell.metric.startswith(EVALUATION):
        # The best checkpoint is the one that is best by what the table shows.
        judged = {"metric": cell.metric.removeprefix(EVALUATION)}
        given = raw.get("evaluation") or {}
        raw["evaluation"] = {**judged, **given} if isinstance(given, Mapping) else given
    return raw


def _stacks(config: Suite, cell: Cell, raw: dict[str, Any], setup: Setup) -> bool:
    """Whether the seeds are trained together. Said by the key alone where it is auto: not by how many seeds there are, so
    that more of them can be added later."""
    if config.stacked is False:
        return False
    try:
        compose({**raw, "seed": cell.seeds[0], "stacked": True}, cell.name)
        check_stacks(setup)
        check_memory(setup, len(cell.seeds))
    except UserError:
        if config.stacked is True:
            raise
        return False
    return True


def check_unchanged(cells: Sequence[PlannedCell]) -> None:
    """Refuse to mix runs of other keys into a cell."""
    problems = []
    for planned in cells:
        changed = planned.changed()
        if changed:
            problems.append(f"{planned.cell.name}: {planned.folder} holds runs with other keys: {changed}.")
    if problems:
        raise ConfigError(
            "\n".join(["the file has changed since these cells were begun:", *problems])
            + "\nGive --again to train them anew (what is there is moved to the folder `replaced`), or another --out."
        )


def put_aside(cells: Sequence[PlannedCell], suite_folder: Path) -> list[str]:
    """Move cells whose keys have changed to ``replaced``; returns their names."""
    moved = []
    for planned in cells:
        if not planned.changed():
            continue
        place = suite_folder / "replaced" / planned.cell.folder
        number = 1
        while place.with_name(f"{place.name}_{number}").exists():
            number += 1
        place = place.with_name(f"{place.name}_{number}")
        place.parent.mkdir(parents=True, exist_ok=True)
        planned.folder.rename(place)
        moved.append(planned.cell.name)
    return moved
