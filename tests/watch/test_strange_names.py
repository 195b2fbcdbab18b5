"""Names of runs, envs, agents, policies, actions, files and messages are texts in all views, whatever they look like."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from marl.watch.server import WatchServer
from tests.watch.browser import complaints, text_of, wait_for, wait_until, watched
from tests.watch.strange_results import ACTIONS, ADDRESS, AGENTS, MARKUP, POLICIES, make_strange_results
from tests.watch.test_save import save_view

MOST_PAGES = 24
FIRST = ("/runs", "/episodes", "/play", "/games", "/tree", "/dynamics", "/explain")
# What a name became that was taken for markup, for code or for an address.
PLANTED = """
const found = [...document.querySelectorAll("img[src='x'], .planted, [onerror], main script, #messages script")];
for (const link of document.querySelectorAll("[href], [src]")) {
  if (/^\\s*javascript:/i.test(link.getAttribute("href") ?? link.getAttribute("src"))) found.push(link);
}
return [window.hacked ?? null, found.map((one) => one.outerHTML.slice(0, 200))];
"""
LINKS = "return [...document.querySelectorAll('#main a[href^=\"#/\"]')].map((one) => one.getAttribute('href').slice(1))"
OPEN_ALL = "for (const one of document.querySelectorAll('details')) one.open = true;"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder, and the run that can play."""
    root = tmp_path_factory.mktemp("strange") / "results"
    root.mkdir()
    run = make_strange_results(root)
    return root, str(run.relative_to(root))


@pytest.fixture(scope="module")
def server(results: tuple[Path, str]) -> Iterator[WatchServer]:
    with watched(results[0], allow=frozenset({"tests"})) as found:
        yield found


def visit(driver: Any, address: str) -> str:
    """Open a view, with all that can be unfolded, and see that nothing in it is markup of names. What is to be read there."""
    driver.get("about:blank")
    driver.get(address)
    wait_for(driver, "#main[data-ready], #main .message.error")
    wait_until(driver, "performance.now() - Math.max(...performance.getEntriesByType('resource').map((e) => e.responseEnd)) > 300",
               "the page is quiet")  # fmt: skip
    driver.execute_script(OPEN_ALL)
    check(driver, address)
    return text_of(driver)


def check(driver: Any, where: str) -> None:
    assert driver.execute_script(PLANTED) == [None, []], where


@pytest.mark.slow
def test_all_views_show_names_as_texts(browser: Any, server: WatchServer, results: tuple[Path, str]) -> None:
    """From the bar on, every link of every view is followed."""
    run = quote(results[1], safe="")
    left = [
        *FIRST,
        f"/run/{run}",
        f"/episodes?run={run}",
        f"/play?run={run}",
        f"/tree?run={run}",
        f"/dynamics?run={run}",
    ]
    seen: dict[str, str] = {}
    while left and len(seen) < MOST_PAGES:
        view = left.pop(0)
        if view in seen:
            continue
        seen[view] = visit(browser, f"{server.page}{view}")
        left += [link for link in browser.execute_script(LINKS) if link not in seen]
    everything = "\n".join(seen.values())
    for name in (MARKUP, ADDRESS, *AGENTS, POLICIES[0]):
        assert name in everything, name
    assert ACTIONS[0] in seen[f"/episodes?run={run}"]
    # A run by hand has no checkpoint to play: that is told, and the browser notes the refusal.
    assert [line for line in complaints(browser) if "/api/" not in line and "ApiError" not in line] == []


@pytest.mark.slow
def test_a_game_shows_names_as_texts(browser: Any, server: WatchServer, results: tuple[Path, str]) -> None:
    visit(browser, f"{server.page}/play?run={quote(results[1], safe='')}")
    wait_for(browser, "#play-start").click()
    wait_for(browser, ".play-status")
    wait_for(browser, ".play-moves button:not(:disabled)")
    browser.execute_script(OPEN_ALL)
    assert AGENTS[0] in text_of(browser)
    assert ACTIONS[0] in text_of(browser)
    for button in browser.find_elements("css selector", ".play-tools button"):
        if button.text.startswith("Hint"):
            button.click()
    wait_for(browser, ".play-moves button:not(:disabled)").click()
    wait_until(browser, "document.querySelectorAll('.play-moves button:not(:disabled)').length > 0", "the next turn")
    check(browser, "a game")
    assert complaints(browser) == []


# What is shown, without what only a server can do.
TEXTS = """
const all = [...document.querySelectorAll("#main :is(h1, h2, h3, caption, figcaption, th, td, dt, dd, svg text)")];
return all.filter((one) => one.querySelector("a, button, input") === null && one.checkVisibility())
  .map((one) => one.textContent.trim()).filter((text) => text !== "");
"""
CROSS = quote(f"{MARKUP}cross", safe="")


@pytest.mark.slow
@pytest.mark.parametrize(
    "view",
    ["/runs", "/run/{run}", "/episodes?run={run}&step=3", "/games", f"/games/crossplay/{CROSS}", "/tree?name=kuhn_poker",
     "/dynamics", "/explain"],
)  # fmt: skip
def test_a_saved_view_shows_the_same_texts(
    browser: Any, server: WatchServer, results: tuple[Path, str], downloads: Path, view: str
) -> None:
    visit(browser, f"{server.page}{view.format(run=quote(results[1], safe=''))}")
    live = browser.execute_script(TEXTS)
    file = save_view(browser, downloads)
    assert server.desk.secret not in file.read_text()
    visit(browser, file.as_uri())
    saved = browser.execute_script(TEXTS)
    assert set(saved) - set(live) == set()
    assert len(saved) > 0.8 * len(live), set(live) - set(saved)
    asked = browser.execute_script("return performance.getEntriesByType('resource').map((one) => one.name)")
    assert [name for name in asked if not name.startswith("data:")] == []
    assert complaints(browser) == []
