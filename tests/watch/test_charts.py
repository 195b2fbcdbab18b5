"""The chart of curves in a real browser: what it draws is what it was given, on the screen, in words and in files."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.watch.browser import complaints, open_browser, show, skip_without_browser, wait_for, wait_until, watched

pytestmark = pytest.mark.slow

DRAW = """
const [options, done] = arguments;
import("marl/charts.js").then(({ curveChart }) => {
  const place = document.querySelector("#main");
  place.replaceChildren();
  globalThis.chart = curveChart(options);
  place.append(globalThis.chart.element);
  requestAnimationFrame(() => requestAnimationFrame(() => done("drawn")));
}).catch((error) => done(String(error)));
"""
SVG = "{http://www.w3.org/2000/svg}"
BAND = {"label": "a <b>", "x": [0, 1, 2], "y": [1, 2, 3], "low": [0, 1, 2], "high": [2, 3, 4]}
LINE = {"label": "b", "x": [0.5, 1.5], "y": [2.5, None]}


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Iterator[Any]:
    with watched(tmp_path) as server:
        show(browser, server, "/explain")
        yield browser
        assert complaints(browser) == []


def draw(page: Any, *series: dict[str, Any], **options: Any) -> None:
    assert (
        page.execute_async_script(DRAW, {"series": series, "xLabel": "steps", "yLabel": "reward", **options}) == "drawn"
    )
    wait_for(page, ".chart-plot canvas")


def picture(page: Any, downloads: Path, name: str) -> ElementTree.Element:
    """The chart as it is saved."""
    file = downloads / f"{name}.svg"
    page.execute_script("document.querySelector('.picture-buttons button').click()")
    deadline = time.monotonic() + 30
    while not file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return ElementTree.parse(file).getroot()


def test_the_saved_drawing_holds_curves_bands_goal_and_names(page: Any, downloads: Path) -> None:
    draw(page, BAND, LINE, goal=2, name="whole")
    root = picture(page, downloads, "whole")
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"a <b>", "b", "goal 2", "steps", "reward"} <= set(texts)
    [band] = root.iter(f"{SVG}polygon")
    corners = [tuple(map(float, corner.split(","))) for corner in band.attrib["points"].split()]
    assert len(corners) == 6  # along the upper bound, and back along the lower one
    high, low = corners[0], corners[-1]
    assert high[0] == low[0]
    assert high[1] < low[1]  # upwards the numbers of a screen get smaller
    first, second = [path.attrib["d"] for path in root.iter(f"{SVG}path")]
    assert first.count("L") == 2
    assert second.count("M") == 1  # a missing number is a gap
    assert "L" not in second


def test_a_curve_that_never_changes_lies_in_the_middle(page: Any, downloads: Path) -> None:
    draw(page, {"label": "zero-sum", "x": [0, 1, 2], "y": [0, 0, 0]}, name="flat", height=280)
    root = picture(page, downloads, "flat")
    texts = {text.text for text in root.iter(f"{SVG}text")}
    assert {"-1", "0", "1"} <= {(text or "").replace("−", "-") for text in texts}
    assert "100" not in texts


def test_the_legend_hides_a_curve_everywhere(page: Any, downloads: Path) -> None:
    draw(page, BAND, LINE, name="hidden")
    page.execute_script("document.querySelector('.chart-legend button').click()")
    root = picture(page, downloads, "hidden")
    assert not list(root.iter(f"{SVG}polygon"))
    label = page.find_element("css selector", ".chart-plot").get_attribute("aria-label")
    assert "a <b>" not in label
    assert "b: 1 points from 2.5 to 2.5" in label


def test_the_keyboard_reads_points_with_their_intervals(page: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    draw(page, BAND, LINE)
    plot = page.find_element("css selector", ".chart-plot")
    plot.send_keys(Keys.ARROW_RIGHT)
    plot.send_keys(Keys.END)
    tip = "document.querySelector('.chart-tip').innerText"
    wait_until(page, f"{tip}.includes('a <b>: 3 [2, 4]')", "the last point")
    assert "b:" not in page.execute_script(f"return {tip}").replace("<b>:", "")  # it has ended before


def test_a_log_scale_leaves_out_what_has_no_logarithm(page: Any, downloads: Path) -> None:
    draw(page, {"label": "loss", "x": [0, 1, 2, 3], "y": [100, 0, 1, 0.01]}, log=True, name="log")
    root = picture(page, downloads, "log")
    [path] = [path.attrib["d"] for path in root.iter(f"{SVG}path")]
    assert path.count("M") == 2
    heights = [float(point.split(",")[1]) for point in path.replace("L", "M").split("M")[1:]]
    # 100 to 1 is as far as 1 to 0.01.
    assert heights[1] - heights[0] == pytest.approx(heights[2] - heights[1], abs=0.1)


def test_new_numbers_join_the_curve_and_no_numbers_are_told(page: Any) -> None:
    draw(page, LINE)
    more = {"label": "b", "x": [0.5, 1.5, 7], "y": [2.5, 3, 4]}
    page.execute_script("globalThis.chart.update([arguments[0]])", more)
    label = "document.querySelector('.chart-plot').getAttribute('aria-label')"
    wait_until(page, f"{label}.includes('3 points from 2.5 to 4')", "the new points")
    page.execute_script("globalThis.chart.update([])")
    wait_until(page, "document.body.innerText.includes('nothing to draw')", "a word on it")


def test_colours_follow_the_scheme_of_the_page(tmp_path: Path) -> None:
    skip_without_browser()
    with open_browser(dark=True, downloads=tmp_path) as dark, watched(tmp_path) as server:
        show(dark, server, "/explain")
        draw(dark, BAND, name="dark")
        root = picture(dark, tmp_path, "dark")
        ground = next(root.iter(f"{SVG}rect")).attrib["fill"]
        assert ground == "#0d1117"
        assert complaints(dark) == []
