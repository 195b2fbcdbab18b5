"""Who copies whom, and which values change: the decisions between two generations of a population.

In a *generation* every trial trains until the same moment of the clock. Then all are compared, and what is decided takes
effect before the next one begins. A decision depends on the results, the seed and the number of the generation alone, so a
search that was killed and goes on decides the same.

``Exploitation`` is population based training (Jaderberg et al., 2017): of the trials that are behind each copies one of those
ahead, its weights and its values (exploit), and changes the values (explore). ``Following`` repeats values by time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from marl.tune.mutations import Mutation, Values, explore


@dataclass(frozen=True)
class Standing:
    """Where a trial is when a generation ends. ``value``: the newest of the objective in this generation, if there was one."""

    index: int
    iteration: int
    value: float | None
    values: Values  # of the keys that change
    is_open: bool = True  # whether it trains on


@dataclass(frozen=True)
class Copy:
    """A trial goes on with the state of another one, and with these values. A trial that copies itself changes values only."""

    trial: int
    source: int
    values: Values
    before: Values

    def as_json(self) -> dict[str, Any]:
        return {
            "trial": self.trial,
            "from": self.source,
            "values": self.values,
            "before": self.before,
        }

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> Copy:
        return Copy(
            trial=int(row["trial"]),
            source=int(row["from"]),
            values=dict(row["values"]),
            before=dict(row["before"]),
        )


class Decider(Protocol):
    """When generations end, and what is decided then. ``clock``: the result field in which they are measured."""

    @property
    def clock(self) -> str: ...

    def end_of(self, generation: int) -> float:
        """On which moment of the clock a generation ends; infinity where trials train to their ends."""

    def decide(self, generation: int, standings: Sequence[Standing], sign: float) -> list[Copy]:
        """``sign`` is 1 where a larger value is better, else -1."""

    def told(self) -> str:
        """What the header of the table says."""


@dataclass(frozen=True)
class Exploitation:
    """Population based training."""

    clock: str
    interval: float
    mutations: tuple[Mutation, ...]
    quantile: float
    resample: float
    factors: tuple[float, ...]
    seed: int

    def end_of(self, generation: int) -> float:
        return (generation + 1) * self.interval

    def decide(self, generation: int, standings: Sequence[Standing], sign: float) -> list[Copy]:
        best, worst = quantiles(standings, self.quantile, sign)
        copies = []
        for trial in worst:
            luck = [self.seed, generation, trial.index]
            source = best[int(np.random.default_rng(luck).integers(len(best)))]
            # Early on all may be equally bad: then a copy would only make the population narrower.
            if not trial.is_open or _score(source, sign) <= _score(trial, sign):
                continue
            values = explore(
                self.mutations,
                source.values,
                self.factors,
                self.resample,
                luck,
            )
            copy = Copy(
                trial=trial.index,
                source=source.index,
                values=values,
                before=trial.values,
            )
            copies.append(copy)
        return copies

    def told(self) -> str:
        keys = ", ".join(mutation.key.split(".")[-1] for mutation in self.mutations)
        share = f"the worst {self.quantile:.0%} copy"
        return f"PBT, {share} at every {self.interval:g} {self.clock} and change {keys}"


@dataclass(frozen=True)
class Following:
    """Values by time, the same for all trials."""

    clock: str
    times: tuple[float, ...]
    values: tuple[Values, ...]  # complete from each time on

    def end_of(self, generation: int) -> float:
        if generation >= len(self.times):
            return math.inf
        return self.times[generation]

    def decide(self, generation: int, standings: Sequence[Standing], sign: float) -> list[Copy]:  # noqa: ARG002
        copies = []
        for trial in standings:
            if trial.is_open:
                change = Copy(
                    trial=trial.index,
                    source=trial.index,
                    values=self.values[generation],
                    before=trial.values,
                )
                copies.append(change)
        return copies

    def told(self) -> str:
        times = ", ".join(f"{time:g}" for time in self.times)
        return f"as scheduled, other values at {self.clock} {times}"


def quantiles(standings: Sequence[Standing], share: float, sign: float) -> tuple[list[Standing], list[Standing]]:
    """The best and the worst of the trials that have a value, equally many; of equal ones the first counts as better."""
    ranked = [trial for trial in standings if trial.value is not None]
    ranked.sort(key=lambda trial: (-_score(trial, sign), trial.index))
    # At least one and at most half of them: nobody is both.
    count = min(math.ceil(len(ranked) * share), len(ranked) // 2)
    if not count:
        return [], []
    return ranked[:count], ranked[-count:]


def _score(trial: Standing, sign: float) -> float:
    assert trial.value is not None
    return sign * trial.value
