"""How long the parts of an iteration take, by workers and learners (``marl bench learners``).

An iteration collects, turns what was collected into rows, learns, and sends the weights out. Workers shorten the first of
these and learners the third; both cost messages, and no number of workers helps where learning is what takes the time. So
the same work is measured on a grid of both numbers, in a case where collecting dominates and in one where learning does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from pydantic import ValidationError

from marl.algos.presets import ALGOS, Preset
from marl.errors import ConfigError, did_you_mean
from marl.runs.result import Result
from marl.scenario.config import Scenario
from marl.scenario.load import apply, compose, section_of
from marl.training.trainer import Trainer

CASES: dict[str, dict[str, Any]] = {
    "collecting": {
        "num_envs_per_worker": 1, "fcnet_hiddens": [16], "timesteps_per_iteration": 2_048, "train_batch_size": 2_048,
        "sgd_minibatch_size": 2_048, "num_sgd_iter": 1, "learning_starts": 0, "updates_per_step": 1 / 512,
    },
    "learning": {
        "num_envs_per_worker": 64, "fcnet_hiddens": [256, 256], "timesteps_per_iteration": 2_048, "train_batch_size": 2_048,
        "sgd_minibatch_size": 2_048, "num_sgd_iter": 16, "learning_starts": 0, "updates_per_step": 1 / 128,
    },
    "own": {},
}  # fmt: skip
"""What takes most of the time, and the keys that make it so; in the case ``own`` the user's keys decide."""
ACTIVITIES = {"sample": "collecting", "load": "handing batches over", "learn": "learning", "sync": "sending weights"}
HELPS = 1.1  # times as fast; less than that is within what measurements differ by
BUSY = 0.75  # of the CPUs; the load is a mean over a minute, in which an earlier measurement may still stand
STEADY = 1.3  # times as long; equal collecting differs by more only where the machine is busy with something else
Tell = Callable[[float, str], None]


@dataclass(frozen=True)
class Timing:
    """One iteration of a run: env steps, and milliseconds as in the ``timers`` of its result."""

    case: str
    num_workers: int
    num_learners: int
    env_steps: int
    sample_time_ms: float
    load_time_ms: float
    learn_time_ms: float
    sync_time_ms: float
    iteration_time_ms: float

    @property
    def steps_per_second(self) -> float:
        return 1_000 * self.env_steps / self.iteration_time_ms

    def faster_than(self, other: Timing) -> float:
        """How many times as fast. Iterations end with a whole round, so their lengths differ and rates are compared."""
        return self.steps_per_second / other.steps_per_second

    def __str__(self) -> str:
        return f"num_workers: {self.num_workers}, num_learners: {self.num_learners}"


def measure(
    algo: str,
    keys: Mapping[str, Any],
    cases: Sequence[str],
    workers: Sequence[int],
    learners: Sequence[int],
    iterations: int,
    tell: Tell,
) -> Iterator[Timing]:
    """Timings of the whole grid, case by case; ``keys`` are more of the scenario's, which win over a case's.

    All scenarios are checked before the first one runs. ``tell`` gets the share that is done and what is measured next.
    """
    grid = list(product(cases, learners, workers))
    scenarios = [scenario_of(case, algo, keys, w, k) for case, k, w in grid]
    for done, ((case, k, w), scenario) in enumerate(zip(grid, scenarios, strict=True)):
        tell(done / len(grid), f"{case}, num_workers: {w}, num_learners: {k}")
        with Trainer(scenario=scenario) as trainer:
            trainer.train()  # first touch of memory, first calls of torch
            results = [trainer.train() for _ in range(iterations)]
            yield timing(case, w, k, results)


def scenario_of(case: str, algo: str, keys: Mapping[str, Any], num_workers: int, num_learners: int) -> Scenario:
    """The user's keys over those of the case that the algorithm takes, with these numbers of workers and learners."""
    if case not in CASES:
        raise ConfigError(f"unknown case {case!r}. Known: {', '.join(CASES)}.{did_you_mean(case, CASES)}")
    grid = {"num_workers": num_workers, "num_learners": num_learners, "evaluation": {"interval": 0}}
    whole: dict[str, Any] = {}
    # In this order, as the last one counts: nothing may change the two numbers that are compared.
    for changes in (_taken(CASES[case], ALGOS[algo]), keys, {"algo": {"name": algo}, **grid}):
        for key, value in changes.items():
            apply(whole, key, value)
    return compose(whole, "marl bench learners")


def _taken(keys: Mapping[str, Any], preset: Preset) -> dict[str, Any]:
    """Without keys of learning that this algorithm does not have."""
    taken: dict[str, Any] = {}
    for key, value in keys.items():
        if section_of(key) == "algo":
            try:
                preset.configure(**{key: value})
            except (ValidationError, ConfigError):
                continue
        taken[key] = value
    return taken


