"""The report as readers get it: as text for a terminal, and as one HTML file.

The page has its styles, scripts and drawings inside, loads nothing from anywhere, and everything from files is escaped. Where
scripts run, tables and rankings become the drawings of ``marl watch``; printed, or without scripts, they stay as they are.
"""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from io import StringIO
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from marl.analysis.report.content import Block, Grid, Live, Picture, Section, Words, still
from marl.errors import printable
from marl.page.embed import embedded

WIDTH = 110  # of the text, in characters
SHEETS = ("css/base.css", "css/games.css")  # colours, elements and drawings, as on the page of marl watch
STYLE = """
body { margin: 0 auto; max-width: 60rem; padding: 1rem; font-size: 16px; line-height: 1.55; }
main { max-width: none; padding: 0; }
h1 { font-size: 1.6rem; margin: .5rem 0 .25rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--line); }
nav ol { margin: .5rem 0; padding-left: 1.5rem; }
p { margin: .6rem 0; }
.warning { background: var(--warn-ground); border-left: 3px solid #d69600; padding: .5rem .75rem; }
.scroll { margin: .75rem 0; }
table { width: auto; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { font-weight: 600; color: inherit; }
th, td { padding: .3rem .7rem .3rem 0; }
th { white-space: normal; }
tbody th { font-weight: 500; }
/* Cells have light grounds of their own, in dark too. */
.heat-table td { text-align: center; white-space: nowrap; padding: .3rem .45rem; border: 1px solid #fff;
  line-height: 1.25; color: #24292f; }
.heat-table thead td { border: 0; }
.heat-table small { font-size: .78em; color: #424a53; }
.heat-table thead th { text-align: center; padding: .3rem .45rem; }
.heat-table tbody th { white-space: nowrap; padding-right: .75rem; }
.heat-table tbody tr:hover { background: none; }
figure { margin: .75rem 0; }
figure img { max-width: 100%; height: auto; background: #fff; border-radius: var(--radius); }
figcaption { overflow-wrap: anywhere; }
footer { margin-top: 3rem; font-size: .85rem; color: var(--quiet); }
.rank { max-width: 32rem; }
.replaced { display: none; }
@media (max-width: 40rem) { body { font-size: 15px; padding: .75rem; } table { font-size: .82rem; } }
@media print {
  body { max-width: none; }
  h2 { break-after: avoid; }
  figure, tr { break-inside: avoid; }
  .live { display: none; }
  .replaced { display: block; }
}
"""
LOW, HIGH = (230, 126, 34), (31, 111, 235)


# -- text --------------------------------------------------------------------------------------------------------------


def as_text(title: str, sections: Sequence[Section]) -> str:
    lines = [title, "=" * len(title), ""]
    for section in sections:
        lines += [section.title, "-" * len(section.title), ""]
        for block in still(section.blocks):
            lines += _lines(block)
    return printable("\n".join(lines).rstrip() + "\n")


def _lines(block: Words | Grid | Picture) -> list[str]:
    """A block without its drawings."""
    if isinstance(block, Words):
        start = {"plain": "", "meaning": "  ", "warning": "! "}[block.kind]
        return [*textwrap.wrap(block.text, WIDTH, initial_indent=start, subsequent_indent=" " * len(start)), ""]
    if isinstance(block, Grid):
        return [block.caption, *_table_lines(block), ""]
    return []


def _table_lines(grid: Grid) -> list[str]:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_header=any(grid.head), show_edge=False)
    for title in grid.head:
        table.add_column(Text(title), overflow="fold")
    for row in grid.rows:
        table.add_row(*map(Text, row))
    width = WIDTH
    if grid.shades:
        # A heat map is never folded: its rows have to stay rows.
        for column in table.columns[1:]:
            column.no_wrap = True
        columns = zip(grid.head, *grid.rows, strict=True)
        width = max(WIDTH, sum(max(map(len, cells)) + 3 for cells in columns))
    screen = StringIO()
    Console(file=screen, width=width, emoji=False, color_system=None).print(table)
    return [line.rstrip() for line in screen.getvalue().splitlines()]


# -- HTML --------------------------------------------------------------------------------------------------------------


