"""What a person sees of a run: a live table in a terminal, one line per result elsewhere, or nothing."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TextIO, TypeAlias

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from marl.runs.files import to_plain
from marl.runs.result import look_up

Result: TypeAlias = Mapping[str, Any]

NEWEST_ROWS = 12
SECONDS_BETWEEN_LINES = 1.0
LEADING_COLUMNS = ("iter", "env steps", "stage", "episodes", "reward mean")
TRAILING_COLUMNS = ("eval reward", "nash conv", "len mean", "steps/s", "time")
OPTIONAL_COLUMNS = (
    "stage",
    "nash conv",
)  # of runs that have a curriculum, or measure how far they are from equilibrium
POLICIES_FIRST_SHOWN = 4  # the columns of further policies leave a narrow table before the times do


@dataclass(frozen=True)
class Progress:
    """How far the run is on its way to its stop condition."""

    fraction: float  # 0 at the start, 1 at the end
    label: str  # for instance "timesteps_total 12000/50000"


class Display(Protocol):
    """Where a run tells a person about itself; ``finish`` must be called at the end, after an error too."""

    def start(self, header: Sequence[str]) -> None:
        """Show what is about to run, one fact per line."""

    def update(self, result: Result, progress: Progress) -> None:
        """Show one iteration's result."""

    def note(self, text: str) -> None:
        """Show a remark that stays visible."""

    def finish(self, lines: Sequence[str]) -> None:
        """Show the last state and these lines; the last of them is the last line printed."""


def make_display(stream: TextIO | None = None) -> Display:
    """The live table if the stream (default: standard output) is a terminal, plain lines otherwise."""
    stream = stream or sys.stdout
    console = Console(file=stream)
    if stream.isatty() and not console.is_dumb_terminal:
        return LiveDisplay(console)
    return PlainDisplay(stream)


class Quiet:
    """Shows nothing."""

    def start(self, header: Sequence[str]) -> None: ...

    def update(self, result: Result, progress: Progress) -> None: ...

    def note(self, text: str) -> None: ...

    def finish(self, lines: Sequence[str]) -> None: ...


class LastLine(Quiet):
    """Shows nothing but the last line: where the results are."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout

    def finish(self, lines: Sequence[str]) -> None:
        print("".join(lines[-1:]), file=self._stream, flush=True)


class JsonLines:
    """Every result as one line of strict JSON, as in ``result.json``; what is for people goes elsewhere."""

    def __init__(self, stream: TextIO, people: TextIO) -> None:
        self._stream, self._people = stream, people

    def start(self, header: Sequence[str]) -> None:
        self._tell(header)

    def update(self, result: Result, progress: Progress) -> None:  # noqa: ARG002
        print(json.dumps(to_plain(result, finite=True)), file=self._stream, flush=True)

    def note(self, text: str) -> None:
        self._tell([text])

    def finish(self, lines: Sequence[str]) -> None:
        self._tell(lines)

    def _tell(self, lines: Sequence[str]) -> None:
        print("\n".join(lines), file=self._people, flush=True)


class PlainDisplay:
    """One line per result, at most one per second; the first, the last and evaluated ones always appear."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream or sys.stdout
        self._clock = clock
        self._next_line = float("-inf")
        self._held_back: list[str] = []  # the newest line, if it came too soon after the one before

    def start(self, header: Sequence[str]) -> None:
        self._print(header)

    def update(self, result: Result, progress: Progress) -> None:  # noqa: ARG002
        line, now = plain_line(result), self._clock()
        if now < self._next_line and not (result.get("evaluation") or result.get("exploitability")):
            self._held_back = [line]
            return
        self._held_back = []
        self._print([line])
        self._next_line = now + SECONDS_BETWEEN_LINES

    def note(self, text: str) -> None:
        self._print([text])

    def finish(self, lines: Sequence[str]) -> None:
        self._print([*self._held_back, *lines])
        self._held_back = []

    def _print(self, lines: Sequence[str]) -> None:
        self._stream.write("".join(f"{line}\n" for line in lines))
        self._stream.flush()


def plain_line(result: Result) -> str:
    """``iter 3  steps 3000  reward 7.50  team 7.50  eval 8.00  len 2.0  12000 steps/s  1.2s``."""
    policies = [f"{policy} {_reward(reward)}" for policy, reward in _policy_rewards(result).items()]
    words = [
        f"iter {result['training_iteration']}",
        f"steps {result['timesteps_total']}",
        *([f"stage {result['curriculum']['stage']}"] if "curriculum" in result else []),
        f"reward {_reward(result.get('episode_reward_mean'))}",
        *policies,
        f"eval {_reward(_evaluated(result))}",
        *_nash_conv(result),
        f"len {_number(result.get('episode_len_mean'), '.1f')}",
        f"{_number(_speed(result), '.0f')} steps/s",
        f"{_number(result.get('time_total_s'), '.1f')}s",
    ]
    return "  ".join(words)


