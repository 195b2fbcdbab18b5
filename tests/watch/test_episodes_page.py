"""Episodes in a browser: scrubbed by mouse and keys, compared, saved and opened from the disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from marl.watch.server import WatchServer
from tests.watch.browser import complaints, show, text_of, wait_for, wait_until, watched
from tests.watch.episode_runs import long_run, strange_run, two_step_run

pytestmark = pytest.mark.slow

STEP = "Number(document.querySelector('.scrub-track').getAttribute('aria-valuenow'))"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WatchServer]:
    root = tmp_path_factory.mktemp("results")
    two_step_run(root)
    long_run(root)
    strange_run(root)
    with watched(root, allow=frozenset({"tests"})) as found:
        yield found


def opened(browser: Any, server: WatchServer, **query: Any) -> None:
    show(browser, server, f"/episodes?{urlencode(query)}")
    wait_for(browser, ".episode-stage")


def press(browser: Any, *keys: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(browser).send_keys(*keys).perform()


def step_of(browser: Any) -> int:
    return int(browser.execute_script(f"return {STEP}"))


def click(browser: Any, selector: str) -> None:
    wait_for(browser, selector)
    browser.execute_script("document.querySelector(arguments[0]).click()", selector)


def card(browser: Any) -> str:
    return str(browser.execute_script("return document.querySelector('.agent-card').innerText"))


def test_an_episode_is_chosen_and_shown(browser: Any, server: WatchServer) -> None:
    show(browser, server, "/episodes")
    wait_for(browser, ".episode-form details")
    browser.execute_script(
        "const select = document.querySelector('.episode-form select'); select.value = 'two_step';"
        "select.dispatchEvent(new Event('change'))"
    )
    wait_until(
        browser, "[...document.querySelectorAll('option')].some(o => o.value == 'checkpoint_000001')", "checkpoints"
    )
    click(browser, ".episode-form button[type=submit]")
    wait_for(browser, ".episode-stage")
    assert "run=two_step" in browser.current_url
    assert "two_step_game, episode 0" in text_of(browser)
    told = card(browser)
    assert "agent_0" in told
    assert "too much by" in told
    assert complaints(browser) == []


def test_it_is_scrubbed_by_keys_and_mouse(browser: Any, server: WatchServer) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    opened(browser, server, run="long", step=3)
    last = int(browser.execute_script("return document.querySelector('.scrub-track').getAttribute('aria-valuemax')"))
    assert (step_of(browser), last) == (3, 100)
    press(browser, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT)
    assert step_of(browser) == 4
    press(browser, Keys.END)
    assert step_of(browser) == last
    assert "the end" in text_of(browser)
    press(browser, Keys.HOME)
    assert step_of(browser) == 0
    track = wait_for(browser, ".scrub-track")
    width = track.size["width"]
    hand = ActionChains(browser).move_to_element_with_offset(track, -width // 4, 0).click_and_hold()
    hand.move_by_offset(width // 2, 0).release().perform()
    assert abs(step_of(browser) - 75) <= 2
    at = step_of(browser)
    wait_until(browser, f"location.hash.includes('step={at}')", "the address holds the step")
    # A click into a lane goes to its step and agent.
    lane = wait_for(browser, ".lane-canvas")
    agent = browser.execute_script("return document.querySelector('.agent-lane').dataset.agent")
    ActionChains(browser).move_to_element(lane).click().perform()
    assert abs(step_of(browser) - 50) <= 1
    assert agent in card(browser)
    wait_until(browser, f"location.hash.includes('agent={agent}')", "the address holds the agent")
    assert complaints(browser) == []


def test_it_plays_by_itself_and_stops(browser: Any, server: WatchServer) -> None:
    opened(browser, server, run="long")
    browser.execute_script(
        "const speed = document.querySelector('.scrubber select'); speed.value = 'Infinity';"
        "speed.dispatchEvent(new Event('change'))"
    )
    click(browser, ".scrub-play")
    wait_until(browser, f"{STEP} === 100", "it plays to the end")
    wait_until(browser, "document.querySelector('.scrub-play').innerText.includes('Play')", "it stops there")
    browser.set_script_timeout(30)
    rate = browser.execute_async_script(
        "const done = arguments[0];"
        "import('marl/parts/scrubber.js').then((m) => m.scrubberRate(0.5)).then(done, (e) => done(String(e)))"
    )
    assert rate["frames"] > 2
    assert complaints(browser) == []


def test_it_jumps_to_where_the_value_was_most_wrong(browser: Any, server: WatchServer) -> None:
    opened(browser, server, run="two_step", checkpoint="checkpoint_000001", step=2)
    # Known: both play 0 into the safe branch; agent_0 expects 2.0 in the second step, and 3.5 come.
    click(browser, ".columns .card tbody tr:first-child button")
    assert step_of(browser) == 1
    told = card(browser)
    for text in ("agent_0", "too little by", "1.5", "3.5"):
        assert text in told
    assert browser.execute_script("return document.querySelectorAll('.mark-wrong').length") == 4


def test_another_checkpoint_is_asked_in_the_same_states(browser: Any, server: WatchServer) -> None:
    opened(
        browser, server, run="two_step", checkpoint="checkpoint_000001", other="two_step/checkpoints/checkpoint_000002"
    )
    assert "would do something else in 4 of 4 decisions" in text_of(browser)
    assert browser.execute_script("return document.querySelectorAll('.mark-differs').length") == 2
    told = card(browser)
    assert "the other would" in told
    assert "the other's Q" in told
    assert "6" in told


def test_what_gets_the_focus_is_not_below_the_scrubber(browser: Any, server: WatchServer) -> None:
    opened(browser, server, run="two_step", checkpoint="checkpoint_000001", agent="agent_0", step=0)
    for window in (400, 500, 600):  # as high as the page is; the button is out of sight, or behind the scrubber
        browser.set_window_size(1280, window + 150)
        seen = browser.execute_script(
            """scrollTo(0, 0);
            document.activeElement.blur();
            const button = document.querySelector(".what-if-button");
            button.focus();
            const { x, y, width, height } = button.getBoundingClientRect();
            return document.elementFromPoint(x + width / 2, y + height - 3) === button;"""
        )
        assert seen, window
    browser.execute_script("document.querySelector('.what-if-button').click()")
    # The keyboard goes on in what was opened.
    assert browser.execute_script("return document.activeElement.closest('.episode-what-if') !== null")
    browser.set_window_size(1280, 900)
    assert complaints(browser) == []


def test_a_branch_stands_beside_the_episode_also_in_a_saved_view(
    browser: Any, server: WatchServer, downloads: Path
) -> None:
    opened(browser, server, run="two_step", checkpoint="checkpoint_000001", agent="agent_0", step=0)
    click(browser, ".what-if-button")
    # Known: 1 leads into the risky branch, in which both play 0 and earn nothing; it was 3.5 for each.
    browser.execute_script(
        "[...document.querySelectorAll('.episode-what-if button')].find((b) => b.innerText.startsWith('1')).click()"
    )
    click(browser, ".what-if-show:not([disabled])")
    wait_until(browser, "document.querySelectorAll('.episode-figure').length === 2", "two pictures")
    assert "agent_0\t3.5\t0\t−3.5" in text_of(browser)
    assert browser.execute_script("return document.querySelectorAll('.mark-branch').length") == 1
    click(browser, "#save-view")
    browser.get(_downloaded(browser, downloads, "two_step").as_uri())
    wait_until(browser, "document.querySelectorAll('.episode-figure').length === 2", "two pictures from the disk")
    assert complaints(browser) == []


MANY = """
const done = arguments[0];
const opinion = { policy: "p", member: 2, probabilities: [[0.25, 0.75], [0.1, 0.2, 0.7]], mean: null, std: null,
  q_values: null, value: 1.5 };
