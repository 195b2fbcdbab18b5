"""How a search is made: the section ``tune`` of a file, and the keywords of ``marl.tune.run``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    field_validator,
)

from marl.config import Config, explain
from marl.needs import declare, given, needs, not_given, one_of

ASHA = declare(needs(one_of("scheduler", "asha")))
PBT = declare(needs(one_of("scheduler", "pbt")))
COUNTED = declare(needs(one_of("scheduler", "asha", "pbt", "schedule")))
RESOURCES = ("cpu", "gpu", "extra_cpu", "extra_gpu")
Bundles: TypeAlias = list[dict[str, NonNegativeFloat]]
"""Ray's way to ask: what each process of a trial needs, the one that learns first."""


class ScheduleEntry(Config):
    """From one moment on, these values."""

    at: NonNegativeFloat = Field(description="When, in units of time_attr; 0 is the beginning.")
    values: dict[str, Any] = Field(min_length=1, description="Dotted keys and their values from then on.")


class TuneConfig(Config):
    """Trials, how they are judged, which of them may go on, and what each may use."""

    num_samples: PositiveInt = Field(
        1, description="Trials per point of the grid. Trials of sample k have the run's seed plus k."
    )
    metric: str | None = Field(
        None,
        description="Result field that trials are compared by. Default: the evaluation's metric, or episode_reward_mean "
        "without evaluation.",
    )
    mode: Literal["max", "min"] | None = Field(
        None,
        description="Whether more (max) or less (min) is better. Default: max, but min for distances to equilibrium.",
    )
    scheduler: Literal["fifo", "asha", "pbt", "schedule"] = Field(
        "fifo",
        description="fifo: every trial runs to its end. asha: trials that are behind at the same point of the budget are "
        "stopped there (asynchronous successive halving). pbt: trials that are behind copy one that is ahead and change its "
        "values (population based training). schedule: every trial changes its values as `schedule` says.",
        json_schema_extra=declare(
            needs(given("mutations"), when=("pbt",)),
            needs(given("schedule"), when=("schedule",)),
        ),
    )
    time_attr: str | None = Field(
        None,
        description="Result field that measures the budget; its value in `stop` is all of it. Default: the first of "
        "timesteps_total, training_iteration, episodes_total, time_total_s that `stop` has.",
        json_schema_extra=COUNTED,
    )
    grace_period: PositiveFloat | None = Field(
        None,
        description="No trial is stopped before, in units of time_attr. Default: the budget divided by "
        "reduction_factor twice.",
        json_schema_extra=ASHA,
    )
    reduction_factor: float = Field(
        3.0,
        gt=1,
        description="At each rung about one of so many trials goes on; rungs are so many times apart.",
        json_schema_extra=ASHA,
    )
    perturbation_interval: PositiveFloat | None = Field(
        None,
        description="After each such interval, in units of time_attr, trials are compared and those behind copy. Default: a "
        "tenth of the budget.",
        json_schema_extra=PBT,
    )
    mutations: dict[str, dict[str, Any]] = Field(
        {},
        description="Keys that trials change, by dotted name, and what they may become: {choice: [...]}, {uniform: [a, b]}, "
        "{loguniform: [a, b]} or {randint: [a, b]}. A key that the scenario does not give begins with a draw.",
        json_schema_extra=PBT,
    )
    quantile_fraction: float = Field(
        0.25,
        gt=0,
        le=0.5,
        description="This share of the trials, the worst, copies from as many of the best.",
        json_schema_extra=PBT,
    )
    resample_probability: float = Field(
        0.25,
        ge=0,
        le=1,
        description="Chance that a copied value is drawn anew from its mutation; otherwise it is changed a little.",
        json_schema_extra=PBT,
    )
    perturbation_factors: list[PositiveFloat] = Field(
        [0.8, 1.2],
        min_length=1,
        description="A number is changed a little by one of these factors; of a choice its neighbour in the list is taken.",
        json_schema_extra=PBT,
    )
    schedule: list[ScheduleEntry] = Field(
        [],
        description="Values by time, such as [{at: 0, values: {lr: 0.01}}, {at: 5000, values: {lr: 0.001}}]; `at` in units of "
        "time_attr. pbt writes the one that it found to schedule.yaml.",
        json_schema_extra=declare(needs(one_of("scheduler", "schedule"))),
    )
    stacked: bool = Field(
        False,
        description="Train in this process, without Ray: trials that differ in lr and seed alone are one stack, whose updates "
        "are computed together; stacks come one after the other.",
        json_schema_extra=declare(
            needs(one_of("scheduler", "fifo", "pbt", "schedule"), why="trials of a stack go on together"),
            needs(one_of("max_failures", 0), why="a trial that fails leaves its stack"),
            needs(not_given("resources_per_trial"), why="all trials share one process"),
        ),
    )
    max_concurrent_trials: PositiveInt | None = Field(
        None, description="Trials at the same time at most. Default: as many as the resources allow."
    )
    max_failures: NonNegativeInt = Field(
        0,
        description="How often a failed trial is started again, from its last checkpoint.",
        json_schema_extra=declare(
            needs(one_of("scheduler", "fifo", "asha"), why="a trial that fails leaves its population")
        ),
    )
    resources_per_trial: dict[str, NonNegativeFloat | Callable[..., Any]] | Bundles | Callable[..., Any] | None = Field(
        None,
        description="CPUs and GPUs of one trial: cpu and gpu for the learner's process, extra_cpu and extra_gpu for its "
        "workers; or a list of what each process gets, the learner's first: [{CPU: 1}, {CPU: 1}]. In Python also functions "
        "of spec, which knows spec.config, and a PlacementGroupFactory. Default: what the trial's keys ask for.",
    )

    @field_validator("resources_per_trial", mode="before")
    @classmethod
    def _plain_bundles(cls, value: Any) -> Any:
        """A ``PlacementGroupFactory``, a list or a tuple as the list of its bundles."""
        bundles = getattr(value, "bundles", value)
        if not isinstance(bundles, list | tuple):
            return value
        if not bundles or not all(_is_bundle(bundle) for bundle in bundles):
            raise ValueError(
                f"expected what each process gets, such as [{{'CPU': 1}}, {{'CPU': 1}}], or {{'cpu': 1, 'gpu': 0.2}}, but "
                f"got {value!r}"
            )
        return list(bundles)

    @field_validator("resources_per_trial")
    @classmethod
    def _known_resources(cls, value: Any) -> Any:
        if not isinstance(value, dict):  # bundles, or a function, which is asked when the keys of a trial are known
            return value
        for name in value:
            if name not in RESOURCES:
                raise ValueError(f"unknown resource {name!r}. Known: {', '.join(RESOURCES)}")
        return value


def _is_bundle(bundle: object) -> bool:
    """Whether it maps names of resources to amounts."""
    if not isinstance(bundle, Mapping):
        return False
    for name, amount in bundle.items():
        if not isinstance(name, str):
            return False
        if not isinstance(amount, int | float) or amount < 0:
            return False
    return True


def tune_config(keys: dict[str, Any], where: str) -> TuneConfig:
    """Checked keys; mistakes are told by name."""
    try:
        return TuneConfig(**keys)
    except ValidationError as error:
        raise explain(error, f"{where}: tune", TuneConfig.model_fields) from None
