"""A comparison for people: a table, the verdict of each pair, and the picture."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table
from rich.text import Text

from marl.analysis.compare.compare import Comparison
from marl.analysis.plot.chart import Chart, Panel, Series
from marl.analysis.plot.paint import draw_chart
from marl.analysis.plot.points import STEPS, label_of
from marl.analysis.plot.style import WIDTHS, Look, Size
from marl.analysis.report.content import plural
from marl.errors import printable
from marl.runs.result import SMALLER_IS_BETTER

PAGE = Look(size=Size(WIDTHS["page"], 4.0), font_size=9.0, dpi=150)
"""How ``compare.png`` looks, which is for the screen."""


def comparison_table(found: Comparison) -> Table:
    """One row per entrant, the best first."""
    table = Table(box=None, pad_edge=False)
    titles = ("", "runs", "IQM", f"{found.confidence:.0%} interval", "mean", "worst", "best")
    for title in titles:
        table.add_column(title, justify="right" if title else "left", no_wrap=True)
    less = found.metric in SMALLER_IS_BETTER
    for curve in sorted(found.curves, key=lambda c: float(c.middle[-1]), reverse=not less):
        last = curve.values[:, -1]
        # Where less is better the worst is the largest.
        worst, best = sorted([last.min(), last.max()], reverse=less)
        cells = [
            printable(curve.name),
            str(len(last)),
            f"{curve.middle[-1]:.4g}",
            f"[{curve.low[-1]:.4g}, {curve.high[-1]:.4g}]",
            f"{last.mean():.4g}",
            f"{worst:.4g}",
            f"{best:.4g}",
        ]
        table.add_row(*map(Text, cells))
    return table


def verdicts(found: Comparison) -> list[str]:
    """A sentence per pair, and notes."""
    less = " (smaller is better)" if found.metric in SMALLER_IS_BETTER else ""
    lines = [f"{found.metric}{less} at {found.steps[-1]:,.0f} env steps"]
    for pair in found.pairs:
        lines.append(
            f"{pair.first} against {pair.second}: a run is better with probability {pair.probability:.2f} "
            f"[{pair.low:.2f}, {pair.high:.2f}], p = {pair.p_value:.2g}: {pair.why}"
        )
    return [*lines, *found.notes]


def draw_comparison(found: Comparison, path: Path, look: Look = PAGE) -> Path:
    """Curves of the interquartile mean with their intervals, as the file's ending says: PDF, SVG or PNG."""
    return draw_chart(chart_of(found), look, [path])[0]


def chart_of(found: Comparison) -> Chart:
    """The comparison as a figure of ``marl plot``."""
    series = []
    for curve in found.curves:
        runs = len(curve.values)
        name = f"{curve.name} ({plural(runs, 'run')})"
        series.append(Series(name, found.steps, curve.middle, curve.low, curve.high, runs, curve.values))
    panel = Panel("", label_of(STEPS), label_of(found.metric), series)
    caption = f"Interquartile means over runs with {found.confidence:.0%} bootstrap intervals."
    return Chart("curves", [panel], caption, {"metric": found.metric, "confidence": found.confidence}, found.notes)