const blank = { policy: "p", asked: true, action_mask: null, action_name: null, reward: -0.5, terminated: true,
  truncated: false, expected: null, came: null, error: null, other: null, other_action: null };
const pixels = Array.from({ length: 16 }, () => Array.from({ length: 16 }, () => [0, 128, 255]));
const agents = [
  { ...blank, agent: "multi", opinion, action: [1, 2], action_mask: [true, true, false, true, true], observation: pixels },
  { ...blank, agent: "box", opinion: { ...opinion, probabilities: null, mean: [0.5, -1], std: [0.1, 0.2] },
    action: [0.6, -0.9], observation: [0, 0, 1, 0] },
  { ...blank, agent: "idle", asked: false, opinion: null, action: null, observation: null },
];
const trace = { env: "e", episode: 0, seed: 0, length: 1, returns: {}, action_names: {}, most_wrong: [],
  missing_values: "", steps: [{ step: 0, agents }] };
const spaces = { multi: { type: "MultiDiscrete", shape: [2], nvec: [2, 3] }, box: { type: "Box", shape: [2], low: -2, high: 2 } };
const observation_spaces = { multi: { type: "Box", shape: [16, 16, 3], low: 0, high: 255 },
  box: { type: "Box", shape: [4], low: 0, high: 1 } };
