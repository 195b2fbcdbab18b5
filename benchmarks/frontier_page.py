"""From the files of ``frontier.py`` to the section of a page: a table of where runs ended, and curves as SVG.

The section stands between two marks, so that the rest of the page stays as it was written. Intervals are those of Student's
distribution over seeds, at 95 %.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from frontier_settings import GAMES, METHODS
from scipy.stats import t as student

BEGIN, END = "<!-- frontier: written by benchmarks/frontier.py --page -->", "<!-- frontier: end -->"
# Colours of Okabe and Ito, which the colour-blind tell apart.
COLOURS = {
    "ppo": "#d55e00", "mmd": "#0072b2", "nfsp": "#009e73", "psro": "#cc79a7", "rnad": "#e69f00", "escher": "#56b4e9",
    "deep_cfr": "#555555",
}  # fmt: skip
WIDTH, HEIGHT, MARGIN = 250, 170, 34


class Cell(NamedTuple):
    """All seeds of one method in one game."""

    game: str
    method: str
    plies: int
    curves: list[list[dict[str, float]]]

    @property
    def ends(self) -> list[float]:
        return [curve[-1]["nash_conv"] for curve in self.curves]

    @property
    def smallest(self) -> list[float]:
        """Of each seed: what it would have had, stopped at the right moment."""
        return [min(point["nash_conv"] for point in curve) for curve in self.curves]

    @property
    def complete(self) -> bool:
        return all(curve[-1]["plies"] >= self.plies for curve in self.curves)


def read_cells(folder: Path) -> list[Cell]:
    """What is in the folder; runs without a point are left out."""
    found: dict[tuple[str, str], Cell] = {}
    for file in sorted(folder.glob("*/points.json")):
        known: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        game, method, _ = file.parent.name.split(".")
        if known["points"]:
            cell = found.setdefault((game, method), Cell(game, method, known["plies"], []))
            cell.curves.append(known["points"])
    return list(found.values())


def read_page(numbers: Path) -> list[Cell]:
    """The cells that the page has by now."""
    if not numbers.is_file():
        return []
    known: list[dict[str, Any]] = json.loads(numbers.read_text(encoding="utf-8"))
    return [Cell(cell["game"], cell["method"], cell["plies"], cell["curves"]) for cell in known]


def together(old: Sequence[Cell], new: Sequence[Cell]) -> list[Cell]:
    """Cells that were not measured anew stay as they are; in the order of games and methods."""
    found = {(cell.game, cell.method): cell for cell in [*old, *new]}
    order = {name: i for i, name in enumerate([*GAMES, *METHODS])}
    return sorted(found.values(), key=lambda cell: (order[cell.game], order[cell.method]))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and half of the interval in which it lies; nan for one value, which says nothing about others."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, float("nan")
    spread = statistics.stdev(values) / len(values) ** 0.5
    return mean, float(student.ppf(0.975, len(values) - 1)) * spread


def table(cells: Sequence[Cell]) -> str:
    lines = [
        "| game | method | plies | seeds | NashConv at the end | of the best seed | smallest on the way | CPU s per seed |",
        "|" + "---|" * 8,
    ]
    for cell in cells:
        mean, half = interval(cell.ends)
        plies = min(int(curve[-1]["plies"]) for curve in cell.curves)
        played = f"{plies:,}" if cell.complete else f"{plies:,} of {cell.plies:,}"
        error = "" if half != half else f" ± {half:.3f}"
        seconds = statistics.fmean(curve[-1]["train_s"] for curve in cell.curves)
        lines.append(
            f"| {GAMES[cell.game].title} | {cell.method} | {played} | {len(cell.curves)} | {mean:.3f}{error} | "
            f"{min(cell.ends):.3f} | {statistics.fmean(cell.smallest):.3f} | {seconds:.0f} |"
        )
    return "\n".join(lines)


# -- curves ------------------------------------------------------------------------------------------------------------


def _mean_curve(cell: Cell) -> list[tuple[float, float, float]]:
    """Plies, mean and half of the interval, as far as all seeds have come."""
    found = []
    for points in zip(*cell.curves, strict=False):
        mean, half = interval([point["nash_conv"] for point in points])
        found.append((points[0]["plies"], mean, 0.0 if half != half else half))
    return found


def _panel(game: str, cells: Sequence[Cell], x0: int) -> list[str]:
    """One game's curves with their bands."""
    curves = {cell.method: _mean_curve(cell) for cell in cells}
    most_plies = max(cell.plies for cell in cells)
    top = max(mean for curve in curves.values() for _, mean, _ in curve) * 1.05

    def place(plies: float, value: float) -> str:
        x = x0 + MARGIN + plies / most_plies * (WIDTH - MARGIN - 8)
        y = HEIGHT - MARGIN + 8 - min(max(value, 0.0), top) / top * (HEIGHT - MARGIN - 16)
        return f"{x:.1f},{y:.1f}"

    parts = [f'<text x="{x0 + WIDTH / 2}" y="12" text-anchor="middle">{GAMES[game].title}</text>']
    for share in (0.0, 0.5, 1.0):
        end = place(most_plies, top * share)
        begin = place(0, top * share)
        parts.append(f'<path d="M {begin} L {end}" stroke="#ccc" fill="none"/>')
        x, y = begin.split(",")
        parts.append(f'<text x="{float(x) - 3}" y="{float(y) + 3}" text-anchor="end">{top * share:.2f}</text>')
    x, y = place(most_plies, 0).split(",")
    parts.append(f'<text x="{x}" y="{float(y) + 12}" text-anchor="end">{most_plies / 1e6:g} M plies</text>')
    for method, curve in curves.items():
        upper = [place(plies, mean + half) for plies, mean, half in curve]
        lower = [place(plies, mean - half) for plies, mean, half in reversed(curve)]
        colour = COLOURS[method]
        parts.append(f'<polygon points="{" ".join([*upper, *lower])}" fill="{colour}" opacity="0.2"/>')
        line = " ".join(place(plies, mean) for plies, mean, _ in curve)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    return parts


