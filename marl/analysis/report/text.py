"""The report for a terminal: the same blocks as the page, without drawings."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from io import StringIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from marl.analysis.report.content import Block, Grid, Section, Words
from marl.errors import printable

WIDTH = 110


def as_text(title: str, sections: Sequence[Section]) -> str:
    lines = [title, "=" * len(title), ""]
    for section in sections:
        lines += [section.title, "-" * len(section.title), ""]
        for block in section.blocks:
            lines += _lines(block)
    return printable("\n".join(lines).rstrip() + "\n")


def _lines(block: Block) -> list[str]:
    if isinstance(block, Words):
        start = {"plain": "", "meaning": "  ", "warning": "! "}[block.kind]
        return [*textwrap.wrap(block.text, WIDTH, initial_indent=start, subsequent_indent=" " * len(start)), ""]
    if isinstance(block, Grid):
        return [*_grid(block), ""]
    return []


def _grid(grid: Grid) -> list[str]:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_header=any(grid.head), show_edge=False)
    for place, title in enumerate(grid.head):
        # A heat map is never folded: its rows have to stay rows.
        table.add_column(Text(title), overflow="fold", no_wrap=bool(grid.shades) and place > 0)
    for row in grid.rows:
        table.add_row(*map(Text, row))
    wide = sum(max(len(row[c]) for row in [grid.head, *grid.rows]) + 3 for c in range(len(grid.head)))
    console = Console(file=StringIO(), width=max(WIDTH, wide) if grid.shades else WIDTH, emoji=False, color_system=None)
    console.print(table)
    assert isinstance(console.file, StringIO)
    return [grid.caption, *(line.rstrip() for line in console.file.getvalue().splitlines())]
