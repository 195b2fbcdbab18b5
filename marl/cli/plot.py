"""``marl plot``: figures for papers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from marl.cli.runs import AsJson
from marl.errors import printable

if TYPE_CHECKING:
    from marl.analysis.plot.chart import Chart

Figures = Annotated[
    Optional[list[Path]],  # noqa: UP045
    typer.Option(
        "--figure", "-o", metavar="FILE", help="Draw into this PDF, SVG or PNG; repeatable. Default: KIND.pdf."
    ),
]
Metrics = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        "--metric", metavar="FIELD", help="Field to draw; repeatable. Default: what evaluations are judged by."
    ),
]
By = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(metavar="KEY,...", help="What makes a line: keys such as algo.lr, or source, name, run."),
]
Labels = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--label", metavar="NAME=TEXT", help="Another name of a line or of a panel; repeatable."),
]
Normalise = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        metavar="ENV=ZERO,ONE",
        help="Values that count as score 0 and 1; repeatable. Default: the worst and the best run.",
    ),
]
Limits = Annotated[Optional[tuple[float, float]], typer.Option(metavar="LOW HIGH", help="Ends of the axis.")]  # noqa: UP045
AxisLabel = Annotated[Optional[str], typer.Option(help="Label of the axis.")]  # noqa: UP045


def plot(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="RUNS...", help="Run directories, names or ids of runs, folders, searches, comparisons."
        ),
    ],
    figures: Figures = None,
    kind: Annotated[str, typer.Option(help="curves, profiles, aggregates or improvement.")] = "curves",
    metrics: Metrics = None,
    by: By = None,
    labels: Labels = None,
    x: Annotated[str, typer.Option("--x", metavar="FIELD", help="Field along the x axis.")] = "timesteps_total",
    statistic: Annotated[str, typer.Option(help="Middle of the runs in curves: iqm, mean or median.")] = "iqm",
    smooth: Annotated[int, typer.Option(min=1, help="Mean of so many newest measurements of a run.")] = 1,
    extend: Annotated[bool, typer.Option("--extend", help="Runs that ended early keep their last value.")] = False,
    at: Annotated[Optional[float], typer.Option(help="Scores at this x. Default: the last that all have.")] = None,  # noqa: UP045
    normalise: Normalise = None,
    confidence: Annotated[float, typer.Option(min=0.5, max=0.999, help="Of intervals.")] = 0.95,
    resamples: Annotated[int, typer.Option(min=100, help="Resamples of the bootstrap.")] = 2_000,
    single_runs: Annotated[bool, typer.Option("--single-runs", help="Draw every run as a thin line too.")] = False,
    size: Annotated[
        str, typer.Option(metavar="column|page|WxH", help="3.25 or 6.75 inches wide, or inches.")
    ] = "column",
    columns: Annotated[Optional[int], typer.Option(min=1, help="Panels side by side.")] = None,  # noqa: UP045
    title: Annotated[str, typer.Option(help="Above the figure; papers have captions instead.")] = "",
    xlabel: AxisLabel = None,
    ylabel: AxisLabel = None,
    xlim: Limits = None,
    ylim: Limits = None,
    log: Annotated[str, typer.Option(metavar="x|y|both", help="Logarithmic axes.")] = "",
    font: Annotated[str, typer.Option(metavar="NAME", help="STIXGeneral is like Times.")] = "DejaVu Sans",
    font_size: Annotated[float, typer.Option(min=4, max=40, help="In points.")] = 8.0,
    dpi: Annotated[int, typer.Option(min=50, max=1200, help="Dots per inch of a PNG.")] = 300,
    data: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="FILE", help="Write the drawn numbers too, as .csv or .json."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw runs of several seeds, algorithms and envs as a figure for a paper: PDF, SVG or PNG.

    Each env is a panel, each algorithm or setting a line with its bootstrap interval. Nothing is trained.
    Exit codes: 0 when it is drawn, 2 for bad input.
    """
    from marl.analysis.plot.figure import Files, check_look, check_options, make_chart, write_chart
    from marl.analysis.plot.kinds import Numbers
    from marl.analysis.plot.style import Look, read_size

    # All that can be refused without reading a run is refused first.
    files = Files(figures or [Path(f"{kind}.pdf")], data)
    look = Look(
        size=read_size(size), columns=columns, font=font, font_size=font_size, title=title, x_label=xlabel,
        y_label=ylabel, x_limits=xlim, y_limits=ylim, log=log, single_runs=single_runs, dpi=dpi,
    )  # fmt: skip
    check_look(look)
    numbers = Numbers(
        metrics=metrics or [], x=x, statistic=statistic, confidence=confidence, resamples=resamples, smooth=smooth,
        extend=extend, at=at, normalise=normalise or (),
    )  # fmt: skip
    check_options(kind, numbers, look)
    chart = make_chart(sources, kind, words_in(by), numbers, labels or [])
    write_chart(chart, look, files)
    if as_json:
        print(json.dumps({**chart.as_json(), **files.as_json()}))
    else:
        print(printable("\n".join([*_summary(chart), *files.told()])))


def words_in(text: str | None) -> list[str]:
    """``a,b`` as words; none where nothing was given."""
    if not text:
        return []
    return text.split(",")


def _summary(chart: Chart) -> list[str]:
    """What each line ends with, how it was computed, and what a reader should know."""
    lines = []
    for panel in chart.panels:
        for series in panel.series:
            where = f"{panel.title}, " if panel.title else ""
            found = f"{series.middle[-1]:.4g} [{series.low[-1]:.4g}, {series.high[-1]:.4g}]"
            lines.append(f"{where}{series.name}: {found}")
    return [*lines, f"caption: {chart.caption}", *[f"note: {note}" for note in chart.notes]]
