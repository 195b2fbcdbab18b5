"""``marl plot``: from the words of the command to files."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from marl.analysis.plot.chart import Chart
from marl.analysis.plot.groups import group
from marl.analysis.plot.kinds import KINDS, MIDDLES, Numbers
from marl.analysis.plot.labels import check_labels, relabelled
from marl.analysis.plot.paint import DATA, FORMATS, check_suffix, draw_chart
from marl.analysis.plot.runs import read_runs
from marl.analysis.plot.style import LOG_AXES, Look, drawing
from marl.errors import ConfigError, did_you_mean
from marl.storage import make_folder, write_atomically

MOST_LINES = 8  # that readers can tell apart
# Options and the fields that they set, of the numbers or of the look.
OPTIONS = {
    "--at": "at",
    "--normalise": "normalise",
    "--statistic": "statistic",
    "--single-runs": "single_runs",
    "--ylim": "y_limits",
    "--log": "log",
}
WITHOUT_EFFECT: Mapping[str, Sequence[str]] = {
    "curves": ("--at", "--normalise"),
    "profiles": ("--statistic", "--single-runs"),
    "aggregates": ("--statistic", "--single-runs", "--ylim", "--log"),
    "improvement": ("--statistic", "--single-runs", "--ylim", "--log", "--normalise"),
}
"""What a kind of figure does not use."""


@dataclass(frozen=True)
class Files:
    """Where a figure goes, and where its numbers go; checked when it is made, before any run is read."""

    figures: Sequence[Path]
    data: Path | None = None

    def __post_init__(self) -> None:
        for path in self.figures:
            check_suffix(path, FORMATS, "--figure")
        if self.data is not None:
            check_suffix(self.data, DATA, "--data")

    def as_json(self) -> dict[str, Any]:
        data = None
        if self.data is not None:
            data = str(self.data)
        return {"figures": [str(path) for path in self.figures], "data": data}

    def told(self) -> list[str]:
        """A line per file."""
        lines = [f"figure: {path}" for path in self.figures]
        if self.data is not None:
            lines.append(f"data: {self.data}")
        return lines


def make_chart(
    sources: Sequence[str],
    kind: str = "curves",
    by: Sequence[str] = (),
    numbers: Numbers = Numbers(),  # noqa: B008  (it is frozen)
    labels: Sequence[str] = (),
) -> Chart:
    """The numbers of a figure of these runs."""
    check_choice("--kind", kind, list(KINDS))
    check_choice("--statistic", numbers.statistic, list(MIDDLES))
    check_labels(labels)
    found, notes = read_runs(sources)
    grouped = relabelled(group(found, by), labels)
    chart = KINDS[kind](grouped, numbers)
    notes = [*notes, *grouped.notes, *chart.notes]
    if len(grouped.lines) > MOST_LINES:
        notes.append(
            f"{len(grouped.lines)} lines are more than readers can tell apart. Give fewer runs, or choose by --by what "
            "makes a line."
        )
    return replace(chart, notes=notes)


def check_choice(option: str, chosen: str, known: Sequence[str]) -> None:
    if chosen not in known:
        # The empty word stands for "none" and is nothing that anybody would type.
        names = list(filter(None, known))
        raise ConfigError(f"{option} {chosen!r}: expected one of {', '.join(names)}.{did_you_mean(chosen, names)}")


def check_options(kind: str, numbers: Numbers, look: Look) -> None:
    """Refuse options that would change nothing: who gives one believes that it does."""
    check_choice("--kind", kind, list(KINDS))
    given = {**vars(numbers), **vars(look)}
    usual = {**vars(Numbers()), **vars(Look())}
    for option in WITHOUT_EFFECT[kind]:
        field = OPTIONS[option]
        if given[field] != usual[field]:
            used = [other for other in KINDS if option not in WITHOUT_EFFECT[other]]
            raise ConfigError(
                f"{option} changes nothing in a figure of --kind {kind}. Leave it out, or choose --kind "
                f"{' or '.join(used)}."
            )


def check_look(look: Look) -> None:
    """Refuse, before any run is read, what can be refused then."""
    check_choice("--log", look.log, list(LOG_AXES))
    for option, limits in (("--xlim", look.x_limits), ("--ylim", look.y_limits)):
        if limits is None:
            continue
        said = f"{option} {limits[0]:g} {limits[1]:g}"
        if not all(map(math.isfinite, limits)):
            raise ConfigError(f"{said}: expected two finite numbers.")
        if not limits[0] < limits[1]:
            raise ConfigError(f"{said}: expected the smaller number first.")
        axis = option[2]
        if axis in LOG_AXES[look.log] and limits[0] <= 0:
            raise ConfigError(f"{said}: a logarithmic axis (--log {look.log}) begins above 0.")
    with drawing(look):  # the font is there
        pass


def write_chart(chart: Chart, look: Look, files: Files) -> None:
    """Draw the chart and write its numbers."""
    draw_chart(chart, look, list(files.figures))
    if files.data is None:
        return
    texts: dict[str, Callable[[], str]] = {
        ".csv": chart.as_csv,
        ".json": lambda: json.dumps(chart.as_json(), indent=1) + "\n",
    }
    make_folder(files.data.parent)
    write_atomically(files.data, texts[files.data.suffix.lower()]())
