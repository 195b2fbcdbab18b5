"""What a person sees of a run: a live table in a terminal, one line per result elsewhere, or nothing."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Timer
from typing import Any, Protocol, TextIO, TypeAlias

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from marl.runs.files import to_plain
from marl.runs.progress import Progress as Progress
from marl.runs.result import look_up

Result: TypeAlias = Mapping[str, Any]

NEWEST_ROWS = 12
SECONDS_BETWEEN_LINES = 1.0
SECONDS_UNTIL_BUSY = 3.0
LEADING_COLUMNS = ("seed", "iter", "env steps", "stage", "episodes", "reward mean")
TRAILING_COLUMNS = ("eval reward", "nash conv", "len mean", "steps/s", "time")
OPTIONAL_COLUMNS = ("seed", "stage", "nash conv")  # of several seeds, a curriculum, measured distances to equilibrium
POLICIES_FIRST_SHOWN = 4  # the columns of further policies leave a narrow table before the times do


class Display(Protocol):
    """Where a run tells a person about itself; ``finish`` must be called at the end, after an error too."""

    def start(self, header: Sequence[str]) -> None:
        """Show what is about to run, one fact per line."""

    def update(self, result: Result, progress: Progress) -> None:
        """Show one iteration's result."""

    def busy(self, doing: str) -> None:
        """Show what takes its time; an empty text when it is over."""

    def note(self, text: str) -> None:
        """Show a remark that stays visible."""

    def finish(self, lines: Sequence[str]) -> None:
        """Show the last state and these lines; the last of them is the last line printed."""


def make_display(stream: TextIO | None = None) -> Display:
    """The live table if the stream (default: standard output) is a terminal, plain lines otherwise."""
    if stream is None:
        stream = sys.stdout  # looked up now: it may have been redirected since the import
    console = Console(file=stream)
    can_redraw = stream.isatty() and not console.is_dumb_terminal
    if can_redraw:
        return LiveDisplay(console)
    return PlainDisplay(stream)


class Quiet:
    """Shows nothing."""

    def start(self, header: Sequence[str]) -> None: ...

    def update(self, result: Result, progress: Progress) -> None: ...

    def busy(self, doing: str) -> None: ...

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

    def busy(self, doing: str) -> None: ...

    def note(self, text: str) -> None:
        self._tell([text])

    def finish(self, lines: Sequence[str]) -> None:
        self._tell(lines)

    def _tell(self, lines: Sequence[str]) -> None:
        print("\n".join(lines), file=self._people, flush=True)


class PlainDisplay:
    """One line per result, at most one per second; the first, the last and evaluated ones always appear."""

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic, prefix: str = "",
        every: float = SECONDS_BETWEEN_LINES,
    ) -> None:  # fmt: skip
        self._stream = stream or sys.stdout
        self._clock, self._prefix, self._every = clock, prefix, every
        self._next_line = float("-inf")
        self._held_back: list[str] = []  # the newest line, if it came too soon after the one before
        self._waiting: Timer | None = None

    def start(self, header: Sequence[str]) -> None:
        self._print(header)

    def update(self, result: Result, progress: Progress) -> None:  # noqa: ARG002
        line, now = self._prefix + plain_line(result), self._clock()
        measured = result.get("evaluation") or result.get("exploitability")
        if now < self._next_line and not measured:
            self._held_back = [line]
            return
        self._held_back = []
        self._print([line])
        self._next_line = now + self._every

    def busy(self, doing: str) -> None:
        """A line, if it takes longer than a moment."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        if doing:
            self._waiting = Timer(SECONDS_UNTIL_BUSY, self._print, ([f"{doing} ..."],))
            self._waiting.daemon = True
            self._waiting.start()

    def note(self, text: str) -> None:
        self._print([text])

    def finish(self, lines: Sequence[str]) -> None:
        self.busy("")
        self._print([*self._held_back, *lines])
        self._held_back = []

    def _print(self, lines: Sequence[str]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        self._stream.write(text)  # in one piece, so that lines of other processes do not come in between
        self._stream.flush()


def plain_line(result: Result) -> str:
    """``iter 3  steps 3000  reward 7.50  team 7.50  eval 8.00  len 2.0  12000 steps/s  1.2s``."""
    words = [f"iter {result['training_iteration']}", f"steps {result['timesteps_total']}"]
    if "curriculum" in result:
        words.append(f"stage {result['curriculum']['stage']}")
    words.append(f"reward {_reward(result.get('episode_reward_mean'))}")
    for policy, reward in _policy_rewards(result).items():
        words.append(f"{policy} {_reward(reward)}")
    words.append(f"eval {_reward(_evaluated(result))}")
    if result.get("exploitability"):
        words.append(f"nash_conv {_nash_conv(result['exploitability'])}")
    words += [
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
        self._doing = ""
        self._live = Live(console=self._console, refresh_per_second=4, get_renderable=self._screen)

    def start(self, header: Sequence[str]) -> None:
        self._header = list(header)
        self._live.start()

    def update(self, result: Result, progress: Progress) -> None:
        # A new list instead of a changed one: another thread may be drawing the old one.
        self._rows = [*self._rows, table_cells(result)][-NEWEST_ROWS:]
        self._progress = progress

    def busy(self, doing: str) -> None:
        self._doing = doing

    def note(self, text: str) -> None:
        self._console.print(Text(text))

    def finish(self, lines: Sequence[str]) -> None:
        self._live.stop()
        self.say(lines)

    def say(self, lines: Sequence[str]) -> None:
        """Below the table."""
        for line in lines:
            self._console.print(Text(line), soft_wrap=True)  # a path must stay in one piece

    def _screen(self) -> RenderableType:
        header = [Text(line, overflow="ellipsis", no_wrap=True) for line in self._header]
        rows = self._rows  # looked at once: the run may go on while this thread draws
        doing = self._doing
        way_to_go = self._progress.label
        table: Table | Text
        if not rows:
            table = Text(f"{doing or 'collecting'} ...")
        else:
            table = results_table(rows, self._console.width)
            if doing:
                way_to_go = f"{doing} ..."
        fraction = min(max(self._progress.fraction, 0.0), 1.0)
        way = Table.grid(padding=(0, 1))
        way.add_row(
            ProgressBar(total=1.0, completed=fraction, width=min(40, self._console.width // 3)),
            Text(f"{fraction:.0%}  {way_to_go}", overflow="ellipsis", no_wrap=True),
        )
        return Group(*header, table, way)


def table_cells(result: Result) -> dict[str, str]:
    """The result as one row of the live table: column title -> text."""
    cells = {"iter": str(result["training_iteration"]), "env steps": str(result["timesteps_total"])}
    if "curriculum" in result:
        cells["stage"] = str(result["curriculum"]["stage"])
    cells["episodes"] = _number(result.get("episodes_total"), "d")
    cells["reward mean"] = _reward(result.get("episode_reward_mean"))
    for policy, reward in _policy_rewards(result).items():
        cells[f"reward {policy}"] = _reward(reward)
    cells["eval reward"] = _reward(_evaluated(result))
    if "exploitability" in result:
        cells["nash conv"] = _nash_conv(result["exploitability"])
    cells["len mean"] = _number(result.get("episode_len_mean"), ".1f")
    cells["steps/s"] = _number(_speed(result), ".0f")
    cells["time"] = _number(result.get("time_total_s"), ".0f") + "s"
    return cells


def results_table(rows: Sequence[Mapping[str, str]], width: int) -> Table:
    """The rows as a table that fits into ``width`` characters, by leaving out the less important columns."""
    titles, policies = _columns(rows)
    hidden = 0
    for title in _first_to_go(policies):
        if _table_width(titles, rows) <= width:
            break
        titles.remove(title)
        hidden += 1
    table = Table(box=None, pad_edge=False, caption_justify="left")
    if hidden:
        table.caption = Text(f"+{hidden} hidden")
    for title in titles:
        table.add_column(Text("\n".join(_header(title))), justify="right", vertical="bottom", no_wrap=True)
    for row in rows:
        cells = [Text(row.get(title, "-")) for title in titles]
        table.add_row(*cells)
    return table


def _columns(rows: Sequence[Mapping[str, str]]) -> tuple[list[str], list[str]]:
    """Titles of all columns, from left to right; and those among them that are policies."""
    there: dict[str, None] = {}
    for row in rows:
        there |= dict.fromkeys(row)
    policies = [title for title in there if title not in (*LEADING_COLUMNS, *TRAILING_COLUMNS)]
    titles = [*LEADING_COLUMNS, *policies, *TRAILING_COLUMNS]
    for title in OPTIONAL_COLUMNS:
        if title not in there:
            titles.remove(title)
    return titles, policies


def table_titles(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Titles of all columns of these rows, from left to right."""
    return _columns(rows)[0]


