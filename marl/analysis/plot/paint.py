"""Draws a chart: lines with bands, or rows with intervals."""

from __future__ import annotations

import io
import math
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from marl.analysis.plot.chart import Chart, Panel, Series
from marl.analysis.plot.style import DASHES, LOG_AXES, MARKERS, NARROWEST_PANEL, Look, Pen, drawing, pen
from marl.errors import ConfigError
from marl.runs.curve import drawn
from marl.storage import make_folder, write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL_HEIGHT = 0.72  # of its width
LEAST_HEIGHT, MOST_HEIGHT = 1.35, 2.6  # inches of a panel of lines
ROW_HEIGHT = 0.2  # inches
PAIRS = "#888888"
TICKS_PER_INCH = 1.5
LETTER = 0.6 / 72  # inches of a letter's width per point of the font, at most on average
FEW_POINTS = 12  # of a line, up to which every one has a marker
Paint: TypeAlias = Callable[["Axes", Panel, Mapping[str, Pen], Look], None]

# No date and no version: the same runs and options give the same file.
FORMATS: Mapping[str, dict[str, Any]] = {
    ".pdf": {"metadata": {"CreationDate": None, "Creator": None, "Producer": None}},
    ".svg": {"metadata": {"Date": None, "Creator": None}},
    ".png": {"metadata": {"Software": None}},
}
DATA = (".csv", ".json")


def check_suffix(path: Path, known: Mapping[str, Any] | tuple[str, ...], option: str) -> None:
    if path.suffix.lower() not in known:
        raise ConfigError(f"{option} {path}: expected a name that ends in {', '.join(known)}.")


def draw_chart(chart: Chart, look: Look, paths: list[Path]) -> list[Path]:
    """Draw the chart into each of the files, by their endings."""
    with drawing(look):
        figure = figure_of(chart, look)
        for path in paths:
            picture = io.BytesIO()
            suffix = path.suffix.lower()
            with _large_enough(figure, look):
                figure.savefig(picture, format=suffix[1:], dpi=look.dpi, **FORMATS[suffix])
            make_folder(path.parent)
            write_atomically(path, picture.getvalue())
    return paths