def timing(case: str, num_workers: int, num_learners: int, results: Sequence[Result]) -> Timing:
    """The fastest iteration, because the machine is rarely alone; the parts of one iteration add up."""
    best = max(results, key=lambda result: result["timesteps_this_iter"] / result["time_this_iter_s"])
    parts = {f"{name}_time_ms": best["timers"][f"{name}_time_ms"] for name in ACTIVITIES}
    whole = 1_000 * best["time_this_iter_s"]
    return Timing(case, num_workers, num_learners, best["timesteps_this_iter"], iteration_time_ms=whole, **parts)


HEADINGS = ("workers", "learners", "collect", "load", "learn", "sync", "iteration", "steps/s", "times as fast")


def rows(timings: Sequence[Timing]) -> list[tuple[str, ...]]:
    """Cells under ``HEADINGS``: milliseconds of the parts and of the whole, the rate, and its ratio to the first row's."""
    found = []
    for one in timings:
        parts = [f"{ms:,.0f}" if ms >= 10 else f"{ms:.1f}" for ms in _milliseconds(one)]
        rate, ratio = f"{one.steps_per_second:,.0f}", f"{one.faster_than(timings[0]):.2f}"
        found.append((str(one.num_workers), str(one.num_learners), *parts, rate, ratio))
    return found


def _milliseconds(one: Timing) -> tuple[float, ...]:
    return one.sample_time_ms, one.load_time_ms, one.learn_time_ms, one.sync_time_ms, one.iteration_time_ms


def as_json(timings: Sequence[Timing]) -> list[dict[str, Any]]:
    """The same for programs; ``times_as_fast`` is the ratio to the first row of the case."""
    first: dict[str, Timing] = {}
    found = []
    for one in timings:
        # Of the same case: cases differ in how much work an iteration is.
        base = first.setdefault(one.case, one)
        rates = {"env_steps_per_second": one.steps_per_second, "times_as_fast": one.faster_than(base)}
        found.append({**asdict(one), **rates})
    return found


def advice(timings: Sequence[Timing]) -> str:
    """What the numbers of one case say, in one sentence."""
    first, best = timings[0], max(timings, key=lambda one: one.steps_per_second)
    spent_on = dict(zip(ACTIVITIES.values(), _milliseconds(first), strict=False))
    part, spent = max(spent_on.items(), key=lambda item: item[1])
    # One number is changed at a time, so that a gain is not given to the wrong one.
    by_workers: dict[int, Timing] = {}
    by_learners: dict[int, Timing] = {}
    for one in timings:
        if one.num_learners == first.num_learners:
            by_workers[one.num_workers] = one
        if one.num_workers == first.num_workers:
            by_learners[one.num_learners] = one
    fastest = f"fastest is {best}"
    if best is not first:
        fastest += f" ({best.faster_than(first):.2f} times as fast)"
    said = [_verdict("workers", by_workers), _verdict("learners", by_learners), fastest]
    opening = f"{part.capitalize()} takes {spent / first.iteration_time_ms:.0%} of an iteration with {first}"
    return f"{opening}: {'; '.join(filter(None, said))}."


def _verdict(noun: str, by_number: Mapping[int, Timing]) -> str:
    """Whether more of them help; nothing where only one number was tried."""
    first, *more = by_number.values()
    if not more:
        return ""
    number, top = max(list(by_number.items())[1:], key=lambda pair: pair[1].steps_per_second)
    times = top.faster_than(first)
    if times >= HELPS:
        return f"more {noun} help (num_{noun}: {number} is {times:.2f} times as fast)"
    return f"more {noun} do not help (at best num_{noun}: {number}, {times:.2f} times as fast)"


def doubts(timings: Sequence[Timing], load: float | None, cpus: int) -> list[str]:
    """Why the ratios of one case may mean nothing; ``load`` is the machine's before the first run, None: unknown.

    Learners do not collect, so with equal workers collecting takes equally long; where it does not, the machine changed.
    """
    found = []
    if load is not None and load > BUSY * cpus:
        found.append(f"other work kept this machine busy (load {load:.1f} on {cpus} CPUs)")
    times: dict[int, list[float]] = {}
    for one in timings:
        times.setdefault(one.num_workers, []).append(one.sample_time_ms / one.env_steps)
    apart = 0.0
    for same in times.values():
        apart = max(apart, max(same) / max(min(same), 1e-9))
    if apart > STEADY:
        found.append(f"collecting took up to {apart:.1f} times as long with the same num_workers")
    return found
