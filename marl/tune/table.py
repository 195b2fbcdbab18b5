"""What a person sees of a search: who runs, who waits, what they use and how they do."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from marl.errors import printable
from marl.runs.result import pretty_print
from marl.training.display import plain_line
from marl.tune.journal import ERROR, INTERRUPTED, PENDING, RUNNING, STOPPED, TERMINATED
from marl.tune.plan import Plan
from marl.tune.resources import total

MOST_ROWS = 20
WIDTH_OF_FILES = 120  # characters of a table that does not go to a terminal
STATUS_ORDER = (RUNNING, ERROR, INTERRUPTED, TERMINATED, STOPPED, PENDING)
FIRST_TO_GO = ("len mean", "reward min", "reward max", "loc", "time", "env steps")  # where the terminal is narrow


@dataclass
class Row:
    """The newest of one trial."""

    status: str = PENDING
    shown: Mapping[str, Any] = field(default_factory=dict)
    score: float | None = None


class Board:
    """Knows the newest of all trials and draws it. ``there``: what Ray has."""

    def __init__(self, plan: Plan, directory: Path, there: Mapping[str, float], status: Sequence[str]) -> None:
        self.plan, self.directory, self.there = plan, directory, dict(there)
        self.rows = [Row(one) for one in status]
        self.params = [trial.params for trial in plan.trials]  # as they are now: trials of a population change theirs

    def header(self) -> list[str]:
        """Scheduling, resources in use, where results go, how many trials are in which state."""
        counted = Counter(row.status for row in self.rows)
        states = ", ".join(f"{counted[status]} {status}" for status in STATUS_ORDER if counted[status])
        return [
            f"scheduling: {self._scheduling()}",
            f"resources: {self._resources()}",
            f"results: {self.directory}",
            f"trials: {len(self.rows)} ({states})",
        ]

    def _resources(self) -> str:
        if self.plan.options.stacked:
            return "this process, trials that differ in lr and seed alone at once"
        bundles = []
        for trial in self.plan.trials:
            if self.rows[trial.index].status == RUNNING:
                bundles += trial.bundles
        used = total(bundles)
        cpus = f"{used.get('CPU', 0):g}/{self.there.get('CPU', 0):g} CPUs"
        gpus = f"{used.get('GPU', 0):g}/{self.there.get('GPU', 0):g} GPUs"
        return f"{cpus}, {gpus}"

    def table(self, width: int) -> Table:
        """The trials as a table of at most ``width`` characters; less important columns are left out."""
        # Of many trials those that run are shown, then those that failed; in the order of their numbers.
        by_status = sorted(self.plan.trials, key=lambda trial: STATUS_ORDER.index(self.rows[trial.index].status))
        chosen = sorted(by_status[:MOST_ROWS], key=lambda trial: trial.index)
        rows = [self._cells(trial.index) for trial in chosen]
        titles, hidden = _fitting_titles(rows, width)
        notes = []
        if len(by_status) > len(chosen):
            notes.append(f"{len(by_status) - len(chosen)} more trials")
        if hidden:
            notes.append(f"{hidden} columns do not fit")
        caption = None
        if notes:
            caption = Text(", ".join(notes))
        table = Table(box=None, pad_edge=False, caption=caption, caption_justify="left")
        for title in titles:
            table.add_column(Text("\n".join(_lines(title))), justify="right", vertical="bottom", no_wrap=True)
        for row in rows:
            cells = [Text(row.get(title, "")) for title in titles]
            table.add_row(*cells)
        return table

    def _scheduling(self) -> str:
        if self.plan.population is not None:
            return self.plan.population.decider.told()
        halving = self.plan.halving
        if halving is None:
            return "FIFO"
        # As ASHA itself counts them; at the budget trials end anyway.
        rungs, rung = [], halving.grace_period
        while rung < halving.budget * (1 - 1e-9):
            rungs.append(f"{rung:g}")
            rung *= halving.reduction_factor
        return f"ASHA, about 1 of {halving.reduction_factor:g} goes on at {halving.clock} {', '.join(rungs)}"

    def _cells(self, index: int) -> dict[str, str]:
        row, shown = self.rows[index], self.rows[index].shown
        cells = {"trial": f"{index:05d}"}
        for name, value in self.params[index].items():
            cells[name] = _short(value)
        cells["status"] = row.status
        cells["loc"] = ""
        if row.status == RUNNING:  # the process of a trial that has ended may be another's by now
            cells["loc"] = str(shown.get("pid", ""))
        cells["iter"] = str(shown.get("training_iteration", ""))
        cells["time"] = _number(shown.get("time_total_s"), ".1f", "s")
        cells["env steps"] = str(shown.get("timesteps_total", ""))
        cells["reward mean"] = _number(shown.get("episode_reward_mean"), ".2f")
        cells["reward max"] = _number(shown.get("episode_reward_max"), ".2f")
        cells["reward min"] = _number(shown.get("episode_reward_min"), ".2f")
        cells["len mean"] = _number(shown.get("episode_len_mean"), ".1f")
        policies = shown.get("policy_reward_mean") or {}
        if len(policies) > 1:  # a single one earns what all earn
            for name, reward in policies.items():
                cells[f"policy {name}"] = _number(reward, ".2f")
        cells["score"] = _number(row.score, ".4g")
        return cells


class Screen:
    """Shows a board as it changes. ``verbose``: 0 nothing, 1 the table, 2 also each result, 3 also all of its fields.

    In a terminal the table is redrawn in place; elsewhere there is a line whenever a trial changes its state.
    """

    def __init__(self, board: Board, verbose: int, stream: TextIO | None = None) -> None:
        self.board, self.verbose = board, verbose
        self._live = None
        stream = stream or sys.stdout
        # Without emojis: keys and values of a search may look like one (":car:").
        self.console = Console(file=stream, emoji=False)
        if not stream.isatty():
            self.console.width = WIDTH_OF_FILES
        elif verbose > 0 and not self.console.is_dumb_terminal:
            self._live = Live(console=self.console, refresh_per_second=4, get_renderable=self._picture)

    def start(self) -> None:
        if self._live is not None:
            self._live.start()
        elif self.verbose:
            self._print(*self.board.header())

    def status(self, index: int, status: str, why: str = "") -> None:
        """A trial has changed its state."""
        row = self.board.rows[index]
        changed = status != row.status
        row.status = status
        if not self.verbose:
            return
        if why:
            self._print(f"{self._name(index)} {status}: {why}")
        elif changed and self._live is None:  # a table that is redrawn shows it by itself
            self._print(f"{self._name(index)} {status}")

    def result(self, index: int, told: Mapping[str, Any]) -> None:
        """A trial has a result."""
        row = self.board.rows[index]
        row.shown, row.score = told.get("shown", {}), told.get("score", row.score)
        name = self._name(index)
        if self.verbose > 0:
            for note in told.get("notes", ()):
                self._print(f"{name}: {note}")
        if self.verbose > 1:
            # A training function of the user's own may report other fields than ours.
            if "timesteps_total" in row.shown:
                line = plain_line(row.shown)
            else:
                line = f"iter {row.shown['training_iteration']}"
            self._print(f"{name} {line}")
        if self.verbose > 2:
            self._print(pretty_print(row.shown))

    def note(self, text: str) -> None:
        """Something about the search as a whole."""
        if self.verbose:
            self._print(text)

    def finish(self) -> None:
        """Stop drawing; the last state stays."""
        if self._live is not None:
            self._live.stop()
        elif self.verbose:
            self._print(self.board.header()[-1])
            self.console.print(self.board.table(self.console.width))

    def _name(self, index: int) -> str:
        params = self.board.params[index]
        searched = ",".join(f"{name}={_short(value)}" for name, value in params.items())
        return f"trial {index:05d} {searched}".rstrip()

    def _print(self, *lines: str) -> None:
        for line in lines:
            self.console.print(Text(printable(line)), soft_wrap=True)

    def _picture(self) -> RenderableType:
        header = [Text(line, overflow="ellipsis", no_wrap=True) for line in self.board.header()]
        return Group(*header, self.board.table(self.console.width))


def _lines(title: str) -> list[str]:
    """A title in two lines: narrow columns let more of them fit."""
    return title.split(" ", maxsplit=1)


def _fitting_titles(rows: Sequence[Mapping[str, str]], width: int) -> tuple[list[str], int]:
    """The titles of columns that fit, and how many do not."""
    found: dict[str, None] = {}
    for row in rows:
        found.update(dict.fromkeys(row))
    titles = list(found)
    policies = [title for title in titles if title.startswith("policy ")]
    # The first four policies go last, all further ones first: they are what a table of many agents is full of.
    leaving = [*reversed(policies[4:]), *FIRST_TO_GO, *reversed(policies[:4])]
    hidden = 0
    for title in leaving:
        if _width(titles, rows) <= width:
            break
        titles.remove(title)
        hidden += 1
    return titles, hidden


def _width(titles: Sequence[str], rows: Sequence[Mapping[str, str]]) -> int:
    padding = 2
    width = 0
    for title in titles:
        cells = [row.get(title, "") for row in rows]
        width += padding + max(map(cell_len, [*_lines(title), *cells]))
    return width


def _short(value: object) -> str:
    text = str(value)
    if isinstance(value, float):
        text = f"{value:.4g}"
    if len(text) > 24:
        text = text[:23] + "…"
    return text


def _number(value: float | None, pattern: str, unit: str = "") -> str:
    if value is None or math.isnan(value):
        return ""
    return format(value, pattern) + unit