def _first_to_go(policies: Sequence[str]) -> list[str]:
    """The columns in the order in which they leave a table that is too wide."""
    more, first = policies[POLICIES_FIRST_SHOWN:], policies[:POLICIES_FIRST_SHOWN]
    return ["episodes", "len mean", *reversed(more), "time", "steps/s", "env steps", *reversed(first), "eval reward"]


def _header(title: str) -> list[str]:
    """The title in two lines: narrow columns let more of them fit."""
    return title.split(" ", maxsplit=1)


def _table_width(titles: Sequence[str], rows: Sequence[Mapping[str, str]]) -> int:
    padding = 2
    width = 0
    for title in titles:
        texts = _header(title)
        texts += [row.get(title, "-") for row in rows]
        # In cells, not in characters: an ideogram or an emoji takes two.
        width += padding + max(map(cell_len, texts))
    return width


def _nash_conv(found: Mapping[str, Any]) -> str:
    """NashConv: ``0.5600`` exact, ``~0.5600`` where chance was sampled, ``>= 0.5600`` a lower bound."""
    sign = {"lower bound": ">= ", "sampled chance": "~"}.get(found["bound"], "")
    return sign + _number(found["nash_conv"], ".4f")


def _policy_rewards(result: Result) -> Mapping[str, float | None]:
    """Of those who played; the mixtures that learners of a population meet are left out."""
    rewards: Mapping[str, float | None] = result.get("policy_reward_mean") or {}
    if "population" not in result:
        return rewards
    shown = {}
    for policy, reward in rewards.items():
        is_mixture = ".against." in policy or policy.endswith(".answer")
        if not is_mixture:
            shown[policy] = reward
    return shown


def _evaluated(result: Result) -> float | None:
    """What the run is measured by (``evaluation.metric``): the sum over all agents says nothing in a zero-sum game."""
    if not result.get("evaluation"):
        return None
    config = result.get("config") or {}
    metric = config.get("evaluation", {}).get("metric", "episode_reward_mean")
    return look_up(result["evaluation"], metric)


def _speed(result: Result) -> float | None:
    """Env steps per second of this iteration."""
    steps, seconds = result.get("timesteps_this_iter"), result.get("time_this_iter_s")
    if steps is None or not seconds:
        return None
    speed: float = steps / seconds
    return speed


def _reward(value: float | None) -> str:
    return _number(value, ".2f")


def _number(value: float | None, pattern: str) -> str:
    """The number as text; '-' where there is none (None or NaN)."""
    if value is None or value != value:
        return "-"
    return format(value, pattern)
