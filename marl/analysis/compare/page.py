"""A comparison for people: a table, the verdict of each pair, and the picture."""

from __future__ import annotations

import io
from pathlib import Path

from rich.table import Table
from rich.text import Text

from marl.analysis.compare.compare import Comparison
from marl.analysis.report.content import plural
from marl.errors import printable
from marl.runs.atomic import write_atomically
from marl.runs.curve import POLICY_COLOURS, drawn
from marl.runs.result import SMALLER_IS_BETTER
from marl.storage import make_folder


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


def draw_comparison(found: Comparison, path: Path) -> Path:
    """Curves of the interquartile mean with their intervals as a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for number, curve in enumerate(found.curves):
        colour = POLICY_COLOURS[number % len(POLICY_COLOURS)]
        marker = ""
        if len(found.steps) == 1:  # a line of one point and an area of no width cannot be seen
            axes.vlines(found.steps, curve.low, curve.high, color=colour, linewidth=3, alpha=0.4)
            marker = "o"
        runs = plural(len(curve.values), "run")
        axes.plot(found.steps, curve.middle, color=colour, marker=marker, label=drawn(f"{curve.name} ({runs})"))
        axes.fill_between(found.steps, curve.low, curve.high, color=colour, alpha=0.2, linewidth=0)
    axes.set_xlabel("env steps")
    axes.set_ylabel(drawn(found.metric))
    axes.set_title(f"interquartile mean over runs, {found.confidence:.0%} bootstrap interval", fontsize=11)
    axes.xaxis.set_major_formatter(lambda steps, _: f"{steps:,.10g}")
    axes.grid(alpha=0.3)
    axes.legend(loc="best", fontsize=9)
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    make_folder(path.parent)
    write_atomically(path, picture.getvalue())
    return path
