"""Some modules of the page inside of another HTML file, such as a report: the same drawings, and nothing is loaded.

    parts = embedded("report.js", {"payoffs": ...}, styles=["css/base.css", "css/games.css"])
    f"<head>{parts.policy}{parts.head}</head><body>...{parts.start}</body>"

The file has to make sense without them: where scripts are off, none of this runs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from marl.page.assets import MODULES, data_url, files, import_map, modules, script_hash
from marl.page.standalone import inside_of_a_script

DATA = "data"  # the id of the element that holds the numbers
IMPORTED = re.compile(r'(?:from|import) "(marl/[\w/.-]+)"')


@dataclass(frozen=True)
class Embedded:
    """Markup for the head of a file and for the end of its body."""

    policy: str  # an element; it has to come first, because it holds for what follows
    head: str
    start: str


def embedded(entry: str, data: Any, styles: Sequence[str]) -> Embedded:
    """The module ``entry`` and all that it imports, with the numbers that it shows."""
    known = modules()
    addresses = {name: data_url(known[name]) for name in needed_by(MODULES + entry)}
    imports = import_map(addresses)
    begin = f'import "{MODULES}{entry}";'
    # Scripts are named by their hashes, so whatever got into the file in some other way would not run as one.
    ours = f"data: {script_hash(imports)} {script_hash(begin)}"
    policy = f"default-src 'none'; script-src {ours}; style-src 'unsafe-inline'; img-src data: blob:"
    sheets = "".join(f"<style>{files()[name].decode()}</style>\n" for name in styles)
    numbers = f'<script type="application/json" id="{DATA}">{inside_of_a_script(data)}</script>\n'
    return Embedded(
        policy=f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n',
        head=f'{sheets}<script type="importmap">{imports}</script>\n{numbers}',
        start=f'<script type="module">{begin}</script>\n',
    )


def needed_by(module: str) -> list[str]:
    """The module and everything that it imports, directly or not."""
    found: list[str] = []
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.append(name)
            waiting += IMPORTED.findall(files()[modules()[name]].decode())
    return sorted(found)
