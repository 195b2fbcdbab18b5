"""What a person sees of several seeds that train at once: one table with a row per seed, or lines that name the seed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TextIO

from rich.console import Console

from marl.runs.progress import Progress
from marl.training.display import Display, JsonLines, LastLine, LiveDisplay, PlainDisplay, Result, table_cells


def seed_displays(seeds: Sequence[int], stream: TextIO) -> list[Display]:
    """One display per seed, which share a terminal, or write lines to something else."""
    console = Console(file=stream)
    if stream.isatty() and not console.is_dumb_terminal:
        board = SeedsTable(console, seeds)
        return [_Row(board, seed) for seed in seeds]
    # Together as many lines as one run would print.
    return [SeedLines(seed, seed == seeds[0], stream, every=float(len(seeds))) for seed in seeds]


class SeedLines(PlainDisplay):
    """Lines that name the seed; what is to be trained is told by the first seed for all."""

    def __init__(
        self, seed: int, first: bool, stream: TextIO, clock: Callable[[], float] = time.monotonic, every: float = 1.0
    ) -> None:
        super().__init__(stream, clock, prefix=f"seed {seed}  ", every=every)
        self._seed, self._first = seed, first

    def start(self, header: Sequence[str]) -> None:
        if self._first:
            super().start(header[:-1])
        super().start([f"seed {self._seed}  {header[-1]}"])  # where its results go

    def note(self, text: str) -> None:
        super().note(f"seed {self._seed}  {text}")

    def busy(self, doing: str) -> None:
        if self._first or not doing:  # all seeds do the same at the same time
            super().busy(doing)


class SeedJson(JsonLines):
    """Results of all seeds as lines of JSON, each with its ``seed``."""

    def __init__(self, seed: int, first: bool, stream: TextIO, people: TextIO) -> None:
        super().__init__(stream, people)
        self._seed, self._first = seed, first

    def start(self, header: Sequence[str]) -> None:
        if self._first:
            super().start(header[:-1])
        super().start([f"seed {self._seed}  {header[-1]}"])

    def note(self, text: str) -> None:
        super().note(f"seed {self._seed}  {text}")


def quiet_displays(seeds: Sequence[int], stream: TextIO) -> list[Display]:
    """Of each seed nothing but where its results are."""
    return [LastLine(stream) for _ in seeds]


def json_displays(seeds: Sequence[int], stream: TextIO, people: TextIO) -> list[Display]:
    return [SeedJson(seed, seed == seeds[0], stream, people) for seed in seeds]


class SeedsTable(LiveDisplay):
    """A table with the newest result of every seed, and a bar for all of them together."""

    def __init__(self, console: Console, seeds: Sequence[int]) -> None:
        super().__init__(console)
        self._newest: dict[int, dict[str, str]] = {seed: {"seed": str(seed)} for seed in seeds}
        self._fractions = dict.fromkeys(seeds, 0.0)
        self._started = self._ended = False

    def begin(self, header: Sequence[str]) -> None:
        if not self._started:
            self._started = True
            self.start([*header, f"{len(self._newest)} seeds in one process"])

    def show(self, seed: int, result: Result, progress: Progress) -> None:
        self._newest = {**self._newest, seed: {"seed": str(seed), **table_cells(result)}}
        self._fractions[seed] = progress.fraction
        self._rows = list(self._newest.values())  # a new list: another thread may be drawing the old one
        mean = sum(self._fractions.values()) / len(self._fractions)
        self._progress = Progress(mean, f"seed {seed}: {progress.label}")

    def end(self, lines: Sequence[str]) -> None:
        """The last state of the table stays on the screen; then the lines of one seed after the other."""
        if not self._ended:
            self._ended = True
            self._live.stop()
        self.say(lines)


class _Row:
    """One seed's part of the table."""

    def __init__(self, board: SeedsTable, seed: int) -> None:
        self._board, self._seed = board, seed

    def start(self, header: Sequence[str]) -> None:
        self._board.begin(header[:-1])

    def update(self, result: Result, progress: Progress) -> None:
        self._board.show(self._seed, result, progress)

    def busy(self, doing: str) -> None:
        self._board.busy(doing and f"seed {self._seed}: {doing}")

    def note(self, text: str) -> None:
        self._board.note(f"seed {self._seed}  {text}")

    def finish(self, lines: Sequence[str]) -> None:
        self._board.end(lines)
