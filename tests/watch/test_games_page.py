"""The view of games and the page of a report, in a browser: heat map, graph, rankings, rounds, and links to matches."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

import pytest

from marl.analysis.report.content import Section
from marl.analysis.report.names import ReportParticipant
from marl.analysis.report.page import as_page
from marl.analysis.report.payoffs import payoffs_section
from marl.analysis.report.ranking import ranking_section, rankings
from marl.analysis.report.shown import shown_game
from marl.gametheory.payoffs import PayoffTensor
from marl.watch.server import WatchServer
from tests.watch.browser import PATIENCE_S, complaints, show, text_of, wait_for, wait_until, watched
from tests.watch.games import RPS_NAMES, crossplay, population_run, rps_table

pytestmark = pytest.mark.slow

EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchServer]:
    """A results folder with a population, a cross-play of rock, paper and scissors, and one with strange names."""
    root = tmp_path_factory.mktemp("results")
    population_run(root / "psro")
    crossplay(root / "rps", rps_table())
    crossplay(root / EVIL.replace("/", ""), rps_table([EVIL, "<b>b</b>", "&amp;"]))
    ladder = [[0.0, -0.5, -0.8], [0.5, 0.0, -0.3], [0.8, 0.3, 0.0]]
    crossplay(root / "ladder", PayoffTensor.two_player(ladder, ["low", "middle", "high"]))
    with watched(root) as running:
        yield running


def open_game(browser: Any, server: WatchServer, kind: str, path: str) -> None:
    """Show a game, and wait for all that is computed."""
    show(browser, server, f"/games/{kind}/{quote(path, safe='')}")
    wait_until(browser, "document.querySelectorAll('.ranks .rank').length === 3", "three rankings")


def wait_for_file(path: Path) -> None:
    """The browser writes a download under another name first."""
    end = time.monotonic() + PATIENCE_S
    while not path.exists():
        assert time.monotonic() < end, f"{path.name} was not saved"
        time.sleep(0.05)


def press(browser: Any, key: str) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.switch_to.active_element.send_keys(getattr(Keys, key))


def test_games_are_listed_and_a_table_shows_its_numbers_its_cycle_and_its_ranks(
    browser: Any, server: WatchServer
) -> None:
    show(browser, server, "/games")
    browser.execute_script("[...document.links].find((link) => link.textContent === 'rps').click()")
    wait_until(browser, "document.querySelectorAll('.ranks .rank').length === 3", "three rankings")
    means = "return [...document.querySelectorAll('.heat-mean')].map((cell) => cell.textContent)"
    assert browser.execute_script(means) == ["0", "−1", "1", "1", "0", "−1", "−1", "1", "0"]
    assert browser.execute_script("return document.querySelectorAll('.arrow.lit').length") == 3
    cycle = browser.execute_script("return document.querySelector('.cycle').textContent")
    assert sorted(cycle.split(" > ")[:3]) == sorted(RPS_NAMES)
    text = text_of(browser)
    assert "Do not trust Elo here: play is cyclic" in text
    assert text.count("33.3 %") == 3
    assert "A cross-play keeps only names" in text
    assert complaints(browser) == []


def test_cells_are_walked_by_keyboard_and_say_what_they_stand_on(browser: Any, server: WatchServer) -> None:
    open_game(browser, server, "crossplay", "rps")
    browser.execute_script("document.querySelector('.heat-cell[tabindex=\"0\"]').focus()")
    press(browser, "ARROW_RIGHT")
    press(browser, "ARROW_DOWN")
    press(browser, "END")
    place = "return document.activeElement.dataset.place"
    assert browser.execute_script(place) == "1,2"
    told = browser.execute_script("return document.querySelector('.heat-detail').textContent")
    assert told == (
        "paper against scissors: −1 on average over 100 episodes; the truth is about 95 % surely between −1.1 and −0.9 "
        "(standard error 0.05)."
    )
    press(browser, "ARROW_RIGHT")  # there is no more
    assert browser.execute_script(place) == "1,2"
    browser.execute_script("document.querySelector('.node[tabindex=\"0\"]').focus()")
    press(browser, "ARROW_RIGHT")
    about = browser.execute_script("return document.querySelector('.graph-detail').textContent")
    assert about.startswith(
        "paper: better are scissors (by 1 ± 0.05, in 100 % of redrawn tables); it is better than 1."
    )


def test_the_order_of_a_ranking_moves_rows_and_columns_together(browser: Any, server: WatchServer) -> None:
    open_game(browser, server, "crossplay", "ladder")
    browser.execute_script(
        "const select = document.querySelector('.heat-controls select'); select.value = 'elo';"
        "select.dispatchEvent(new Event('change'))"
    )
    for names in (".heat-row", ".heat-column"):
        shown = f"return [...document.querySelectorAll('{names}')].map((text) => text.firstChild.data)"
        assert browser.execute_script(shown) == ["high", "middle", "low"]
    means = "return [...document.querySelectorAll('.heat-mean')].slice(0, 3).map((cell) => cell.textContent)"
    assert browser.execute_script(means) == ["0", "0.3", "0.8"]


def test_a_cell_of_a_population_opens_its_match(browser: Any, server: WatchServer) -> None:
    open_game(browser, server, "population", "psro")
    wait_for(browser, "a.heat-cell")
    browser.execute_script("document.querySelector('a.heat-cell[data-place=\"2,1\"]').focus()")
    press(browser, "ENTER")
    wait_until(browser, "location.hash.startsWith('#/episodes')", "the episodes view")
    asked = parse_qs(browser.current_url.split("?", 1)[1])
    assert asked["run"] == ["psro"]
    assert asked["explore"] == ["1"]
    assert json.loads(asked["policies"][0]) == {
        "player_0.answer": "psro#player_0.answer/2", "player_1.answer": "psro#player_1.answer/1",
    }  # fmt: skip


def test_the_slider_shows_the_table_as_it_was_after_a_round(browser: Any, server: WatchServer) -> None:
    open_game(browser, server, "population", "psro")
    cells = "document.querySelectorAll('.heat-cell').length"
    assert browser.execute_script(f"return {cells}") == 9
    browser.execute_script("document.getElementById('round').focus()")
    press(browser, "ARROW_LEFT")
    assert browser.execute_script(f"return {cells}") == 4
    assert browser.current_url.endswith("?round=1")
    assert "1 of 2, after 64 env steps. Members: 2 of player_0, 2 of player_1." in text_of(browser)
    wait_until(browser, "document.querySelectorAll('.graph [data-node]').length >= 4", "the graph of round 1")
    assert "NashConv over time" in text_of(browser)
    assert "Exact: every reply that the game allows was looked at." in text_of(browser)
    assert complaints(browser) == []


def test_a_saved_view_is_opened_from_disk_with_everything_but_matches(
    browser: Any, server: WatchServer, downloads: Path
) -> None:
    open_game(browser, server, "population", "psro")
    browser.execute_script("document.getElementById('save-view').click()")
    saved = downloads / "psro.html"
    wait_for_file(saved)
    browser.get(saved.as_uri())
    wait_until(browser, "document.querySelectorAll('.ranks .rank').length === 3", "three rankings")
    assert browser.execute_script("return document.querySelectorAll('.heat-cell').length") == 9
    assert browser.execute_script("return document.querySelectorAll('a.heat-cell').length") == 0
    # A round whose rankings nobody looked at has its table, and says what is missing.
    browser.execute_script("document.getElementById('round').focus()")
    press(browser, "ARROW_LEFT")
    assert browser.execute_script("return document.querySelectorAll('.heat-cell').length") == 4
    wait_until(browser, "document.body.innerText.includes('this round was not looked at then')", "what is missing")
    assert complaints(browser) == []


def test_pictures_are_saved_with_their_colours(browser: Any, server: WatchServer, downloads: Path) -> None:
    open_game(browser, server, "crossplay", "rps")
    browser.execute_script("document.querySelector('.heat .picture-buttons button').click()")
    saved = downloads / "payoffs.svg"
    wait_for_file(saved)
    text = saved.read_text()
    assert "fill: rgb(0, 114, 178)" in text
    assert "fill-opacity: 0.62" in text
    assert "var(" not in text.replace("--strength", "")


def test_names_with_markup_are_shown_as_text(browser: Any, server: WatchServer) -> None:
    open_game(browser, server, "crossplay", EVIL)
    browser.execute_script("document.querySelector('.heat-numbers').open = true")
    wait_for(browser, ".heat-numbers table")
    text = text_of(browser)
    assert text.count(EVIL) >= 3  # title, table, cycle
    assert browser.execute_script("return document.querySelectorAll('main img, main b').length") == 0
    labels = browser.execute_script("return [...document.querySelectorAll('svg title')].map((one) => one.textContent)")
    assert EVIL in labels
    assert complaints(browser) == []


# -- the page of a report --------------------------------------------------------------------------------------------


def report_page(payoffs: PayoffTensor) -> str:
    who = [ReportParticipant(name, name, name, Path(f"/runs/{number}")) for number, name in enumerate(payoffs.names[0])]
    found = rankings(payoffs, who)
    sections = [payoffs_section(payoffs, who), ranking_section(found), Section("x", EVIL)]
    shown = {**shown_game(payoffs, found), "payoffs": payoffs.as_json(), "bounds": []}
    return as_page(EVIL, EVIL, sections, shown)


def test_a_report_has_the_same_drawings_loads_nothing_and_shows_names_as_text(browser: Any, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(report_page(rps_table([EVIL, "b", "c"])))
    browser.get(page.as_uri())
    wait_for(browser, "html[data-ready=report]")
    parts = "return [...document.querySelectorAll('.live:not([hidden])')].map((place) => place.dataset.part)"
    assert browser.execute_script(parts) == ["heat", "rank", "rank", "rank", "graph"]
    shown = (
        "return [...document.querySelectorAll('.replaced')].every((one) => getComputedStyle(one).display === 'none')"
    )
    assert browser.execute_script(shown)
    assert browser.execute_script("return document.querySelectorAll('.heat-cell').length") == 9
    assert browser.execute_script("return document.querySelectorAll('.arrow.lit').length") == 3
    assert browser.execute_script("return document.querySelectorAll('img[src=x]').length") == 0
    assert EVIL in text_of(browser)
    loaded = browser.execute_script("return performance.getEntriesByType('resource').map((one) => one.name)")
    assert all(name.startswith("data:") for name in loaded)
    assert complaints(browser) == []
    # What somebody slips into the file does not run: the policy names its own scripts by their hashes.
    page.write_text(page.read_text().replace("</main>", "<script>document.title = 'run'</script></main>"))
    browser.get(page.as_uri())
    wait_for(browser, "html[data-ready=report]")
    assert browser.title == EVIL
    complaints(browser)  # it says so


def test_printed_and_without_scripts_a_report_has_its_tables(browser: Any, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(report_page(rps_table()))
    browser.get(page.as_uri())
    wait_for(browser, "html[data-ready=report]")
    visible = "return [...document.querySelectorAll('{}')].filter((one) => one.getClientRects().length > 0).length"
    assert browser.execute_script(visible.format(".heat-table")) == 0
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert browser.execute_script(visible.format(".heat-table")) == 1
    assert browser.execute_script(visible.format(".heat-map")) == 0
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(page.as_uri())
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
        assert browser.execute_script(visible.format(".heat-table")) == 1
        assert browser.execute_script(visible.format("figure img")) == 4
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