@contextmanager
def _large_enough(figure: Figure, look: Look) -> Iterator[None]:
    """Matplotlib only warns where letters leave no room for the panels, and draws them on top of each other."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="constrained_layout not applied")
        try:
            yield
        except UserWarning:
            width, height = figure.get_size_inches()
            raise ConfigError(
                f"{width:.3g} x {height:.3g} inches are too small for letters of {look.font_size:g} points. Give a larger "
                "--size, a smaller --font-size, or fewer --columns."
            ) from None


def figure_of(chart: Chart, look: Look) -> Figure:
    """The figure, within ``style.drawing``."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    in_rows = not len(chart.panels[0].series[0].x)
    columns = look.columns or max(1, int(look.size.width // NARROWEST_PANEL))
    columns = min(columns, len(chart.panels))
    rows = math.ceil(len(chart.panels) / columns)
    figure = Figure(
        figsize=(look.size.width, 1.0), layout=ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03, wspace=0.03, hspace=0.04)
    )
    FigureCanvasAgg(figure)  # measures texts and needs no screen
    pens = {name: pen(number) for number, name in enumerate(chart.names)}
    paint: Paint = _paint_rows if in_rows else _paint_lines
    places = []
    for number, panel in enumerate(chart.panels):
        axes = figure.add_subplot(rows, columns, number + 1)
        places.append(axes)
        paint(axes, panel, pens, look)
        if in_rows and number % columns:
            axes.tick_params(labelleft=False)  # the names stand in the first column
    _name_axes(places, chart, look, columns)
    _write_titles(places, chart, look, columns)
    if look.title:
        figure.suptitle(drawn(look.title))
    below = 0.0 if in_rows else _legend(figure, pens)
    figure.set_size_inches(look.size.width, look.size.height or rows * _panel_height(chart, look, columns) + below)
    return figure


def _panel_height(chart: Chart, look: Look, columns: int) -> float:
    """Inches of a panel with its title and ticks."""
    if not len(chart.panels[0].series[0].x):
        longest = max(len(panel.series) for panel in chart.panels)
        return ROW_HEIGHT * longest + 0.065 * look.font_size
    height = PANEL_HEIGHT * look.size.width / columns
    return min(max(height, LEAST_HEIGHT), MOST_HEIGHT)


def _name_axes(places: list[Axes], chart: Chart, look: Look, columns: int) -> None:
    """Labels of the axes."""
    x_labels = [look.x_label or panel.x_label for panel in chart.panels]
    y_labels = [look.y_label or panel.y_label for panel in chart.panels]
    lowest, leftmost = places[-columns:], places[::columns]
    for axes, label in _where_shown(places, lowest, x_labels):
        axes.set_xlabel(drawn(label), labelpad=2)
    for axes, label in _where_shown(places, leftmost, y_labels):
        axes.set_ylabel(drawn(label), labelpad=2)


def _where_shown(places: list[Axes], edge: list[Axes], labels: list[str]) -> list[tuple[Axes, str]]:
    """Panels with their labels; where all labels are the same, those at the edge of the figure alone."""
    if len(set(labels)) == 1:
        return [(axes, labels[0]) for axes in edge]
    return list(zip(places, labels, strict=True))


def _write_titles(places: list[Axes], chart: Chart, look: Look, columns: int) -> None:
    """The panels' names, in as many lines as they need."""
    if len(places) == 1:
        return  # papers say in the caption what a single panel shows
    letters = max(1, int(look.size.width / columns / (LETTER * look.font_size)))
    for axes, panel in zip(places, chart.panels, strict=True):
        axes.set_title("\n".join(textwrap.wrap(drawn(panel.title), letters)), pad=3)


def _paint_lines(axes: Axes, panel: Panel, pens: Mapping[str, Pen], look: Look) -> None:
    for series in panel.series:
        _paint_line(axes, series, pens[series.name], look)
    for axis in LOG_AXES[look.log]:
        _check_positive(panel, axis)
        {"x": axes.set_xscale, "y": axes.set_yscale}[axis]("log")
    if "x" not in LOG_AXES[look.log]:
        _short_numbers(axes, look)
    if look.x_limits is not None:
        axes.set_xlim(*look.x_limits)
    if look.y_limits is not None:
        axes.set_ylim(*look.y_limits)


def _paint_line(axes: Axes, series: Series, how: Pen, look: Look) -> None:
    if look.single_runs:
        for values in series.each:
            axes.plot(series.x, values, color=how.colour, linewidth=0.5, alpha=0.45)
    if len(series.x) == 1:  # a line of one point and a band of no width cannot be seen
        axes.vlines(series.x, series.low, series.high, color=how.colour, linewidth=1.2)
    # Lines with gaps above those without: where several have the same values, all of them are seen.
    above = 2.0 + 0.1 * DASHES.index(how.dashes)
    axes.fill_between(series.x, series.low, series.high, color=how.colour, alpha=0.18, linewidth=0)
    axes.plot(
        series.x, series.middle, color=how.colour, linestyle=how.dashes, zorder=above, marker=how.marker,
        markevery=_marked(series, how), markeredgecolor="white", markeredgewidth=0.3,
    )  # fmt: skip


def _marked(series: Series, how: Pen) -> Any:
    """Which points have markers: each line's at other places, so that lines on top of each other can be told apart."""
    turn = MARKERS.index(how.marker)
    if len(series.x) <= 3:
        return None
    if len(series.x) <= FEW_POINTS:
        return (turn % 3, 3)
    return (0.02 + 0.04 * (turn % 5), 0.2)  # shares of the panel's diagonal


def _check_positive(panel: Panel, axis: str) -> None:
    for series in panel.series:
        values = series.x if axis == "x" else series.low
        if values.min() <= 0:
            raise ConfigError(
                f"--log {axis}: {series.name} in {panel.title or 'the figure'} has the value {values.min():g}, but a "
                "logarithmic axis begins above 0. Leave it out."
            )


def _short_numbers(axes: Axes, look: Look) -> None:
    """200k and 1M instead of 200000 and 1e6, where numbers are large."""
    from matplotlib.ticker import EngFormatter, MaxNLocator

    inches = axes.get_position().width * look.size.width
    most = max(4, int(TICKS_PER_INCH * inches))
    axes.xaxis.set_major_locator(MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]))
    if axes.get_xlim()[1] >= 1_000:
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def _paint_rows(axes: Axes, panel: Panel, pens: Mapping[str, Pen], look: Look) -> None:
    """An interval as a bar with its estimate as a stroke; the first line is on top."""
    from matplotlib.ticker import MaxNLocator

    names = [drawn(series.name) for series in panel.series]
    places = range(len(names))
    for place, series in enumerate(panel.series):
        width = series.high[0] - series.low[0]
        # Pairs have no colour of their own: it would be taken for that of an algorithm in other figures.
        colour = pens[series.name].colour if panel.mark is None else PAIRS
        axes.barh(place, width, left=series.low[0], height=0.55, color=colour, alpha=0.55, linewidth=0)
        axes.plot([series.middle[0]] * 2, [place - 0.33, place + 0.33], color="black", linewidth=1.4)
    axes.set_yticks(list(places), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    # Bars stick to the edge otherwise, which cuts their strokes in half.
    axes.use_sticky_edges = False
    axes.margins(x=0.08)
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    if panel.mark is not None:
        axes.axvline(panel.mark, color="black", linewidth=0.7, linestyle=(0, (2, 2)))
        axes.set_xlim(0.0, 1.0)
    if look.x_limits is not None:
        axes.set_xlim(*look.x_limits)


def _legend(figure: Figure, pens: Mapping[str, Pen]) -> float:
    """One legend below all panels, in as many columns as fit; returns its height in inches."""
    from matplotlib.lines import Line2D

    if len(pens) < 2:
        return 0.0
    handles = []
    for name, how in pens.items():
        line = Line2D([], [], color=how.colour, linestyle=how.dashes, marker=how.marker, label=drawn(name))
        line.set_markeredgecolor("white")
        line.set_markeredgewidth(0.3)
        handles.append(line)
    columns = len(handles)
    while True:
        legend = figure.legend(
            handles=handles, loc="outside lower center", ncols=columns, frameon=False, handlelength=2.6,
            columnspacing=1.2, handletextpad=0.5, borderaxespad=0.1, labelspacing=0.3,
        )  # fmt: skip
        extent = legend.get_window_extent()
        if columns == 1 or extent.width <= figure.bbox.width:
            return float(extent.height / figure.dpi)
        legend.remove()
        columns = math.ceil(columns / 2) if columns > 3 else columns - 1