(async () => {
  const { Episode } = await import("marl/parts/episode.js");
  const { agentCard } = await import("marl/parts/agent_card.js");
  const episode = new Episode({ request: {}, trace, scenes: [], spaces, observation_spaces, left_out: [] });
  const found = {};
  for (const { agent } of agents) {
    const card = agentCard();
    document.body.append(card.element);
    card.show(episode, 0, agent);
    const canvas = card.element.querySelector("canvas");
    found[agent] = { text: card.element.innerText, rows: card.element.querySelectorAll(".options tbody tr").length,
      color: canvas && [...canvas.getContext("2d").getImageData(3, 3, 1, 1).data] };
    card.element.remove();
  }
  return found;
})().then(done, (error) => done(String(error)));
"""


def test_all_kinds_of_actions_and_observations_have_a_form(browser: Any, server: WatchServer) -> None:
    show(browser, server, "/episodes")
    found = browser.execute_async_script(MANY)
    multi, box, idle = found["multi"], found["box"], found["idle"]
    assert multi["rows"] == 5
    assert multi["color"] == [0, 128, 255, 255]
    for text in ("Choice 0", "Choice 1", "75 %", "not legal", "member 2", "terminated", "−0.5"):
        assert text in multi["text"]
    assert box["rows"] == 2
    for text in ("0.5 ± 0.1", "−1 ± 0.2", "0.6", "−0.9", "one-hot: 2 of 0 to 3"):
        assert text in box["text"]
    assert "It is not asked in this step." in idle["text"]
    assert complaints(browser) == []


def test_a_mistake_is_told_and_the_form_stays(browser: Any, server: WatchServer) -> None:
    show(browser, server, f"/episodes?{urlencode({'run': 'two_step', 'other': 'long'})}")
    told = wait_for(browser, ".message.error[role=alert]").text
    assert "has no policy 'agent_0'. It has car, traffic_light." in told
    wait_for(browser, ".episode-form")


def test_strange_names_are_text(browser: Any, server: WatchServer) -> None:
    opened(browser, server, run="<b>strange</b> & run")
    found = text_of(browser)
    assert "<img src=x onerror=alert(1)>" in found
    assert "<i>stay</i>" in found
    made = "main img, main u, main script, main i:not([class])"
    assert browser.execute_script("return document.querySelectorAll(arguments[0]).length", made) == 0
    assert complaints(browser) == []


def test_a_saved_view_is_scrubbed_without_a_server(browser: Any, server: WatchServer, downloads: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    opened(browser, server, run="long", step=5)
    click(browser, "#save-view")
    file = _downloaded(browser, downloads, "traffic")
    browser.get(file.as_uri())
    wait_for(browser, ".episode-stage")
    assert step_of(browser) == 5
    assert wait_for(browser, ".episode-figure .scene").text != "" or wait_for(browser, ".episode-figure svg")
    press(browser, Keys.END, Keys.ARROW_LEFT)
    assert step_of(browser) == 99
    assert browser.execute_script("return document.querySelectorAll('.episode-form, .what-if-button').length") == 0
    assert complaints(browser) == []


def _downloaded(browser: Any, folder: Path, name: str) -> Path:
    import time

    for _ in range(600):
        found = list(folder.glob(f"{name}*.html"))
        if found:
            return found[0]
        time.sleep(0.1)
    raise AssertionError(f"nothing was saved: {text_of(browser)}")
