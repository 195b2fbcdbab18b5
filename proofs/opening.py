"""The first iterations of a seed, as hashes: what says later whether today's code still trains like the code of the proof.

Names are left out wherever a rename changes nothing: weights are hashed as numbers in their order, results by the fields that
every result has. What is replayed, by the kind of proof:

- A run: its first iterations, until the weights have moved twice and something was evaluated, or have moved once and three
  seconds are over; then an evaluation if there was none, the learned tables and a few of the matches if the proof has such.
- Prepared recordings are made anew, so the program that makes them counts as well.
- Workers that play on while the learner learns: the same without workers. What such a run collects depends on the clock.
- Clients of an external env: the env of the evaluations, played in this process. The same reason.
- A search: all of its trials for two iterations, with one perturbation between them.
"""

from __future__ import annotations

import hashlib
import json
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from marl.data.task import Array
from marl.envs.external.contract import EXTERNAL
from marl.runs.result import Result, look_up
from marl.scenario.config import Scenario
from marl.scenario.resolve import resolve
from marl.training.trainer import Trainer
from proofs.declaration import Places, Proof

Weights: TypeAlias = Mapping[str, Mapping[str, Array]]
Numbers: TypeAlias = dict[str, float | None]
Tick: TypeAlias = Callable[[], None]
DIGITS = 16
SECONDS = 3.0  # of iterations; then one whose weights moved is enough
MATCHES = 5  # games in each seat, of those that follow a training
CLOSE = 1e-3  # relative: how far rounding on another machine may lead within so few iterations
COUNTED = ("timesteps_total", "agent_timesteps_total", "episodes_total")
PLAYED = ("episode_reward_mean", "episode_reward_min", "episode_reward_max", "episode_len_mean")
MEASURED = ("evaluation", "exploitability")


@dataclass(frozen=True)
class Opening:
    """What the first iterations of a seed came to. ``numbers`` are those of the last one, for a look from another machine."""

    iterations: int
    weights: str
    results: str
    numbers: Numbers
    machine: str

    def differs(self, before: Opening) -> str | None:
        """What is not as it was, in words; None if nothing is. From another machine, up to rounding."""
        if (self.weights, self.results) == (before.weights, before.results):
            return None
        if self.machine != before.machine:
            far = [name for name in before.numbers if not _close(self.numbers.get(name), before.numbers[name])]
            return f"{far[0]} is {self.numbers.get(far[0])}, was {before.numbers[far[0]]}" if far else None
        what = "other results" if self.weights == before.weights else "other weights"
        return f"{what} after {before.iterations} iterations"


def _close(now: float | None, before: float | None) -> bool:
    if now is None or before is None:
        return now is before
    return bool(np.isclose(now, before, rtol=CLOSE, atol=CLOSE))


def play_opening(
    proof: Proof, places: Places, seed: int, prepared: Path | None, iterations: int | None, tick: Tick
) -> Opening:
    """Train for so many iterations, or for as many as it takes when None; ``tick`` is called after each of them."""
    if proof.tune:
        from proofs.searches import open_search  # with all that a search loads, on which no other proof depends

        return open_search(proof, places, seed)
    rows: list[Numbers] = []
    with Trainer(scenario=_in_one_process(places.load(proof, seed, prepared))) as trainer:
        watch = _Watch(trainer)
        while not watch.enough(iterations):
            result = trainer.train()
            rows.append(numbers_of(proof, result))
            watch.look(result)
            tick()
        rows.append(numbers_of(proof, _measured(trainer, watch.measured)))
        rows += _afterwards(proof, trainer)
        return opening_of(watch.iterations, trainer.get_weights(), rows)


def opening_of(iterations: int, weights: Weights, rows: Sequence[Numbers]) -> Opening:
    """Hashes of parameters (single numbers such as an epsilon are none) and of the rows of numbers."""
    digest, sizes = hashlib.sha256(), {}
    for policy in sorted(weights):
        arrays = _parameters(weights[policy])
        for array in arrays:
            digest.update(np.ascontiguousarray(array).tobytes())
        sizes[f"weights of {policy}"] = _size(arrays)
    text = json.dumps(rows, sort_keys=True)
    results = hashlib.sha256(text.encode()).hexdigest()
    last = {key: value for row in rows for key, value in row.items()}
    return Opening(iterations, digest.hexdigest()[:DIGITS], results[:DIGITS], {**last, **sizes}, this_machine())


