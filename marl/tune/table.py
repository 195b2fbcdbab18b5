"""What a person sees of a search: who runs, who waits, what they use and how they do."""

from __future__ import annotations

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

    def header(self) -> list[str]:
        """Scheduling, resources in use, where results go, how many trials are in which state."""
        used = total(
            bundle for trial in self.plan.trials if self.rows[trial.index].status == RUNNING for bundle in trial.bundles
        )
        resources = ", ".join(f"{used.get(name, 0):g}/{self.there.get(name, 0):g} {name}s" for name in ("CPU", "GPU"))
        counted = Counter(row.status for row in self.rows)
        states = ", ".join(f"{counted[status]} {status}" for status in STATUS_ORDER if counted[status])
        return [
            f"scheduling: {self._scheduling()}",
            f"resources: {resources}",
            f"results: {self.directory}",
            f"trials: {len(self.rows)} ({states})",
        ]

    def table(self, width: int) -> Table:
        """The trials as a table of at most ``width`` characters; less important columns are left out."""
        order = sorted(self.plan.trials, key=lambda trial: STATUS_ORDER.index(self.rows[trial.index].status))
        chosen = sorted(order[:MOST_ROWS], key=lambda trial: trial.index)
        rows = [self._cells(trial.index) for trial in chosen]
        titles = list(dict.fromkeys(title for row in rows for title in row))
        policies = [title for title in titles if title.startswith("policy ")]
        leaving = [*reversed(policies[4:]), *FIRST_TO_GO, *reversed(policies[:4])]
        hidden = []
        for title in leaving:
            if _width(titles, rows) <= width:
                break
            titles.remove(title)
            hidden.append(title)
        notes = [f"{len(order) - len(chosen)} more trials"] if len(order) > len(chosen) else []
        notes += [f"{len(hidden)} columns do not fit"] if hidden else []
        table = Table(
            box=None, pad_edge=False, caption=Text(", ".join(notes)) if notes else None, caption_justify="left"
        )
        for title in titles:
            table.add_column(Text("\n".join(_lines(title))), justify="right", vertical="bottom", no_wrap=True)
        for row in rows:
            table.add_row(*(Text(row.get(title, "")) for title in titles))
        return table

    def _scheduling(self) -> str:
        halving = self.plan.halving
        if halving is None:
            return "FIFO"
        rungs, rung = [], halving.grace_period
        while rung < halving.budget * (1 - 1e-9):
            rungs.append(f"{rung:g}")
            rung *= halving.reduction_factor
        return f"ASHA, about 1 of {halving.reduction_factor:g} goes on at {halving.clock} {', '.join(rungs)}"

    def _cells(self, index: int) -> dict[str, str]:
        row, shown = self.rows[index], self.rows[index].shown
        policies = shown.get("policy_reward_mean") or {}
        return {
            "trial": f"{index:05d}",
            **{name: _short(value) for name, value in self.plan.trials[index].params.items()},
            "status": row.status,
            "loc": str(shown.get("pid", "")) if row.status == RUNNING else "",
            "iter": str(shown.get("training_iteration", "")),
            "time": _number(shown.get("time_total_s"), ".1f", "s"),
            "env steps": str(shown.get("timesteps_total", "")),
            "reward mean": _number(shown.get("episode_reward_mean"), ".2f"),
            "reward max": _number(shown.get("episode_reward_max"), ".2f"),
            "reward min": _number(shown.get("episode_reward_min"), ".2f"),
            "len mean": _number(shown.get("episode_len_mean"), ".1f"),
            **({f"policy {name}": _number(v, ".2f") for name, v in policies.items()} if len(policies) > 1 else {}),
            "score": _number(row.score, ".4g"),
        }


class Screen:
    """Shows a board as it changes. ``verbose``: 0 nothing, 1 the table, 2 also each result, 3 also all of its fields.

    In a terminal the table is redrawn in place; elsewhere there is a line whenever a trial changes its state.
    """

    def __init__(self, board: Board, verbose: int, stream: TextIO | None = None) -> None:
        self.board, self.verbose = board, verbose
        stream = stream or sys.stdout
        self.console = Console(file=stream, emoji=False, width=None if stream.isatty() else WIDTH_OF_FILES)
        live = verbose > 0 and stream.isatty() and not self.console.is_dumb_terminal
        self._live = Live(console=self.console, refresh_per_second=4, get_renderable=self._picture) if live else None

    def start(self) -> None:
        if self._live is not None:
            self._live.start()
        elif self.verbose:
            self._print(*self.board.header())

    def status(self, index: int, status: str, why: str = "") -> None:
        """A trial has changed its state."""
        before, self.board.rows[index].status = self.board.rows[index].status, status
        if self.verbose and (self._live is None or why) and (why or status != before):
            self._print(f"{self._name(index)} {status}{': ' if why else ''}{why}")

    def result(self, index: int, told: Mapping[str, Any]) -> None:
        """A trial has a result."""
        row = self.board.rows[index]
        row.shown, row.score = told.get("shown", {}), told.get("score", row.score)
        if self.verbose:
            self._print(*(f"{self._name(index)}: {note}" for note in told.get("notes", ())))
        if self.verbose > 1:
            line = (
                plain_line(row.shown) if "timesteps_total" in row.shown else f"iter {row.shown['training_iteration']}"
            )
            self._print(f"{self._name(index)} {line}")
        if self.verbose > 2:
            self._print(pretty_print(row.shown))

    def finish(self) -> None:
        """Stop drawing; the last state stays."""
        if self._live is not None:
            self._live.stop()
        elif self.verbose:
            self._print(self.board.header()[-1])
            self.console.print(self.board.table(self.console.width))

    def _name(self, index: int) -> str:
        params = ",".join(f"{name}={_short(value)}" for name, value in self.board.plan.trials[index].params.items())
        return f"trial {index:05d}{' ' if params else ''}{params}"

    def _print(self, *lines: str) -> None:
        for line in lines:
            self.console.print(Text(printable(line)), soft_wrap=True)

    def _picture(self) -> RenderableType:
        header = [Text(line, overflow="ellipsis", no_wrap=True) for line in self.board.header()]
        return Group(*header, self.board.table(self.console.width))


def _lines(title: str) -> list[str]:
    """A title in two lines: narrow columns let more of them fit."""
    return title.split(" ", maxsplit=1)


def _width(titles: Sequence[str], rows: Sequence[Mapping[str, str]]) -> int:
    padding = 2
    columns = {title: [*_lines(title), *(row.get(title, "") for row in rows)] for title in titles}
    return sum(padding + max(map(cell_len, column)) for column in columns.values())


def _short(value: object) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 24 else text[:23] + "…"


def _number(value: float | None, pattern: str, unit: str = "") -> str:
    return "" if value is None or value != value else format(value, pattern) + unit
