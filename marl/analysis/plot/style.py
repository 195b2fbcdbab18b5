"""How figures look: colours that colour-blind readers can tell apart, lines that survive grey printing, sizes of papers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from marl.errors import ConfigError, did_you_mean
from marl.runs.pictures import reason_of

# Okabe and Ito (2008), without yellow, which cannot be seen on white paper.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# Dashes and markers change with every line as well: printed in grey, blue and vermilion are the same.
# Five dashes and eight markers against seven colours: no combination comes twice in 35 lines.
DASHES: tuple[Any, ...] = ("solid", (0, (4.5, 1.5)), (0, (1.2, 1.2)), (0, (6, 1.5, 1.2, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

WIDTHS = {"column": 3.25, "page": 6.75}  # inches, of a two-column paper
SMALLEST, LARGEST = 1.0, 40.0  # inches of a side
NARROWEST_PANEL = 1.5  # inches; narrower ones have no room for their ticks
LOG_AXES: Mapping[str, tuple[str, ...]] = {"": (), "x": ("x",), "y": ("y",), "both": ("x", "y")}


class Pen(NamedTuple):
    colour: str
    dashes: Any
    marker: str


def pen(number: int) -> Pen:
    """How the line of this number is drawn, in every panel."""
    return Pen(COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)], MARKERS[number % len(MARKERS)])


class Size(NamedTuple):
    """Inches; without a height it follows from the number of panels."""

    width: float
    height: float | None


COLUMN = Size(WIDTHS["column"], None)


@dataclass(frozen=True)
class Look:
    """All that changes the drawing and no number."""

    size: Size = COLUMN
    columns: int | None = None
    font: str = "DejaVu Sans"  # comes with matplotlib, so figures look alike on every machine
    font_size: float = 8.0
    title: str = ""
    x_label: str | None = None
    y_label: str | None = None
    x_limits: tuple[float, float] | None = None
    y_limits: tuple[float, float] | None = None
    log: str = ""
    single_runs: bool = False
    dpi: int = 300


def read_size(text: str) -> Size:
    """``column``, ``page``, or inches as in 5x3."""
    if text in WIDTHS:
        return Size(WIDTHS[text], None)
    try:
        width, height = map(float, text.lower().split("x"))
    except ValueError:
        width, height = 0.0, 0.0
    if not all(SMALLEST <= side <= LARGEST for side in (width, height)):
        raise ConfigError(
            f"--size {text!r}: expected column ({WIDTHS['column']} inches wide), page ({WIDTHS['page']}), or WIDTHxHEIGHT in "
            f"inches from {SMALLEST:g} to {LARGEST:g}, such as 5x3."
        )
    return Size(width, height)


@contextmanager
def drawing(look: Look) -> Iterator[None]:
    """Within this block matplotlib draws in this look, whatever the user's own settings are."""
    try:
        import matplotlib
        from matplotlib import font_manager
    except Exception as error:  # a backend that does not exist ends the import
        raise ConfigError(f"nothing can be drawn: {reason_of(error)}.") from error
    try:
        font_manager.findfont(look.font, fallback_to_default=False)
    except ValueError:
        known = sorted(set(font_manager.get_font_names()))
        raise ConfigError(
            f"--font {look.font!r}: there is no such font here.{did_you_mean(look.font, known)} Always there: DejaVu Sans, "
            "DejaVu Serif, STIXGeneral (like Times)."
        ) from None
    settings: Any = {**matplotlib.rcParamsDefault, "backend": "agg", **_settings(look)}
    with matplotlib.rc_context(settings):
        yield


def _settings(look: Look) -> dict[str, Any]:
    small = look.font_size - 1
    return {
        "font.family": look.font,
        "font.size": look.font_size,
        "axes.titlesize": look.font_size,
        "axes.labelsize": look.font_size,
        "figure.labelsize": look.font_size,
        "figure.titlesize": look.font_size + 1,
        "xtick.labelsize": small,
        "ytick.labelsize": small,
        "legend.fontsize": small,
        "axes.linewidth": 0.6,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "xtick.major.size": 2.5,
        "ytick.major.size": 2.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.grid": True,
        "grid.linewidth": 0.4,
        "grid.alpha": 0.35,
        "lines.linewidth": 1.2,
        "lines.markersize": 3.2,
        # TrueType as it is: journals refuse the Type 3 fonts that matplotlib writes by itself.
        "pdf.fonttype": 42,
        # Letters of an SVG are outlines: any viewer shows them alike.
        "svg.fonttype": "path",
        "svg.hashsalt": "marl",  # ids are random otherwise, and the same figure another file
    }
