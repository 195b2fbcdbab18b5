"""Playing in a browser: a whole game by clicks, taking back, a hint, and two people at one board."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from marl.watch.server import WatchServer
from tests.play.runs import trained
from tests.watch.browser import complaints, open_browser, show, text_of, wait_for, wait_until, watched
from tests.watch.playing import TICTACTOE, Player

pytestmark = pytest.mark.slow
STATUS = "document.querySelector('.play-status').textContent"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchServer]:
    root = tmp_path_factory.mktemp("results")
    run = root / "mine" / "run"
    trained(run / "checkpoints" / "checkpoint_000001", TICTACTOE)
    (run / "params.json").write_text(f'{{"env": "{TICTACTOE}", "algo": "ppo"}}')
    with watched(root) as found:
        yield found


def click_place(browser: Any, row: int, column: int) -> None:
    """Click a square of a board of three by three."""
    wait_until(browser, "document.querySelectorAll('.place').length === 9", "there is no board")
    browser.find_elements("css selector", ".place")[3 * row + column].click()


def status_is(browser: Any, text: str) -> None:
    wait_until(browser, f"{STATUS}.startsWith({text!r})", f"the status is not {text!r}")


def test_tictactoe_to_its_end_by_clicks_with_undo_and_hint(browser: Any, server: WatchServer, downloads: Path) -> None:
    show(browser, server, "/play?run=mine%2Frun")
    wait_for(browser, "#play-start")
    # The script takes the squares of the first column from the top.
    browser.execute_script(
        "const pick = document.getElementById('seat-player_2'); pick.value = 'first';"
        "pick.dispatchEvent(new Event('change'));"
    )
    browser.find_element("id", "play-start").click()
    wait_for(browser, ".play-board")
    status_is(browser, "Your move")
    click_place(browser, 1, 1)
    wait_until(browser, "document.querySelectorAll('.board-ring').length === 1", "the script has not answered")
    undo, hint = browser.find_elements("css selector", ".play-tools button")
    wait_until(browser, "!document.querySelector('.play-tools button').disabled", "nothing can be taken back")
    undo.click()
    wait_until(browser, "document.querySelectorAll('.board-ring, .board-cross').length === 0", "it was not taken back")
    hint.click()
    wait_for(browser, ".play-hint table")
    assert "would play" in text_of(browser)
    for row, column in ((1, 1), (0, 2), (2, 0)):
        before = browser.execute_script("return document.querySelectorAll('.board-cross').length")
        click_place(browser, row, column)
        wait_until(browser, f"document.querySelectorAll('.board-cross').length === {before} + 1", "no cross was drawn")
        wait_until(browser, f"/^(Your move|You won)/.test({STATUS})", "nobody is asked")
        wait_until(browser, "document.querySelectorAll('.place[aria-disabled=false]').length + "
                   f"({STATUS}.startsWith('You won') ? 1 : 0) > 0", "the board cannot be clicked")  # fmt: skip
    status_is(browser, "You won: player_1 1, player_2 −1")
    told = text_of(browser)
    assert "With 1 hint and 1 move taken back." in told
    assert "plays/pettingzoo_classic_tictactoe_v3/" in told
    row = browser.find_element("css selector", ".play-score tbody tr").text
    assert row.split() == ["player_1", "you", "1", "1", "0", "0", "1"]
    # The finished game as a file: everything to be seen, nothing to be played.
    browser.find_element("id", "save-view").click()
    for _ in range(200):
        saved = list(downloads.glob("*.html"))
        if saved:
            break
        time.sleep(0.05)
    browser.get(saved[0].as_uri())
    status_is(browser, "You won")
    assert len(browser.find_elements("css selector", ".board-cross")) == 3
    assert not browser.find_elements("css selector", ".play-tools, .play-buttons button")
    assert complaints(browser) == []


def test_the_score_is_in_sight_beside_a_long_name(browser: Any, server: WatchServer) -> None:
    show(browser, server, "/play")
    script = """
    const [done] = arguments;
    import("marl/parts/play_told.js").then(({ scoreTable }) => {
      const who = "tictactoe/PPO_tictactoe_v3_14e1a_00000_seed=0_2026-11-18_02-56-45";
      const rows = [{ agent: "player_1", who, games: 1, wins: 1, draws: 0, losses: 0, mean: 1 }];
      const place = document.createElement("div");
      place.style.width = "380px"; // as wide as the column of the page
      place.append(scoreTable({ rows, competitive: true }));
      document.querySelector("#main").append(place);
      const box = place.querySelector(".scroll");
      done(box.scrollWidth - box.clientWidth);
    });"""
    assert browser.execute_async_script(script) <= 0


def test_two_people_on_two_browsers(browser: Any, server: WatchServer) -> None:
    owner = Player(server.url, server.desk.secret)
    rps = {"game": "rock_paper_scissors"}
    owner.opens(env="matrix_game", env_config=rps, seats={"player_0": "human", "player_1": "guest"})
    show(browser, server, f"/play/{owner.game}")
    link = wait_for(browser, ".play-link input").get_attribute("value")
    assert "not here" in text_of(browser)
    with open_browser(390, 844) as other:
        other.get(link)
        wait_for(other, ".play-board")
        # An invitation opens the game and nothing else.
        assert link.split("=")[1].split("/")[0] not in other.current_url
        assert not other.find_element("css selector", "#bar nav").is_displayed()
        wait_until(browser, "document.querySelector('.play-who').textContent.includes('here')", "nobody came")
        browser.find_element("css selector", ".play-buttons [data-action='1']").click()
        status_is(browser, "Waiting for guest 1")
        status_is(other, "Your move")
        assert "paper" not in other.execute_script(f"return {STATUS}")
        other.execute_script("document.body.dispatchEvent(new KeyboardEvent('keydown', {key: '3', bubbles: true}))")
        for driver, text in ((other, "You won"), (browser, "You lost")):
            status_is(driver, text)
        # The next game is at the same address, with seats swapped.
        browser.find_element("xpath", "//button[text()='Again, seats swapped']").click()
        status_is(other, "Your move")
        wait_until(other, "document.querySelector('.play-who li').textContent.includes('you')", "not swapped")
        other.get(f"{server.url}/#/play")
        wait_until(other, "document.body.textContent.includes('The token is missing')", "a guest sees runs and games")
        allowed = [line for line in complaints(other) if "401" not in line and "console-api" not in line]
        assert [line for line in allowed if "main.js" not in line] == []
    assert complaints(browser) == []


def test_numbers_by_sliders_and_steps_in_real_time(browser: Any, server: WatchServer) -> None:
    owner = Player(server.url, server.desk.secret)
    owner.opens(env="Pendulum-v1", seats={"agent_0": "human"}, seed=1)
    show(browser, server, f"/play/{owner.game}")
    wait_for(browser, "#move-0")
    browser.execute_script(
        "const s = document.getElementById('move-0'); s.value = 2; s.dispatchEvent(new Event('input'))"
    )
    browser.find_element("css selector", ".play-moves button").click()
    wait_until(browser, "!document.querySelector('.play-tools button').disabled", "no step was played")
    assert owner.see()["turn"] == 1
    browser.execute_script(
        "const speed = document.getElementById('clock-speed'); speed.value = '10';"
        "speed.dispatchEvent(new Event('change'))"
    )
    wait_until(browser, "Number(document.querySelector('.play-tools .number').textContent.split(' ').at(-1)"
               ".replace('−', '-')) < -30", "time does not go on")  # fmt: skip
    assert owner.see()["turn"] > 3
    assert complaints(browser) == []


def test_a_game_whose_env_crashed_says_so(browser: Any, tmp_path: Path) -> None:
    with watched(tmp_path, allow=frozenset({"tests"})) as server:
        owner = Player(server.url, server.desk.secret)
        owner.opens(env="tests.watch.play_envs:Fatal", seats={"left": "human", "right": "first"})
        show(browser, server, f"/play/{owner.game}")
        wait_for(browser, ".play-buttons")
        browser.find_element("css selector", ".play-buttons [data-action='2']").click()
        status_is(browser, "The game has ended: the process")
        wait_until(browser, "document.querySelector('.play-board').innerText.includes('Play again')", "no way on")
