"""Pieces of HTML for notebooks: small tables, and long things folded away.

Names of policies, agents and players may come out of a stranger's file, and a notebook runs what stands in its outputs. So
every text passes through ``escape``, and nothing here takes markup except what these functions have made (``Html``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NewType

Html = NewType("Html", str)
MANY = 8  # rows that are shown at once; more are folded
LONGEST = 200  # characters of one value
DEEPEST = 30  # levels of a tree; a file may hold more than Python can go down
STYLE = "font-variant-numeric: tabular-nums"


def text(value: object) -> Html:
    """A value as people read it, cut where it is long."""
    if isinstance(value, float):
        value = f"{value:.6g}"
    words = str(value)
    if len(words) > LONGEST:
        words = words[:LONGEST] + " …"
    return Html(escape(words))


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """A small table; rows beyond the first few are folded."""
    found = [_row(row) for row in rows]
    head = "".join(f"<th>{text(title)}</th>" for title in titles)
    shown = Html(f'<table style="{STYLE}"><tr>{head}</tr>{"".join(found[:MANY])}</table>')
    rest = found[MANY:]
    if not rest:
        return shown
    more = Html(f'<table style="{STYLE}"><tr>{head}</tr>{"".join(rest)}</table>')
    return Html(shown + folded(f"{len(rest)} more", more))


def _row(cells: Sequence[object]) -> str:
    return "<tr>" + "".join(f"<td>{text(cell)}</td>" for cell in cells) + "</tr>"


def folded(title: str, inside: Html) -> Html:
    """Only its title is seen until somebody asks for more."""
    return Html(f"<details><summary>{text(title)}</summary>{inside}</details>")


def tree(name: str, value: Any, depth: int = 0) -> Html:
    """A nested dict or a list, each level folded."""
    title = f"{name} ({len(value)})"
    if not isinstance(value, Mapping):
        return folded(title, table(("",), [(item,) for item in value]))
    plain: list[tuple[object, object]] = []
    deep = ""
    for key, item in value.items():
        if _nested(item) and depth == DEEPEST:
            plain.append((key, "…"))
        elif _nested(item):
            deep += tree(str(key), item, depth + 1)
        else:
            plain.append((key, item))
    # What is one line each comes first; what has to be opened is easier to find below it.
    return folded(title, Html(table(("", ""), plain) + deep))


def _nested(value: object) -> bool:
    """Whether it is worth a fold of its own; an empty one is not."""
    return isinstance(value, Mapping | list | tuple) and len(value) > 0


def block(title: str, *parts: Html) -> Html:
    """What an object shows of itself."""
    return Html(f"<div><b>{text(title)}</b>{''.join(parts)}</div>")


def bar(fraction: float, label: str) -> Html:
    share = min(max(fraction, 0.0), 1.0)
    return Html(f'<div><progress value="{share:.4f}" max="1"></progress> {share:.0%} {text(label)}</div>')


def lines(words: Sequence[str]) -> Html:
    return Html("".join(f"<div>{text(line)}</div>" for line in words))
