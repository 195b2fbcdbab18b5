"""docs/tutorial_play.md: its commands train a policy and open a page on which one plays against it to the end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests import processes
from tests.docs.commands import commands_in
from tests.docs.pages import DOCS, blocks_of
from tests.watch.browser import complaints, text_of, wait_for, wait_until
from tests.watch.test_command import watching

PAGE = DOCS / "tutorial_play.md"
PATIENCE_S = 300.0
STEPS = 4096  # of the run: one batch; the page's own takes the whole scenario
# A square that may be taken, as the page offers it to the mouse.
FREE = ".play-board .place[aria-disabled=false]"
OVER = "[...document.querySelectorAll('.play-board button')].some((one) => one.innerText.startsWith('Play again'))"


def commands() -> dict[str, list[str]]:
    """The first ``marl run`` and ``marl watch`` of the page, as words."""
    found: dict[str, list[str]] = {}
    for block in blocks_of(PAGE):
        for words in commands_in(block.text) if block.language == "bash" else []:
            found.setdefault(" ".join(words[:2]), words)
    return found


def test_the_page_tells_what_to_install_train_and_open() -> None:
    assert commands()["pip install"][2:] == ["marl[serve]", "pygame-ce"]
    assert commands()["marl run"][2:] == ["tictactoe", "--local-dir", "results"]
    assert commands()["marl watch"][2:] == ["results"]


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """The folder after the page's first command, with fewer steps."""
    words = commands()["marl run"][1:]
    done = processes.run(*words, "--stop-timesteps", STEPS, cwd=tmp_path, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert "policies (patterns): shared plays player_1, player_2" in done.stdout
    return tmp_path


@pytest.mark.slow
def test_one_plays_against_ones_own_policy(browser: Any, trained: Path) -> None:
    words = commands()["marl watch"][2:]
    with watching(trained / words[0], *words[1:], "--no-browser", "--port", 0) as (url, token, _):
        browser.get(f"{url}/#token={token}")
        wait_for(browser, "#main[data-ready]")
        press(browser, "#bar a", "Play")
        wait_for(browser, "#play-start").click()
        wait_for(browser, ".play-status")
        played = play_to_the_end(browser)
        assert complaints(browser) == []
    assert 3 <= played <= 5  # moves of the first player
    text = text_of(browser)
    assert re.search(r"(?i)you (won|lost|win|lose)|draw", text), text


def play_to_the_end(driver: Any) -> int:
    """Click into the first free square until the game is over; the number of moves."""
    free = f"document.querySelectorAll({FREE!r}).length"
    moves = 0
    while wait_until(driver, f"({OVER}) ? 'over' : ({free} > 0 ? 'turn' : null)", "a turn, or the end") == "turn":
        left = driver.execute_script(f"return {free}")
        driver.find_element("css selector", FREE).click()
        moves += 1
        assert moves <= 5
        wait_until(driver, f"({OVER}) || ({free} > 0 && {free} < {left})", "an answer to the move")
    return moves


def press(driver: Any, selector: str, text: str) -> None:
    for one in driver.find_elements("css selector", selector):
        if one.text == text:
            one.click()
            return
    raise AssertionError(f"no {selector} with {text!r}: {text_of(driver)}")
