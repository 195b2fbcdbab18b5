"""What trials are compared by, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from marl.errors import ConfigError
from marl.runs.result import SMALLER_IS_BETTER, look_up
from marl.scenario.config import Scenario
from marl.tune.config import TuneConfig

CLOCKS: tuple[str, ...] = ("timesteps_total", "training_iteration", "episodes_total", "time_total_s")


@dataclass(frozen=True)
class Objective:
    """A result field, and whether more of it is better. ``keeps_best``: the checkpoint ``best`` is chosen by it too.

    The score of a trial is the newest value of the field, which is what its newest checkpoint plays; where ``best`` is
    chosen by the field, it is the largest value, which is what ``best`` plays.
    """

    metric: str
    mode: str = "max"
    keeps_best: bool = False

    @property
    def sign(self) -> float:
        if self.mode == "min":
            return -1.0
        return 1.0

    def value(self, result: Mapping[str, Any]) -> float | None:
        return look_up(result, self.metric)

    def scored(self, results: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        """The result that stands for a trial; None before there is one with the field."""
        score, scored = None, None
        for result in results:
            value = self.value(result)
            if value is None:
                continue
            is_worse = score is not None and value <= score
            if self.keeps_best and is_worse:
                continue  # of equal ones the first: it is the one at which `best` was written
            score, scored = value, result
        return scored

    def after(self, score: float | None, result: Mapping[str, Any]) -> float | None:
        """The score once one more result is there; results without the field (no evaluation was due) change nothing."""
        value = self.value(result)
        if value is None:
            return score
        if self.keeps_best and score is not None and score > value:
            return score
        return value


@dataclass(frozen=True)
class Halving:
    """Rungs of asynchronous successive halving: ``grace_period`` times powers of ``reduction_factor``, in units of
    ``clock``, up to ``budget``."""

    clock: str
    budget: float
    grace_period: float
    reduction_factor: float


def dotted(field: str) -> str:
    """``policy_reward_mean/pol1`` is another way to write ``policy_reward_mean.pol1``."""
    return field.replace("/", ".")


def make_objective(config: TuneConfig, scenario: Scenario | None) -> Objective:
    """The field that was asked for, else what the scenario is evaluated by."""
    best = None  # what the checkpoint `best` of a trial is chosen by
    if scenario is not None and scenario.evaluation.interval > 0:
        best = f"evaluation.{scenario.evaluation.metric}"
    metric = best or "episode_reward_mean"
    if config.metric:
        metric = dotted(config.metric)
    mode = config.mode or better(metric)
    return Objective(metric, mode, keeps_best=metric == best and mode == "max")


def better(metric: str) -> str:
    """Which way a field is better, where nobody says: distances to an equilibrium should be small, rewards large."""
    if metric in SMALLER_IS_BETTER:
        return "min"
    return "max"


def make_halving(config: TuneConfig, stop: Mapping[str, float | bool]) -> Halving | None:
    """None for a scheduler that lets every trial run to its end."""
    if config.scheduler != "asha":
        return None
    clock = _clock_of(config, stop)
    budget, factor = float(stop[clock]), config.reduction_factor
    grace = config.grace_period
    if grace is None:
        # Two rungs before the end; what is counted in whole numbers begins at 1.
        grace = budget / factor**2
        if clock != "time_total_s":
            grace = max(grace, 1.0)
    if grace > budget:
        raise ConfigError(f"tune: grace_period is {grace:g} {clock}, but trials end at {budget:g}. Give less.")
    return Halving(clock, budget, grace, factor)


def _clock_of(config: TuneConfig, stop: Mapping[str, float | bool]) -> str:
    """The field by which trials are as long as each other."""
    wanted = CLOCKS
    missing = "budget"
    if config.time_attr:
        missing = dotted(config.time_attr)
        wanted = (missing,)
    for clock in wanted:
        if clock in stop:
            return clock
    raise ConfigError(
        f"asha has to know how long a trial may be, but stop has no {missing}. Give one, for instance stop: "
        "{timesteps_total: 100000}."
    )
