"""From the keys of a search to who decides between its generations: one maker per scheduler that plays in generations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from marl.errors import ConfigError, did_you_mean
from marl.scenario.load import sort_keys
from marl.scenario.search_marks import find_marks
from marl.tune.config import TuneConfig
from marl.tune.mutations import (
    Values,
    check_changes,
    check_searched,
    path_of,
    read_mutations,
    value_at,
    with_marks,
    with_values,
)
from marl.tune.objective import CLOCKS, dotted
from marl.tune.population import Decider, Exploitation, Following
from marl.tune.search import short_names

Keys = Mapping[str, Any]
Stop = Mapping[str, float | bool]


@dataclass(frozen=True)
class Population:
    """Trials that train in generations. ``names``: how the keys that change are called among a trial's params."""

    decider: Decider
    names: dict[str, str] = field(default_factory=dict)
    copying: bool = False  # whether trials copy each other, or each changes its values by itself

    def values_in(self, config: Keys) -> Values:
        """What the keys that change are in the keys of a trial."""
        sections = sort_keys(config)
        return {key: value_at(sections, key.split(".")) for key in self.names}


@dataclass(frozen=True)
class Prepared:
    """The keys of a search, each value that a trial may come to, and the population that makes it so."""

    keys: Keys
    population: Population | None = None
    to_come: list[Values] = field(default_factory=list)

    @property
    def copying(self) -> bool:
        return self.population is not None and self.population.copying

    def checked_configs(self, config: Keys) -> Iterator[dict[str, Any]]:
        """Keys of a trial with every value that it may come to, one after the other."""
        for values in self.to_come:
            yield with_values(config, values)


def prepare(options: TuneConfig, keys: Keys, stop: Stop, seed: int) -> Prepared:
    """Keys of other schedulers stay as they are."""
    maker = MAKERS.get(options.scheduler)
    if maker is None or not isinstance(stop, Mapping):  # composing the scenarios says what is wrong with such a stop
        return Prepared(keys)
    return maker(options, keys, stop, seed)


def check_can_copy(options: TuneConfig) -> None:
    """A training function of the user's own trains as it likes: nobody could stop it, or begin it with other weights."""
    if options.scheduler in MAKERS:
        raise ConfigError(
            f"tune: scheduler: {options.scheduler} changes trials of an algorithm while they train; a training function of "
            "your own does its own training. Use scheduler: asha or fifo."
        )


def _exploitation(options: TuneConfig, keys: Keys, stop: Stop, seed: int) -> Prepared:
    mutations = read_mutations(options.mutations, keys)
    check_searched(keys, mutations)
    marked = with_marks(keys, mutations)
    clock = _clock(options, stop)
    decider = Exploitation(
        clock,
        _interval(options, clock, stop),
        tuple(mutations),
        options.quantile_fraction,
        options.resample_probability,
        tuple(options.perturbation_factors),
        seed,
    )
    names = _names(marked, [mutation.key for mutation in mutations])
    to_come = []
    for mutation in mutations:
        to_come += [{mutation.key: value} for value in mutation.extremes]
    return Prepared(marked, Population(decider, names, copying=True), to_come)


def _following(options: TuneConfig, keys: Keys, stop: Stop, _: int) -> Prepared:
    times: list[float] = []
    steps: list[Values] = []
    values: Values = {}  # from each entry on, with what earlier ones have set
    for entry in options.schedule:
        if times and entry.at <= times[-1]:
            raise ConfigError(f"tune: schedule: {entry.at:g} comes after {times[-1]:g}; expected growing times.")
        for key, value in entry.values.items():
            path = path_of(key)
            check_changes(key, path, keys)
            values = {**values, ".".join(path): value}
        times.append(entry.at)
        steps.append(values)
    if times[0] == 0:  # what counts from the beginning is a key like any other
        keys = with_values(keys, steps[0])
        times, steps = times[1:], steps[1:]
    decider = Following(_clock(options, stop), tuple(times), tuple(steps))
    return Prepared(keys, Population(decider, _names(keys, list(values))), list(steps))


MAKERS: dict[str, Callable[[TuneConfig, Keys, Stop, int], Prepared]] = {"pbt": _exploitation, "schedule": _following}


def _names(keys: Keys, changing: list[str]) -> dict[str, str]:
    """Short names of the keys that change, beside those that are searched."""
    paths = [mark.path for mark in find_marks(keys)]
    for key in changing:
        if tuple(key.split(".")) not in paths:
            paths.append(tuple(key.split(".")))
    names = short_names(paths)
    return {key: names[tuple(key.split("."))] for key in changing}


def _clock(options: TuneConfig, stop: Stop) -> str:
    """What the lengths of generations are counted in."""
    if options.time_attr is not None:
        clock = dotted(options.time_attr)
        if clock not in CLOCKS:  # any other field may stand still, and then no generation would end
            raise ConfigError(
                f"tune: time_attr is {clock!r}; expected one of {', '.join(CLOCKS)}.{did_you_mean(clock, CLOCKS)}"
            )
        return clock
    for clock in CLOCKS:
        if clock in stop:
            return clock
    return CLOCKS[0]


def _interval(options: TuneConfig, clock: str, stop: Stop) -> float:
    interval = options.perturbation_interval
    budget = stop.get(clock)
    if interval is None and budget is None:
        raise ConfigError(f"tune: pbt has to know how long a generation is. Give perturbation_interval, in {clock}.")
    if interval is None:
        interval = float(budget or 0) / 10
        if clock != "time_total_s":  # what is counted in whole numbers begins at 1
            interval = max(interval, 1.0)
    if budget is not None and interval >= float(budget):
        raise ConfigError(
            f"tune: perturbation_interval is {interval:g} {clock}, but trials end at {float(budget):g}, so none would ever "
            "copy another one. Give less."
        )
    return interval
