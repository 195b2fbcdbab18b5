"""Phase portraits: play starts where one clicks, goes as in Python, and payoffs can be typed in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marl.gametheory.classics import classic_game
from marl.gametheory.solve.dynamics import replicator
from marl.page.standalone import standalone
from marl.watch.server import WatchServer
from marl.watch.tasks.tree_games import matrix_games
from tests.watch.browser import complaints, show, text_of, wait_for, wait_until, watched

pytestmark = pytest.mark.slow
PATHS = "(await import('marl/views/dynamics.js')).pathsShown()"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchServer]:
    with watched(tmp_path_factory.mktemp("empty")) as server:
        yield server


def paths(browser: Any) -> list[dict[str, Any]]:
    """All trajectories, once they are over."""
    script = f"return (async () => JSON.stringify({PATHS}))()"
    wait_until(browser, f"(async () => {PATHS}.every((path) => path.isOver))()", "play goes on")
    found: list[dict[str, Any]] = json.loads(browser.execute_script(script))
    return found


def click_at(browser: Any, right: float, up: float) -> None:
    """Click into the square of a 2 x 2 game at these shares of its sides."""
    from selenium.webdriver.common.action_chains import ActionChains

    frame = wait_for(browser, ".phase .outline rect")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", frame)
    x, y = round((right - 0.5) * frame.size["width"]), round((0.5 - up) * frame.size["height"])
    ActionChains(browser).move_to_element_with_offset(wait_for(browser, ".phase .outline rect"), x, y).click().perform()


def compare(name: str, path: dict[str, Any]) -> None:
    """With what Python does from the same start."""
    game = classic_game(name)
    start = tuple(np.array(part) for part in path["points"][0])
    end = path["times"][-1]
    truth = replicator(game, start, duration=end)
    for player in (0, 1):
        assert path["points"][-1][player] == pytest.approx(truth.last[player], abs=1e-6)
    assert path["payoffs"][-1] == pytest.approx(game.values(truth.last), abs=1e-6)


def test_a_click_starts_play_that_goes_as_in_python(browser: Any, server: WatchServer) -> None:
    show(browser, server, "/dynamics?game=stag_hunt")
    click_at(browser, 0.3, 0.8)
    (path,) = paths(browser)
    assert path["points"][0][0][0] == pytest.approx(0.3, abs=0.02)
    assert path["points"][0][1][0] == pytest.approx(0.8, abs=0.02)
    compare("stag_hunt", path)
    assert "starts=" in browser.current_url
    assert "a saddle" in text_of(browser)
    assert complaints(browser) == []


def test_basins_are_listed_when_they_are_asked_for(browser: Any, server: WatchServer) -> None:
    show(browser, server, "/dynamics?game=stag_hunt&kind=best_response")
    wait_for(browser, ".phase")
    browser.execute_script("[...document.querySelectorAll('button')].find((b) => b.textContent === 'Basins').click()")
    wait_until(browser, "document.body.textContent.includes('Shares of 500 random starts')", "no basins came")
    assert text_of(browser).count(" from 5") + text_of(browser).count(" from 4") == 2
    assert complaints(browser) == []


def test_the_keyboard_starts_play_in_a_triangle(browser: Any, server: WatchServer) -> None:
    from selenium.webdriver.common.keys import Keys

    show(browser, server, "/dynamics?game=rock_paper_scissors")
    wait_for(browser, ".phase").send_keys(Keys.ARROW_LEFT * 6 + Keys.ARROW_DOWN * 3 + Keys.ENTER)
    (path,) = paths(browser)
    compare("rock_paper_scissors", path)
    products = [float(np.prod(point[0])) for point in path["points"]]
    assert products == pytest.approx([products[0]] * len(products), rel=1e-6)
    assert "a centre" in text_of(browser)


def test_own_payoffs_are_drawn_while_they_are_typed_and_checked(browser: Any, server: WatchServer) -> None:
    from selenium.webdriver.common.keys import Keys

    show(browser, server, "/dynamics?game=prisoners_dilemma")
    assert "cooperate 0, defect 1 / cooperate 0, defect 1" in text_of(browser)
    cell = wait_for(browser, 'input[data-cell="0,0,0"]')
    cell.send_keys(Keys.CONTROL + "a" + Keys.NULL + "9")
    wait_until(browser, "document.querySelectorAll('.phase .rest').length === 3", "still the dilemma")
    assert "payoffs=" in browser.current_url
    cell.send_keys(Keys.CONTROL + "a" + Keys.NULL + "much")
    assert '"much" is no payoff' in text_of(browser)
    assert cell.get_attribute("aria-invalid") == "true"
    assert complaints(browser) == []


def test_games_that_are_not_symmetric_say_what_is_drawn(browser: Any, server: WatchServer) -> None:
    show(browser, server, "/dynamics?game=climbing")
    assert "only each player's own shares can be drawn" in text_of(browser)
    assert len(browser.find_elements("css selector", ".phase")) == 2


@pytest.mark.parametrize("kind", ["logit", "fictitious", "regret"])
def test_other_dynamics_run_on_the_page(browser: Any, server: WatchServer, kind: str) -> None:
    show(browser, server, f"/dynamics?game=matching_pennies&kind={kind}&starts=0.9,0.1/0.8,0.2")
    (path,) = paths(browser)
    assert len(path["points"]) > 100
    arrows = len(browser.find_elements("css selector", ".phase .arrow"))
    assert (arrows == 0) == (kind == "regret")
    assert complaints(browser) == []


def test_a_saved_portrait_is_clicked_without_a_server(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "view.html"
    view = "#/dynamics?game=chicken&kind=replicator&starts=0.2,0.8/0.6,0.4"
    file.write_text(standalone(view, {"/api/dynamics/games": matrix_games()}, "Chicken"))
    browser.get(file.as_uri())
    wait_for(browser, "#main[data-ready]")
    click_at(browser, 0.5, 0.25)
    first, second = paths(browser)
    assert first["points"][0] == [[0.2, 0.8], [0.6, 0.4]]
    compare("chicken", second)
    assert complaints(browser) == []
