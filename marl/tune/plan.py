"""What will be tried: every trial with its keys, its directory and what it asks Ray for, before any of them starts."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from marl.errors import CheckpointError, ConfigError
from marl.runs.files import make_new_folder, run_name, safe_name, to_plain
from marl.runs.result import check_field
from marl.scenario.config import Scenario
from marl.scenario.describe import describe
from marl.scenario.load import compose
from marl.scenario.resolve import resolve
from marl.training.build import check_fields
from marl.trust import Trust, current
from marl.tune.config import TuneConfig
from marl.tune.deciders import Population, check_can_copy, prepare
from marl.tune.objective import Halving, Objective, dotted, make_halving, make_objective
from marl.tune.resources import Bundle, request
from marl.tune.search import Variant, variants


@dataclass(frozen=True)
class Planned:
    """One trial."""

    index: int
    trial_id: str
    directory: Path
    params: dict[str, Any]
    config: dict[str, Any]
    bundles: list[Bundle] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """All trials of a search. Without a ``function`` each of them is a scenario."""

    trials: list[Planned]
    options: TuneConfig
    objective: Objective
    halving: Halving | None
    stop: dict[str, float | bool]
    function: Callable[..., Any] | None = None
    address: str | None = None  # of a Ray cluster
    num_cpus: int | None = None  # of a Ray that is started for the search
    trust: Trust | None = None  # in the file that all of this comes from; None: the user wrote it
    population: Population | None = None  # of trials that train in generations

    @property
    def clock(self) -> str:
        if self.halving is not None:
            return self.halving.clock
        if self.population is not None:
            return self.population.decider.clock
        return "training_iteration"


def plan_scenarios(keys: Mapping[str, Any], options: TuneConfig, where: str) -> Plan:
    """Trials of an algorithm; every one of them is checked against its env."""
    keys = _complete(keys, options)
    prepared = prepare(options, keys, keys["stop"], _seed_in(keys))
    found = variants(prepared.keys, options.num_samples, _seed_in(keys), one_seed_each=prepared.copying)
    scenarios = [compose(variant.config, f"{where}, {_told(variant)}") for variant in found]
    first = scenarios[0]
    objective = make_objective(options, first)
    # All of them before the first one starts: hours later nobody wants to hear of a typo.
    for scenario in scenarios:
        _check(scenario, objective)
    for config in prepared.checked_configs(found[0].config):
        compose(config, f"{where}, values to come")
    now, tag = datetime.now(), secrets.token_hex(3)[:5]
    trials = []
    for index, (variant, scenario) in enumerate(zip(found, scenarios, strict=True)):
        # Where nothing is searched there is one trial, which is named by its seed.
        params = variant.params or {"seed": scenario.seed}
        name = run_name(scenario.preset.name, _env_name(scenario), tag, index, params, now)
        described = describe(scenario)
        bundles = request(options.resources_per_trial, scenario, {**described, **described["algo"]})
        trials.append(Planned(index, f"{tag}_{index:05d}", Path(name), params, variant.config, bundles))
    halving = make_halving(options, first.stop)
    _check_population(prepared.population, trials)
    return Plan(
        trials, options, objective, halving, dict(first.stop), None, first.address, first.ray_num_cpus, current(),
        prepared.population,
    )  # fmt: skip


def _check_population(population: Population | None, trials: Sequence[Planned]) -> None:
    """Whether there is somebody to copy, and any place fits any trial."""
    if population is None:
        return
    if population.copying and len(trials) < 2:
        raise ConfigError(
            "tune: pbt needs at least two trials, but there is one. Give num_samples: 8, or a grid_search over one of the "
            "mutations."
        )
    if any(trial.bundles != trials[0].bundles for trial in trials):
        raise ConfigError("tune: trials of a population take turns, so resources_per_trial must be the same for all.")


def _complete(keys: Mapping[str, Any], options: TuneConfig) -> dict[str, Any]:
    """The keys with stop conditions under the names of result fields, and with what the options say of trials."""
    stop = keys.get("stop") or {}
    if not stop:
        raise ConfigError("when should a trial stop? Give stop, for instance stop: {timesteps_total: 100000}.")
    if isinstance(stop, Mapping):  # else composing the scenarios says what is wrong with it
        stop = {dotted(field): value for field, value in stop.items()}
    completed = {**keys, "stop": stop}
    if options.stacked:
        completed["stacked"] = True
    return completed


def _env_name(scenario: Scenario) -> str:
    if isinstance(scenario.env, str):
        return scenario.env
    return getattr(scenario.env, "__name__", "env")


def _seed_in(keys: Mapping[str, Any]) -> int:
    """From which draws and the seeds of samples begin; 0 where the seed itself is searched."""
    seed = keys.get("seed", 0)
    if not isinstance(seed, int):
        return 0
    return seed


def plan_functions(
    function: Callable[..., Any], config: Mapping[str, Any], stop: Mapping[str, float | bool], options: TuneConfig
) -> Plan:
    """Trials of a user's own training function. Only a config that has a seed gets seeds of its own."""
    check_can_copy(options)
    stop = {dotted(name): value for name, value in stop.items()}
    found = variants(config, options.num_samples, _seed_in(config), seeded="seed" in config)
    now, tag = datetime.now(), secrets.token_hex(3)[:5]
    trials = []
    for index, variant in enumerate(found):
        name = run_name(function_name(function), str(config.get("env", "function")), tag, index, variant.params, now)
        bundles = request(options.resources_per_trial, None, variant.config)
        trials.append(Planned(index, f"{tag}_{index:05d}", Path(name), variant.params, variant.config, bundles))
    return Plan(trials, options, make_objective(options, None), make_halving(options, stop), stop, function)