def as_page(title: str, subtitle: str, sections: Sequence[Section], shown: Mapping[str, Any] | None = None) -> str:
    """One file. Drawings that can be touched are made of ``shown`` where scripts run; all it says is there without them."""
    parts = embedded("report.js", shown, SHEETS)
    entries, body = "", ""
    for section in sections:
        entries += f'<li><a href="#{escape(section.key)}">{escape(section.title)}</a></li>'
        body += _section(section)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n{parts.policy}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n{parts.head}<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<header><h1>{escape(title)}</h1><p>{escape(subtitle)}</p></header>\n"
        f'<nav aria-label="Contents"><ol>{entries}</ol></nav>\n<main>\n{body}</main>\n'
        "<footer>Made by <code>marl report</code>. The numbers are in report.json beside this page.</footer>\n"
        f"{parts.start}</body>\n</html>\n"
    )


def _section(section: Section) -> str:
    blocks = "".join(_block(block) for block in section.blocks)
    key = escape(section.key)
    title = f'<h2 id="{key}-title">{escape(section.title)}</h2>'
    return f'<section id="{key}" aria-labelledby="{key}-title">\n{title}\n{blocks}</section>\n'


def _block(block: Block) -> str:
    match block:
        case Words():
            return _words(block)
        case Grid():
            return _table(block)
        case Live():
            return _live(block)
    return _figure(block)


def _live(live: Live) -> str:
    """A place for a drawing, empty and out of sight until a script fills it, and what stands there without one."""
    still = "".join(_block(block) for block in live.blocks)
    place = f'<div class="live" data-part="{escape(live.part)}" data-key="{escape(live.key)}" hidden></div>'
    return f'{place}\n<div class="still">{still}</div>\n'


def _words(words: Words) -> str:
    if words.kind == "plain":
        return f"<p>{escape(words.text)}</p>\n"
    start = "<strong>What this means.</strong> " if words.kind == "meaning" else ""
    return f'<p class="{words.kind}">{start}{escape(words.text)}</p>\n'


def _table(grid: Grid) -> str:
    rows = []
    for r, (name, *texts) in enumerate(grid.rows):
        cells = ""
        for c, text in enumerate(texts):
            cells += f"<td{_shade(grid, r, c)}>{_cell(grid, text)}</td>"
        rows.append(f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>\n')
    kind = ' class="heat-table"' if grid.shades else ""
    top = ""
    if any(grid.head):
        titles = "".join(map(_title, grid.head))
        top = f"<thead><tr>{titles}</tr></thead>"
    # A region with a tabindex can be scrolled by the keyboard, which a wide table needs.
    label = escape(grid.caption)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{label}"><table{kind}><caption>{label}</caption>{top}'
        f"<tbody>\n{''.join(rows)}</tbody></table></div>\n"
    )


def _cell(grid: Grid, text: str) -> str:
    """In heat maps the error stands below the mean, so that many columns fit."""
    mean, sign, error = text.partition(" ± ")
    if grid.shades and sign:
        return f"{escape(mean)}<br><small>± {escape(error)}</small>"
    return escape(text).replace(" ± ", "&nbsp;±&nbsp;")


def _title(title: str) -> str:
    return f'<th scope="col">{escape(title)}</th>' if title else "<td></td>"


def _shade(grid: Grid, row: int, column: int) -> str:
    """Orange for low, white in the middle, blue for high; never so dark that black letters are hard to read."""
    if not grid.shades:
        return ""
    shade = grid.shades[row][column]
    if shade is None:
        return ""
    colour = HIGH if shade > 0 else LOW
    strength = 0.62 * min(1.0, abs(shade))
    red, green, blue = (round(255 + strength * (part - 255)) for part in colour)
    return f' style="background:rgb({red},{green},{blue})"'


def _figure(picture: Picture) -> str:
    # An image, not SVG in the page: nothing in it can run, and ids of two drawings cannot clash.
    data = base64.b64encode(picture.svg.encode()).decode()
    return (
        f'<figure><img alt="{escape(picture.alt)}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{escape(picture.caption)}</figcaption></figure>\n"
    )
