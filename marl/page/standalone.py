"""A view of the page as one HTML file: it holds the modules, the styles and the answers that the view was made of.

    Path("curve.html").write_text(standalone("#/runs/two_step_game", {"/api/runs/two_step_game": {...}}, "QMIX"))

Opened from a disk it loads nothing from anywhere. What has to ask the server (play, start a run) is switched off in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import unquote

from marl.page.assets import SCRIPTS, START, data_url, document, files, import_map, modules, needed, styles

FIRST_VIEW = "runs"  # of an address that names none
# Only what is inside of the file runs: modules are data addresses, and nothing may be loaded from elsewhere.
POLICY = "default-src 'none'; script-src data: 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def standalone(view: str, answers: Mapping[str, Any], title: str) -> str:
    """The file. ``view`` is the address of the view behind the page's (``#/runs/...``), ``answers`` what the server would say
    to the requests that the view makes."""
    word = unquote(view.lstrip("#/").partition("?")[0].partition("/")[0])
    inside = needed(word or FIRST_VIEW)
    addresses = {module: data_url(file) for module, file in modules().items() if module in inside}
    saved = {"view": view, "title": title, "answers": dict(answers)}
    sheets = "".join(f"<style>{files()[name].decode()}</style>" for name in styles())
    return document(
        icon=f'<link rel="icon" href="{data_url("icon.svg")}">',
        policy=f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">',
        import_map=f'<script type="importmap">{import_map(addresses)}</script>',
        styles=sheets,
        scripts="".join(f'<script src="{data_url(name)}"></script>' for name in SCRIPTS),
        saved=f'<script type="application/json" id="saved">{inside_of_a_script(saved)}</script>',
        start=f'<script type="module">{START}</script>',
    )


def inside_of_a_script(content: Any) -> str:
    """JSON that cannot end the script element around it, nor begin a comment in it, whatever names and texts it has."""
    text = json.dumps(content, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
