"""Views and pictures as files: whole, valid, and the same without a server."""

from __future__ import annotations

import json
import struct
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from marl.page.standalone import standalone
from tests.watch.browser import (
    complaints,
    open_browser,
    show,
    skip_without_browser,
    text_of,
    wait_for,
    wait_until,
    watched,
)

SVG = "{http://www.w3.org/2000/svg}"
# A drawing that gets its colours from the page, with a name that looks like markup.
DRAW = """
const done = arguments[arguments.length - 1];
Promise.all([import("marl/dom.js"), import("marl/save.js")]).then(([{ h, s }, { pictureButtons }]) => {
  const svg = s("svg", { role: "img", viewBox: "-10 -5 120 60", style: { width: "240px", height: "120px" } },
    s("circle", { cx: 20, cy: 20, r: 15, style: { fill: "var(--c0)" } }),
    s("text", { x: 0, y: 45 }, "<b>a & b</b>"));
  const canvas = h("canvas", { width: 60, height: 40 });
  canvas.getContext("2d").fillRect(10, 10, 10, 10);
  const image = h("img", { src: canvas.toDataURL(), alt: "dots" });
  const main = document.getElementById("main");
  main.append(svg, pictureButtons(() => svg, "drawing"), h("div", {}, canvas),
    pictureButtons(() => canvas.parentElement, "canvas"), image, pictureButtons(() => image, "image"));
  done(main.querySelectorAll(".picture-buttons").length);
});
"""


def saved(folder: Path, name: str) -> Path:
    """The file that the browser was told to save, once all of it is there."""
    end = time.monotonic() + 60
    while not (folder / name).exists() or list(folder.glob("*.crdownload")):
        assert time.monotonic() < end, list(folder.iterdir())
        time.sleep(0.05)
    return folder / name


def png_size(content: bytes) -> tuple[int, int]:
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert content[12:16] == b"IHDR"
    width, height = struct.unpack(">II", content[16:24])
    return width, height


def rgb(file: Path, x: int, y: int) -> tuple[int, ...]:
    from PIL import Image

    with Image.open(file) as picture:
        return tuple(picture.convert("RGB").getpixel((x, y)))


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_pictures_are_valid_files_on_the_ground_of_the_page(tmp_path: Path, dark: bool) -> None:
    skip_without_browser()
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    results = tmp_path / "results"
    results.mkdir()
    ground = (13, 17, 23) if dark else (255, 255, 255)
    with open_browser(dark=dark, downloads=downloads) as driver, watched(results) as server:
        show(driver, server, "/games")
        assert driver.execute_async_script(DRAW) == 3
        for button in driver.find_elements("css selector", ".picture-buttons button"):
            button.click()
            time.sleep(0.2)  # browsers hold back downloads that come all at once
        tree = ElementTree.fromstring(saved(downloads, "drawing.svg").read_text())
        for name, size in {"drawing": (480, 240), "canvas": (60, 40), "image": (60, 40)}.items():
            file = saved(downloads, f"{name}.png")
            assert png_size(file.read_bytes()) == size
            assert rgb(file, 2, 2) == ground, name
        assert not (downloads / "canvas.svg").exists()
        assert complaints(driver) == []
    assert (tree.get("width"), tree.get("height"), tree.get("viewBox")) == ("240", "120", "-10 -5 120 60")
    rect = tree[0]
    assert (rect.tag, rect.get("x"), rect.get("fill")) == (f"{SVG}rect", "-10", f"rgb{ground}")
    assert [text.text for text in tree.iter(f"{SVG}text")] == ["<b>a & b</b>"]
    circle = tree.find(f"{SVG}circle")
    assert circle is not None
    assert "var(" not in circle.get("style", "")
    assert "fill: rgb" in circle.get("style", "")


@pytest.mark.slow
def test_a_saved_file_asks_nobody(browser: Any, tmp_path: Path) -> None:
    """Not for the answers that it holds, not for those that it lacks, and not for pictures of strangers."""
    file = tmp_path / "view.html"
    file.write_text(
        standalone("#/games", {"/api/games": {"games": []}, "/api/x": {"a": 1}, "/api/y {}": [2]}, "A view")
    )
    browser.get(file.as_uri())
    wait_for(browser, "#main[data-ready]")
    assert complaints(browser) == []
    found = browser.execute_async_script("""
        const done = arguments[0];
        const told = (work) => work.then((value) => value, (error) => error.code);
        import("marl/api.js").then(async ({ get, job, post }) => {
          const image = new Image();
          const loaded = new Promise((resolve) => { image.onload = () => resolve("loaded"); image.onerror = () => resolve("not"); });
          image.src = "http://127.0.0.1:9/x.png";
          done([await told(get("/api/x")), await told(get("/api/z")), await told(get("toString")), await told(job("/api/y", {})),
            await told(job("/api/y", { a: 1 })), await told(post("/api/x")), await loaded,
            await fetch("http://127.0.0.1:9/").then(() => "read", () => "not")]);
        });
    """)
    assert complaints(browser) != []  # of the policy, which let nothing through
    assert found == [{"a": 1}, "saved", "saved", [2], "saved", "saved", "not", "not"]
    asked = browser.execute_script("return performance.getEntriesByType('resource').map((one) => one.name)")
    assert [name for name in asked if not name.startswith(("data:", "http://127.0.0.1:9/"))] == []


@pytest.mark.parametrize("name", ["</script><script>hacked=1</script>", "\u2028", "]]>", "<!--<script>"])
def test_a_saved_file_is_one_document_whatever_is_in_it(name: str) -> None:
    plain = standalone("#/x", {"/api/a": {"a": "b"}}, "t")
    text = standalone(f"#/{name}", {name: {name: name}}, name)
    assert text.count("<script") == plain.count("<script")
    assert text.count("</script") == plain.count("</script")
    inside = text.partition('id="saved">')[2].partition("</script>")[0]
    assert json.loads(inside) == {"view": f"#/{name}", "title": name, "answers": {name: {name: name}}}


def save_view(driver: Any, downloads: Path) -> Path:
    """Press the button of the bar, and give the file."""
    before = set(downloads.glob("*.html"))
    driver.execute_script("document.getElementById('save-view').click()")
    end = time.monotonic() + 60
    while not (new := set(downloads.glob("*.html")) - before) or list(downloads.glob("*.crdownload")):
        assert time.monotonic() < end, text_of(driver)
        time.sleep(0.05)
    return new.pop()


@pytest.mark.slow
def test_the_button_saves_the_view_that_is_shown(browser: Any, downloads: Path, tmp_path: Path) -> None:
    with watched(tmp_path) as server:
        show(browser, server, "/dynamics")
        texts = browser.execute_script("return document.getElementById('main').innerText")
        file = save_view(browser, downloads)
        assert server.desk.secret not in file.read_text()
    browser.get(file.as_uri())
    wait_for(browser, "#main[data-ready]")
    wait_until(browser, "document.getElementById('main').innerText.length > 0", "the view is there")
    assert browser.execute_script("return document.querySelector('h1').innerText") in texts
    assert browser.execute_script("return document.getElementById('save-view')") is None
    assert complaints(browser) == []