def curves_svg(cells: Sequence[Cell]) -> str:
    """Panels side by side, one per game, and who is who below them."""
    games = list(dict.fromkeys(cell.game for cell in cells))
    width = WIDTH * len(games)
    parts: list[str] = []
    for i, game in enumerate(games):
        parts += _panel(game, [cell for cell in cells if cell.game == game], i * WIDTH)
    for i, method in enumerate(dict.fromkeys(cell.method for cell in cells)):
        x = MARGIN + i * 80
        parts.append(f'<rect x="{x}" y="{HEIGHT + 2}" width="14" height="4" fill="{COLOURS[method]}"/>')
        parts.append(f'<text x="{x + 18}" y="{HEIGHT + 8}">{method}</text>')
    body = "\n".join(parts)
    size = f'viewBox="0 0 {width} {HEIGHT + 14}" font-family="sans-serif" font-size="9"'
    paper = '<rect width="100%" height="100%" fill="white"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n{paper}\n{body}\n</svg>\n'


# -- the page ----------------------------------------------------------------------------------------------------------


def write_page(folder: Path, page: Path) -> None:
    """Table and curves between the marks of the page; the numbers beside the picture as JSON. What the page has and the folder
    has not stays: a table may be measured in parts, on several machines."""
    measured = read_cells(folder)
    if not measured:
        raise SystemExit(f"{folder} holds no measurements yet. Run benchmarks/frontier.py {folder} first.")
    text = page.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise SystemExit(f"{page} has no lines {BEGIN!r} and {END!r} to write between.")
    picture = page.parent / "pictures" / "frontier.svg"
    cells = together(read_page(picture.with_suffix(".json")), measured)
    picture.write_text(curves_svg(cells), encoding="utf-8")
    numbers: list[Mapping[str, Any]] = [{**cell._asdict(), "ends": cell.ends} for cell in cells]
    picture.with_suffix(".json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    section = f"\n{table(cells)}\n\n![NashConv over plies](pictures/frontier.svg)\n"
    page.write_text(f"{before}{BEGIN}\n{section}\n{END}{after}", encoding="utf-8")