def numbers_of(proof: Proof, result: Result) -> Numbers:
    """What a result counts and what was earned, of training and of measurements; no times, no diagnostics."""
    numbers: Numbers = {name: result.get(name) for name in COUNTED if name in result}
    for place in ("", *(f"{section}." for section in MEASURED if section in result)):
        for name in (*PLAYED, "nash_conv", "exploitability"):
            value = look_up(result, f"{place}{name}")
            if value is not None:
                numbers[f"{place}{name}"] = float(value)
    for field in proof.fields:
        value = look_up(result, field)
        if value is not None:
            numbers[field] = float(value)
    return numbers


def this_machine() -> str:
    """What rounding depends on: the processor, what torch uses of it, and the versions that compute."""
    name = platform.processor() or platform.machine()
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), name)
    instructions = torch.backends.cpu.get_cpu_capability()
    return f"{name}, {instructions}, torch {torch.__version__}, numpy {np.__version__}"


class _Watch:
    """Counts the iterations, and those in which the weights moved; knows what was measured."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.started = time.perf_counter()
        self.iterations = self.moved = 0
        self.measured: set[str] = set()
        self.due = {section for section in MEASURED if getattr(trainer.scenario, section).interval > 0}
        self.weights = self._now()
        self.over = False

    def look(self, result: Result) -> None:
        self.iterations += 1
        self.measured |= self.due & result.keys()
        weights = self._now()
        self.moved += weights != self.weights
        self.weights = weights
        self.over = bool(result["done"])

    def enough(self, iterations: int | None) -> bool:
        if iterations is not None:
            return self.iterations >= iterations
        late = time.perf_counter() - self.started > SECONDS
        seen = self.moved >= 2 and self.measured == self.due
        return self.over or seen or (late and self.moved >= 1)

    def _now(self) -> str:
        return opening_of(0, self.trainer.get_weights(), []).weights


def _in_one_process(scenario: Scenario) -> Scenario:
    """Without what depends on the clock: clients, and workers that play on while the learner learns."""
    changes: dict[str, Any] = {}
    if scenario.env == EXTERNAL:
        changes = {"env": scenario.evaluation.env, "env_config": scenario.evaluation.env_config or {}, "external": None}
    elif depends_on_the_clock(scenario):
        changes = {"num_workers": 0}
    return scenario.model_copy(update=changes)


def depends_on_the_clock(scenario: Scenario) -> bool:
    """Whether somebody plays on while learners learn."""
    return scenario.env == EXTERNAL or (scenario.num_workers > 0 and resolve(scenario).asynchronous)


def _measured(trainer: Trainer, already: set[str]) -> Result:
    """What was not measured in the iterations, if the scenario measures it at all."""
    result: Result = {}
    if trainer.scenario.evaluation.interval > 0 and "evaluation" not in already:
        result["evaluation"] = trainer.evaluate()
    if trainer.scenario.exploitability.interval > 0 and "exploitability" not in already:
        result["exploitability"] = trainer.measure_exploitability()
    return result


def _afterwards(proof: Proof, trainer: Trainer) -> list[Numbers]:
    """Tables and matches, as at the end of a training."""
    rows: list[Numbers] = []
    if proof.tables:
        from proofs.tables import joint_values  # with the algorithm behind it, on which other proofs do not depend

        for state, table in joint_values(trainer).items():
            rows.append({f"{state} {index}": value for index, value in enumerate(np.ravel(table).tolist())})
    if proof.matches:
        from proofs.matches import play_matches

        few = proof.matches.model_copy(update={"games": MATCHES})
        for tally in play_matches(trainer, few):
            told = asdict(tally)
            named = f"{told.pop('seat')} {told.pop('play')}"
            rows.append({f"{named} {key}": float(value) for key, value in told.items()})
    return rows


def _parameters(weights: Mapping[str, Array]) -> list[Array]:
    return [array for array in weights.values() if np.ndim(array) > 0]


def _size(arrays: Sequence[Array]) -> float:
    squares = sum(float(np.square(array.astype(np.float64)).sum()) for array in arrays)
    return float(np.sqrt(squares))
