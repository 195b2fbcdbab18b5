"""The files of the page, and the document that holds them together.

Modules import each other by names such as ``marl/dom.js``, which an import map leads to the server's files, or in a file of
its own to the text itself. So one set of modules serves both, and nothing is built.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

STATIC = Path(__file__).parent / "static"
MEDIA = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
MODULES = "marl/"  # what the names of our modules begin with
FIRST_STYLES = ("vendor/uPlot.min.css", "css/base.css")
SCRIPTS = ("vendor/uPlot.iife.min.js",)  # no modules: they leave a global name
FRAME, ROUTES = "marl/main.js", "marl/routes.js"
NAMED = re.compile(rb"""["'](marl/[\w/.-]+\.js)["']""")  # how modules name each other
START = f'import "{FRAME}";'
SLOTS = ("icon", "policy", "import_map", "styles", "scripts", "saved", "start")


@cache
def files() -> dict[str, bytes]:
    """All files by their names inside the folder. They are part of the package and do not change while it runs."""
    found = {}
    for path in sorted(STATIC.rglob("*")):
        if path.is_file() and path.suffix in MEDIA:
            found[path.relative_to(STATIC).as_posix()] = path.read_bytes()
    return found


def modules() -> dict[str, str]:
    """The names of the modules, and their files."""
    found = {}
    for name in files():
        if name.startswith("js/") and name.endswith(".js"):
            found[MODULES + name.removeprefix("js/")] = name
    return found


def needed(view: str) -> set[str]:
    """The names of the modules that one view is made of, with the frame around it."""
    known = modules()
    found: set[str] = set()
    left = [FRAME, f"{MODULES}views/{view}.js"]
    while left:
        name = left.pop()
        if name in known and name not in found:
            found.add(name)
            left += _named_in(name, known[name])
    return found


def _named_in(name: str, file: str) -> list[str]:
    mentioned = [word.decode() for word in NAMED.findall(files()[file])]
    if name == ROUTES:  # it names all views, which are loaded one at a time
        mentioned = [word for word in mentioned if not word.startswith(f"{MODULES}views/")]
    return mentioned


def styles() -> list[str]:
    """Style sheets in the order in which they apply: colours and elements first, then those of views."""
    of_views = [name for name in files() if name.startswith("css/") and name not in FIRST_STYLES]
    return [*FIRST_STYLES, *of_views]


def data_url(name: str) -> str:
    """A file as an address that holds all of it."""
    media = MEDIA[Path(name).suffix].replace(" ", "")
    return f"data:{media};base64,{base64.b64encode(files()[name]).decode()}"


def import_map(addresses: Mapping[str, str]) -> str:
    return json.dumps({"imports": dict(addresses)}, separators=(",", ":"))


def script_hash(text: str) -> str:
    """How a content security policy names an inline script that may run."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def document(**slots: str) -> str:
    """The page's HTML with its slots filled in; texts must be escaped already."""
    text = (STATIC / "index.html").read_text(encoding="utf-8")
    for name in SLOTS:
        text = text.replace(f"<!--{name}-->", slots.get(name, ""))
    return text


# -- as the server gives it ------------------------------------------------------------------------------------------


@cache
def served_page() -> tuple[str, str]:
    """The document, and the policy that it is sent with: it runs this package's files and nothing else."""
    addresses = {module: f"/static/{file}" for module, file in modules().items()}
    imports = import_map(addresses)
    text = document(
        icon='<link rel="icon" href="/static/icon.svg">',
        import_map=f'<script type="importmap">{imports}</script>',
        styles="".join(f'<link rel="stylesheet" href="/static/{name}">' for name in styles()),
        scripts="".join(f'<script src="/static/{name}"></script>' for name in SCRIPTS),
        start=f'<script type="module">{START}</script>',
    )
    ours = f"'self' {script_hash(imports)} {script_hash(START)}"
    policy = (
        f"default-src 'none'; script-src {ours}; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    )
    return text, policy
