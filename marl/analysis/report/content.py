"""What a report is made of. Sections are written once, as blocks; terminal and page only differ in how blocks are shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from marl.runs.pictures import draw_or_warn

Shades: TypeAlias = Sequence[Sequence[float | None]]
"""Per cell -1 (low) to 1 (high), None for none."""


@dataclass(frozen=True)
class Words:
    """A paragraph. ``meaning``: what the numbers above mean, for readers who do not know the field."""

    text: str
    kind: Literal["plain", "meaning", "warning"] = "plain"


@dataclass(frozen=True)
class Grid:
    """A table; the first cell of each row names the row. ``shades`` colour the other cells."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    shades: Shades = ()


@dataclass(frozen=True)
class Picture:
    """A drawing as SVG. ``alt`` says what it shows to those who cannot see it."""

    svg: str
    alt: str
    caption: str


@dataclass(frozen=True)
class Live:
    """Blocks in whose place a page on which scripts run shows a drawing that can be touched; all others show the blocks.

    ``part`` is the kind of drawing (``report.js`` has them by this name), ``key`` says which one of several.
    """

    part: Literal["heat", "rank", "graph", "bounds"]
    blocks: Sequence[Words | Grid | Picture]
    key: str = ""


Block: TypeAlias = Words | Grid | Picture | Live


@dataclass(frozen=True)
class Section:
    """A chapter of the report; ``key`` is its place in the JSON and its anchor on the page."""

    key: str
    title: str
    blocks: Sequence[Block] = field(default_factory=list)


def still(blocks: Sequence[Block]) -> list[Words | Grid | Picture]:
    """The blocks as they are where no scripts run."""
    found: list[Words | Grid | Picture] = []
    for block in blocks:
        if isinstance(block, Live):
            found += block.blocks
        else:
            found.append(block)
    return found


def picture(draw: Callable[[], str], alt: str, caption: str) -> Picture | Words:
    """The drawing, or a sentence that says that it is missing: its numbers stand beside it anyway."""
    svg = draw_or_warn(repr(caption), draw)
    if svg is None:
        return warning(f"The picture {caption!r} could not be drawn. It would show: {alt}")
    return Picture(svg, alt, caption)


def meaning(text: str) -> Words:
    return Words(text, "meaning")


def warning(text: str) -> Words:
    return Words(text, "warning")


def number(value: float, digits: int = 3) -> str:
    """Short, and never -0."""
    if abs(value) < 1e-12:
        return "0"
    return f"{value + 0.0:.{digits}g}"


def with_error(value: float, error: float) -> str:
    return f"{number(value)} ± {number(error, 2)}"


def plural(count: int, noun: str) -> str:
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun}s"


def joined(words: Sequence[str]) -> str:
    """a, b and c."""
    if len(words) < 2:
        return "".join(words)
    *most, last = words
    return f"{', '.join(most)} and {last}"
