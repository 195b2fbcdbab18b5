"""What a figure shows, as numbers: panels with series. Painters draw it, and it is written as CSV or JSON as it is."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from marl.analysis.compare.statistics import Scores

COLUMNS = ("panel", "line", "runs", "x", "middle", "low", "high")
NOTHING: Scores = np.zeros(0)


@dataclass(frozen=True)
class Series:
    """One line with its interval over ``x``; where ``x`` is empty, a single estimate with its interval."""

    name: str
    x: Scores
    middle: Scores
    low: Scores
    high: Scores
    runs: int
    each: Scores = field(default_factory=lambda: np.zeros((0, 0)))  # [runs, points], where single runs may be drawn


@dataclass(frozen=True)
class Panel:
    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    mark: float | None = None  # a value of x that means "no difference"


@dataclass(frozen=True)
class Chart:
    """``facts`` say how the numbers were made; ``caption`` says the same in a sentence for the reader of the figure."""

    kind: str
    panels: Sequence[Panel]
    caption: str
    facts: Mapping[str, Any]
    notes: Sequence[str] = ()

    @property
    def names(self) -> list[str]:
        """All lines, each once, in the order in which they are drawn: a line has one style in all panels."""
        found: dict[str, None] = {}
        for panel in self.panels:
            found |= dict.fromkeys(series.name for series in panel.series)
        return list(found)

    def as_json(self) -> dict[str, Any]:
        panels = []
        for panel in self.panels:
            series = [_series_as_json(one) for one in panel.series]
            panels.append({"title": panel.title, "x": panel.x_label, "y": panel.y_label, "lines": series})
        return {
            "kind": self.kind,
            "caption": self.caption,
            **self.facts,
            "panels": panels,
            "notes": list(self.notes),
        }

    def as_csv(self) -> str:
        """One row per drawn point."""
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(COLUMNS)
        for panel in self.panels:
            for series in panel.series:
                for place, middle in enumerate(series.middle):
                    # Estimates have no x: their cell stays empty.
                    x = series.x[place].item() if len(series.x) else ""
                    low, high = series.low[place].item(), series.high[place].item()
                    table.writerow([panel.title, series.name, series.runs, x, middle.item(), low, high])
        return text.getvalue()


def _series_as_json(series: Series) -> dict[str, Any]:
    return {
        "name": series.name,
        "runs": series.runs,
        "x": series.x.tolist(),
        "middle": series.middle.tolist(),
        "low": series.low.tolist(),
        "high": series.high.tolist(),
    }