class LiveDisplay:
    """A table of the newest results and a bar towards the stop condition, redrawn in place."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._header: list[str] = []
        self._rows: list[dict[str, str]] = []
        self._progress = Progress(0.0, "")
        self._live = Live(console=self._console, refresh_per_second=4, get_renderable=self._screen)

    def start(self, header: Sequence[str]) -> None:
        self._header = list(header)
        self._live.start()

    def update(self, result: Result, progress: Progress) -> None:
        # A new list instead of a changed one: another thread may be drawing the old one.
        self._rows = [*self._rows, table_cells(result)][-NEWEST_ROWS:]
        self._progress = progress

    def note(self, text: str) -> None:
        self._console.print(Text(text))

    def finish(self, lines: Sequence[str]) -> None:
        self._live.stop()
        for line in lines:
            self._console.print(Text(line), soft_wrap=True)  # a path must stay in one piece

    def _screen(self) -> RenderableType:
        header = [Text(line, overflow="ellipsis", no_wrap=True) for line in self._header]
        table = results_table(self._rows, self._console.width) if self._rows else Text("collecting ...")
        fraction = min(max(self._progress.fraction, 0.0), 1.0)
        way = Table.grid(padding=(0, 1))
        way.add_row(
            ProgressBar(total=1.0, completed=fraction, width=min(40, self._console.width // 3)),
            Text(f"{fraction:.0%}  {self._progress.label}", overflow="ellipsis", no_wrap=True),
        )
        return Group(*header, table, way)


def table_cells(result: Result) -> dict[str, str]:
    """The result as one row of the live table: column title -> text."""
    policies = {f"reward {policy}": _reward(reward) for policy, reward in _policy_rewards(result).items()}
    return {
        "iter": str(result["training_iteration"]),
        "env steps": str(result["timesteps_total"]),
        **({"stage": str(result["curriculum"]["stage"])} if "curriculum" in result else {}),
        "episodes": _number(result.get("episodes_total"), "d"),
        "reward mean": _reward(result.get("episode_reward_mean")),
        **policies,
        "eval reward": _reward(_evaluated(result)),
        **({"nash conv": _figure(result["exploitability"])} if "exploitability" in result else {}),
        "len mean": _number(result.get("episode_len_mean"), ".1f"),
        "steps/s": _number(_speed(result), ".0f"),
        "time": _number(result.get("time_total_s"), ".0f") + "s",
    }


def results_table(rows: Sequence[Mapping[str, str]], width: int) -> Table:
    """The rows as a table that fits into ``width`` characters, by leaving out the less important columns."""
    fixed = {*LEADING_COLUMNS, *TRAILING_COLUMNS}
    policies = list(dict.fromkeys(title for row in rows for title in row if title not in fixed))
    there = {title for row in rows for title in row}
    known = [t for t in (*LEADING_COLUMNS, *TRAILING_COLUMNS) if t in there or t not in OPTIONAL_COLUMNS]
    titles = [*(t for t in LEADING_COLUMNS if t in known), *policies, *(t for t in TRAILING_COLUMNS if t in known)]
    hidden = []
    for title in _first_to_go(policies):
        if _table_width(titles, rows) <= width:
            break
        titles.remove(title)
        hidden.append(title)
    caption = Text(f"+{len(hidden)} hidden") if hidden else None
    table = Table(box=None, pad_edge=False, caption=caption, caption_justify="left")
    for title in titles:
        table.add_column(Text("\n".join(_header(title))), justify="right", vertical="bottom", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(row.get(title, "-")) for title in titles))
    return table


def _first_to_go(policies: Sequence[str]) -> list[str]:
    """The columns in the order in which they leave a table that is too wide."""
    more, first = policies[POLICIES_FIRST_SHOWN:], policies[:POLICIES_FIRST_SHOWN]
    return ["episodes", "len mean", *reversed(more), "time", "steps/s", "env steps", *reversed(first), "eval reward"]


def _header(title: str) -> list[str]:
    """The title in two lines: narrow columns let more of them fit."""
    return title.split(" ", maxsplit=1)


def _table_width(titles: Sequence[str], rows: Sequence[Mapping[str, str]]) -> int:
    padding = 2
    texts = {title: [*_header(title), *(row.get(title, "-") for row in rows)] for title in titles}
    return sum(padding + max(map(cell_len, column)) for column in texts.values())


def _nash_conv(result: Result) -> list[str]:
    """How far from equilibrium, where it was measured."""
    found = result.get("exploitability")
    return [f"nash_conv {_figure(found)}"] if found else []


def _figure(found: Mapping[str, Any]) -> str:
    """NashConv: ``0.5600`` exact, ``~0.5600`` where chance was sampled, ``>= 0.5600`` a lower bound."""
    sign = {"lower bound": ">= ", "sampled chance": "~"}.get(found["bound"], "")
    return sign + _number(found["nash_conv"], ".4f")


def _policy_rewards(result: Result) -> Mapping[str, float | None]:
    """Of those who played; the mixtures that learners of a population meet are left out."""
    rewards = result.get("policy_reward_mean") or {}
    return {policy: reward for policy, reward in rewards.items() if not _is_mixture(policy, result)}


def _is_mixture(policy: str, result: Result) -> bool:
    return "population" in result and (".against." in policy or policy.endswith(".answer"))


def _evaluated(result: Result) -> float | None:
    """What the run is measured by (``evaluation.metric``): the sum over all agents says nothing in a zero-sum game."""
    config = result.get("config") or {}
    metric = config.get("evaluation", {}).get("metric", "episode_reward_mean")
    return look_up(result.get("evaluation") or {}, metric)


def _speed(result: Result) -> float | None:
    """Env steps per second of this iteration."""
    steps, seconds = result.get("timesteps_this_iter"), result.get("time_this_iter_s")
    return steps / seconds if steps is not None and seconds else None


def _reward(value: float | None) -> str:
    return _number(value, ".2f")


def _number(value: float | None, pattern: str) -> str:
    """The number as text; '-' where there is none (None or NaN)."""
    return "-" if value is None or value != value else format(value, pattern)
