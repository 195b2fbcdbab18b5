"""The files of the page: ours are plain and complete, others' are what they were when they were taken."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from marl.page.assets import STATIC, files, modules, needed, served_page, styles

ENTRIES = ("marl/main.js", "marl/report.js")  # of the page, and of reports
LARGEST = 400_000  # bytes of all files as they are sent: browsers get them gzipped
LARGEST_FOLDER = 640_000  # as they lie there, readable
LARGEST_VIEW = 250_000  # the modules that are loaded for one view, as they lie there
LONGEST_LINE = 127  # as in Python; sentences may be longer
SENTENCE = re.compile(r"""["`][^"`]{50,}""")
OURS = sorted(name for name in files() if name.endswith((".js", ".css", ".svg")) and not name.startswith("vendor/"))
SCRIPTS = [name for name in OURS if name.endswith(".js")]
IMPORT = re.compile(r"""(?:\bfrom\s+|\bimport\s*\(?\s*)["']([^"']+)["']""")
NAMES = re.compile(r"""^import\s+\{([^}]*)\}\s+from\s+["']([^"']+)["']""", re.MULTILINE)
EXPORT = re.compile(r"^export\s+(?:async\s+)?(?:function\*?|const|let|class)\s+(\w+)", re.MULTILINE)
EXPORT_LIST = re.compile(r"^export\s*\{([^}]*)\}", re.MULTILINE)
# Ways from text to markup or code.
MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|createContextualFragment|DOMParser"
    r"|srcdoc|set(?:Timeout|Interval)\(\s*[\"'`]|setHTML|javascript:"
)
# The one address that is no address: the name of SVG.
NETWORK = re.compile(r"(?:https?:|wss?:)?//[a-z0-9-]+\.[a-z]|@import|\burl\((?!#|['\"]?data:)")
SVG = "http://www.w3.org/2000/svg"

READ_ALL = """
import vm from "node:vm";
import { readFileSync } from "node:fs";
for (const [name, text] of Object.entries(JSON.parse(readFileSync(0, "utf8")))) {
  try { new vm.SourceTextModule(text); } catch (error) { console.log(`${name}: ${error.message}`); }
}
"""


def text_of(name: str) -> str:
    return files()[name].decode("utf-8")


def test_the_whole_page_is_small() -> None:
    paths = [path for path in STATIC.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in paths) < LARGEST_FOLDER
    # Browsers get every file compressed, as the server does it; one view needs a part of them.
    assert sum(len(gzip.compress(path.read_bytes(), 5)) for path in paths) < LARGEST


def test_code_of_others_is_what_was_taken() -> None:
    vendor = STATIC / "vendor"
    listed = json.loads((vendor / "VENDOR.json").read_text())
    hashes = {}
    for about in listed.values():
        assert {"version", "licence", "source", "home", "files"} <= set(about)
        for name, file in about["files"].items():
            hashes[name] = file["sha256"]
            assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == file["sha256"], name
    there = {path.name for path in vendor.iterdir()} - {"VENDOR.json"}
    assert there == set(hashes)
    assert any(name.endswith("LICENSE.txt") for name in hashes)
    page = (Path(__file__).parents[2] / "docs" / "dependencies.md").read_text()
    for name, about in listed.items():
        assert f"| {name} {about['version']} |" in page


@pytest.mark.parametrize("name", OURS)
def test_a_file_of_ours_makes_no_markup_and_loads_nothing_from_elsewhere(name: str) -> None:
    text = text_of(name).replace(SVG, "")
    assert MARKUP.findall(text) == []
    assert NETWORK.findall(text) == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_lines_of_a_script_are_short_and_its_imports_are_there(name: str) -> None:
    text = text_of(name)
    long = [line for line in text.splitlines() if len(line) > LONGEST_LINE and not SENTENCE.search(line)]
    assert long == []
    assert set(IMPORT.findall(_without_comments(text))) <= set(modules())
    for names, module in NAMES.findall(text):
        wanted = {one.split(" as ")[0].strip() for one in names.split(",") if one.strip()}
        assert wanted <= exported(module), module


def _without_comments(text: str) -> str:
    return re.sub(r"/\*.*?\*/|^\s*//.*?$", "", text, flags=re.DOTALL | re.MULTILINE)


def exported(module: str) -> set[str]:
    text = text_of(modules()[module])
    found = set(EXPORT.findall(text))
    for names in EXPORT_LIST.findall(text):
        found |= {one.split(" as ")[-1].strip() for one in names.split(",") if one.strip()}
    return found


def test_every_module_is_used() -> None:
    """A file that nobody imports is dead weight."""
    used = set(ENTRIES)
    for name in SCRIPTS:
        used |= set(re.findall(r"[\"'](marl/[\w/.-]+\.js)[\"']", text_of(name)))
    assert set(modules()) - used == set()


def test_scripts_are_valid() -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node here; the browser reads the same files in tests/watch/test_frame.py")
    texts = {name: text_of(name) for name in SCRIPTS}
    command = [node, "--no-warnings", "--experimental-vm-modules", "--input-type=module", "--eval", READ_ALL]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_view_needs_its_own_modules_and_no_other_view() -> None:
    everything = set()
    for view in re.findall(r'"marl/views/(\w+)\.js"', text_of("js/routes.js")):
        names = needed(view)
        everything |= names
        assert {"marl/main.js", f"marl/views/{view}.js"} <= names
        assert [name for name in names if name.startswith("marl/views/")] == [f"marl/views/{view}.js"]
        assert sum(len(files()[modules()[name]]) for name in names) < LARGEST_VIEW, view
    assert set(modules()) - everything == set(ENTRIES) - {"marl/main.js"}


def test_the_document_names_files_that_are_there() -> None:
    text, _ = served_page()
    for name in re.findall(r'/static/([\w/.-]+)"', text):
        assert name in files(), name
    assert len(styles()) == len(set(styles()))
