"""``generations.jsonl``: what was decided between the generations of a population, one line each.

A line is on the disk before what it says takes effect. How many of them have taken effect stands in ``tune.json``; so after a
kill at any moment it is known what is left to do. Values of a trial are what the lines made of those that it began with.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from marl.data.seal import check_line, sealed_line
from marl.errors import CheckpointError
from marl.inputs import check_texts, parse_json, read_text
from marl.runs.atomic import write_atomically
from marl.tune.mutations import Values
from marl.tune.population import Copy, Standing

FILE = "generations.jsonl"


@dataclass(frozen=True)
class Generation:
    """The end of one generation: where the trials were, who had failed by then, who copied whom."""

    number: int
    at: float  # on the clock
    clock: str
    iterations: Mapping[int, int]  # of the trials that were there
    scores: Mapping[int, float | None]
    failed: tuple[int, ...]
    copies: tuple[Copy, ...]

    @property
    def compared(self) -> bool:
        """Whether any trial had a value."""
        return any(score is not None for score in self.scores.values())

    def as_line(self) -> str:
        row = {
            "generation": self.number,
            "at": self.at,
            "clock": self.clock,
            "iterations": self.iterations,
            "scores": self.scores,
            "failed": self.failed,
            "copies": [copy.as_json() for copy in self.copies],
        }
        return sealed_line(json.dumps(row))

    @staticmethod
    def from_line(line: str) -> Generation:
        check_line(line, required=True)
        row = parse_json(line)
        check_texts(row, FILE)  # they end up in messages, and the file may be a stranger's
        return Generation(
            int(row["generation"]),
            float(row["at"]),
            str(row["clock"]),
            {int(trial): int(iteration) for trial, iteration in row["iterations"].items()},
            {int(trial): _number_or_none(score) for trial, score in row["scores"].items()},
            tuple(map(int, row["failed"])),
            tuple(map(Copy.from_json, row["copies"])),
        )


class History:
    """All generations that have been decided on, oldest first."""

    def __init__(self, directory: Path, generations: Sequence[Generation] = ()) -> None:
        self.directory = directory
        self.generations = list(generations)

    @staticmethod
    def read(directory: Path, trials: int, keys: Collection[str]) -> History:
        """What is there; of a search of so many trials, which change these keys."""
        file = directory / FILE
        if not file.exists():
            return History(directory)
        found: list[Generation] = []
        try:
            for line in read_text(file).splitlines():
                generation = Generation.from_line(line)
                _check(generation, len(found), trials, keys)
                found.append(generation)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise CheckpointError(
                f"{file}, line {len(found) + 1}, is damaged ({error}). Start the search anew."
            ) from error
        return History(directory, found)

    def add(self, generation: Generation) -> None:
        """On the disk when it returns."""
        self.generations.append(generation)
        # Anew and renamed, instead of appended: a kill never leaves half a line.
        write_atomically(self.directory / FILE, "".join(line.as_line() for line in self.generations))

    def copies(self, generations: int | None = None) -> list[Copy]:
        """Of the first so many generations, else of all."""
        found: list[Copy] = []
        for generation in self.generations[:generations]:
            found += generation.copies
        return found

    def lost(self, trial: int) -> bool:
        """Whether a trial had failed when others were compared: it has missed its place in the population."""
        return any(trial in generation.failed for generation in self.generations)

    def iteration_of(self, trial: int, generations: int) -> int:
        """At which iteration a trial began the generation of this number."""
        if not generations:
            return 0
        return self.generations[generations - 1].iterations.get(trial, 0)


def _check(generation: Generation, number: int, trials: int, keys: Collection[str]) -> None:
    if generation.number != number:
        raise ValueError(f"it is about generation {generation.number}, and {number} was to come")
    if not math.isfinite(generation.at):
        raise ValueError(f"{generation.at} is no time")
    for copy in generation.copies:
        for trial in (copy.trial, copy.source):
            if trial not in range(trials):
                raise ValueError(f"there are {trials} trials, and no {trial}")
        _check_values(copy.values, keys)


def _check_values(values: Values, keys: Collection[str]) -> None:
    """The file may be a stranger's: no other key of a run is changed by it, and nothing in it is a name or a path."""
    for key, value in values.items():
        is_number = value is None or _is_finite(value)
        if key not in keys or not is_number:
            raise ValueError(f"{key} does not become {value!r} in this search")


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _number_or_none(score: object) -> float | None:
    if score is None:
        return None
    return float(score)  # type: ignore[arg-type]  # of anything else it is a TypeError or ValueError


def made_of(
    number: int,
    at: float,
    clock: str,
    standings: Sequence[Standing],
    copies: Sequence[Copy],
    failed: Sequence[int],
) -> Generation:
    """The line about a generation that has ended."""
    iterations: dict[int, int] = {}
    scores: dict[int, float | None] = {}
    for trial in standings:
        iterations[trial.index] = trial.iteration
        scores[trial.index] = trial.value
    return Generation(
        number,
        at,
        clock,
        iterations,
        scores,
        tuple(failed),
        tuple(copies),
    )


def schedule_of(history: History, trial: int, first: Mapping[int, Values]) -> list[tuple[float, Values]]:
    """With which values the weights of a trial came about: each time on the clock, and the values from then on.

    Followed from the end to the beginning: before a copy, what counts are the values of the trial that was copied.
    ``first``: the values with which each trial began.
    """
    steps: list[tuple[float, Values]] = []
    for generation in reversed(history.generations):
        for copy in generation.copies:
            if copy.trial == trial:
                steps.append((generation.at, copy.values))
                trial = copy.source
                break
    steps.append((0.0, first[trial]))
    return steps[::-1]