def function_name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def new_experiment(local_dir: Path, name: str) -> Path:
    """A new ``local_dir/NAME_tune_DATE``: the folder that all trials of a search go into."""
    stem = f"{safe_name(name, empty='search')[:40]}_tune_{datetime.now():%Y-%m-%d_%H-%M-%S}"
    try:
        return make_new_folder(local_dir.expanduser() / stem)
    except OSError as error:
        raise ConfigError(
            f"cannot create a folder in {local_dir}: {error.strerror}. Choose another place with --local-dir or "
            "MARL_RESULTS_DIR."
        ) from error


def as_before(trials: Sequence[Planned], stored: Sequence[Mapping[str, Any]], where: Path) -> list[Planned]:
    """The trials under the names that they had when the search began; refused where it is another search."""
    # Compared as a file holds them: tuples are lists there.
    params = [to_plain(trial.params) for trial in trials]
    if params != [row["params"] for row in stored]:
        raise CheckpointError(
            f"{where} is another search: it has {len(stored)} trials, of which the first is {stored[0]['params']}; this one "
            f"has {len(trials)}, and the first is {params[0]}. Give the same keys, or start anew without resume."
        )
    named = []
    for trial, row in zip(trials, stored, strict=True):
        directory = Path(row["directory"])
        named.append(Planned(trial.index, row["trial_id"], directory, trial.params, trial.config, trial.bundles))
    return named


def _check(scenario: Scenario, objective: Objective) -> None:
    """Whatever a trial's own start would refuse, before any trial starts."""
    policies = list(resolve(scenario).policies)
    check_fields(scenario, policies)
    check_field(objective.metric, policies, "metric")
    if objective.metric.startswith("evaluation.") and not scenario.evaluation.interval:
        raise ConfigError(
            f"metric: {objective.metric} needs evaluations, but evaluation.interval is 0. Set it to 1 or more."
        )


def _told(variant: Variant) -> str:
    values = ", ".join(f"{name}={value}" for name, value in variant.params.items())
    if not values:
        return "trial"
    return f"trial with {values}"
