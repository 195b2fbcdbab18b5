"""The report as one HTML file: styles and drawings inside, nothing loaded from anywhere, everything from files escaped."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape

from marl.analysis.report.content import Block, Grid, Picture, Section, Words

STYLE = """
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 56rem; padding: 1rem; background: #fff; color: #24292f;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: .5rem 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .75rem; padding-top: .75rem; border-top: 1px solid #d0d7de; }
nav ol { margin: .5rem 0; padding-left: 1.5rem; }
a { color: #0a58ca; }
p { margin: .6rem 0; overflow-wrap: anywhere; }
.meaning { color: #57606a; font-size: .92rem; border-left: 3px solid #d0d7de; padding-left: .75rem; }
.warning { background: #fff3d6; border-left: 3px solid #d69600; padding: .5rem .75rem; }
.scroll { overflow-x: auto; margin: .75rem 0; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .25rem 0; }
th, td { text-align: left; vertical-align: top; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid #eaeef2; }
th { font-weight: 600; }
tbody th { font-weight: 500; }
.heat td { text-align: center; white-space: nowrap; padding: .3rem .45rem; border: 1px solid #fff; line-height: 1.25; }
.heat small { font-size: .78em; color: #424a53; }
.heat thead th { text-align: center; padding: .3rem .45rem; }
.heat tbody th { white-space: nowrap; padding-right: .75rem; }
figure { margin: .75rem 0; }
figure img { max-width: 100%; height: auto; }
figcaption { font-size: .9rem; color: #57606a; overflow-wrap: anywhere; }
footer { margin-top: 3rem; font-size: .85rem; color: #57606a; }
@media (max-width: 40rem) { body { font-size: 15px; padding: .75rem; } table { font-size: .82rem; } }
@media print { body { max-width: none; } h2 { break-after: avoid; } figure, tr { break-inside: avoid; } }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""What the page may load: its own styles and drawings."""
LOW, HIGH = (230, 126, 34), (31, 111, 235)


def as_page(title: str, subtitle: str, sections: Sequence[Section]) -> str:
    entries = "".join(f'<li><a href="#{escape(s.key)}">{escape(s.title)}</a></li>' for s in sections)
    body = "".join(_section(section) for section in sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<header><h1>{escape(title)}</h1><p>{escape(subtitle)}</p></header>\n"
        f'<nav aria-label="Contents"><ol>{entries}</ol></nav>\n<main>\n{body}</main>\n'
        "<footer>Made by <code>marl report</code>. The numbers are in report.json beside this page.</footer>\n"
        "</body>\n</html>\n"
    )


def _section(section: Section) -> str:
    blocks = "".join(_block(block) for block in section.blocks)
    key = escape(section.key)
    title = f'<h2 id="{key}-title">{escape(section.title)}</h2>'
    return f'<section id="{key}" aria-labelledby="{key}-title">\n{title}\n{blocks}</section>\n'


def _block(block: Block) -> str:
    if isinstance(block, Words):
        return _words(block)
    return _table(block) if isinstance(block, Grid) else _figure(block)


def _words(words: Words) -> str:
    if words.kind == "plain":
        return f"<p>{escape(words.text)}</p>\n"
    start = "<strong>What this means.</strong> " if words.kind == "meaning" else ""
    return f'<p class="{words.kind}">{start}{escape(words.text)}</p>\n'


def _table(grid: Grid) -> str:
    head = "".join(_title(title) for title in grid.head)
    rows = []
    for r, row in enumerate(grid.rows):
        cells = "".join(f"<td{_shade(grid, r, c)}>{_cell(grid, cell)}</td>" for c, cell in enumerate(row[1:]))
        rows.append(f'<tr><th scope="row">{escape(row[0])}</th>{cells}</tr>\n')
    kind = ' class="heat"' if grid.shades else ""
    top = f"<thead><tr>{head}</tr></thead>" if any(grid.head) else ""
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
    shade = grid.shades[row][column] if grid.shades else None
    if shade is None:
        return ""
    strength, colour = 0.62 * min(1.0, abs(shade)), HIGH if shade > 0 else LOW
    mixed = (round(255 + strength * (part - 255)) for part in colour)
    return f' style="background:rgb({",".join(map(str, mixed))})"'


def _figure(picture: Picture) -> str:
    data = base64.b64encode(picture.svg.encode()).decode()
    return (
        f'<figure><img alt="{escape(picture.alt)}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{escape(picture.caption)}</figcaption></figure>\n"
    )
