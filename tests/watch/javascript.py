"""Runs functions of the page's modules without the page: in node where it is installed, else in the browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from marl.page.assets import STATIC
from marl.page.standalone import standalone
from tests.watch.browser import open_browser, skip_without_browser

RunJs: TypeAlias = Callable[[str, Any], Any]
"""Takes the body of an async function of ``data``, and the data; returns what it returns."""

# Modules import each other as ``marl/name.js``, which an import map explains to browsers and this hook to node.
HOOK = """
import { register } from "node:module";
const hook = `export function resolve(name, context, next) {
  return name.startsWith("marl/") ? { url: "ROOT" + name.slice(5), format: "module", shortCircuit: true } : next(name, context);
}`;
register("data:text/javascript," + encodeURIComponent(hook));
"""


def in_node(body: str, data: Any, folder: Path) -> Any:
    root = (STATIC / "js").as_uri() + "/"
    hook, program, given = folder / "hook.mjs", folder / "program.mjs", folder / "data.json"
    hook.write_text(HOOK.replace("ROOT", root))
    given.write_text(json.dumps(data))
    program.write_text(
        'import { readFileSync } from "node:fs";\n'
        f'const data = JSON.parse(readFileSync("{given.as_posix()}"));\n'
        f"async function run() {{ {body} }}\n"
        "console.log(JSON.stringify(await run()));\n"
    )
    command = ["node", "--import", hook.as_uri(), str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def in_browser(driver: Any, body: str, data: Any) -> Any:
    script = f"""
        const [text, done] = arguments;
        const data = JSON.parse(text);
        async function run() {{ {body} }}
        run().then((found) => done(JSON.stringify(found)), (error) => done(JSON.stringify({{ failed: String(error) }})));
    """
    driver.set_script_timeout(120)
    found = json.loads(driver.execute_async_script(script, json.dumps(data)))
    assert not (isinstance(found, dict) and "failed" in found), found
    return found


@pytest.fixture(scope="module")
def run_js(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunJs]:
    folder = tmp_path_factory.mktemp("javascript")
    if shutil.which("node") is not None:
        yield lambda body, data: in_node(body, data, folder)
        return
    skip_without_browser()
    with open_browser() as driver:
        (folder / "page.html").write_text(standalone("#/nothing", {}, "modules"))
        driver.get((folder / "page.html").as_uri())
        yield lambda body, data: in_browser(driver, body, data)
