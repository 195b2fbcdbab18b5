"""What if, on the page: in games whose answer is known by hand."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from marl.play.episode import Which, play_episode
from marl.play.playable import Playable
from marl.watch.tasks import what_if
from tests.play.runs import constant, trained
from tests.watch.asking import client_of, done
from tests.watch.browser import complaints, show, text_of, wait_for, wait_until, watched

SURE = 9.0


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    # agent_0 always plays 0 and agent_1 always 1: the safe branch pays 7, the risky one would pay 1 to (0, 1).
    constant(folder / "careful", "two_step_game", {"agent_0": [SURE, 0.0], "agent_1": [0.0, SURE]})
    constant(folder / "bold", "two_step_game", {"agent_0": [0.0, SURE], "agent_1": [0.0, SURE]})
    return folder


def asked(root: Path, **changes: Any) -> dict[str, Any]:
    usual = {
        "request": {"run": "careful"},
        "agent": "agent_0",
        "step": 0,
        "action": "1",
        "policy": None,
        "continuations": 10,
    }
    return {"root": str(root), "allow": ["tests"], **usual, **changes}


def together(told: dict[str, Any]) -> list[float]:
    effect = told["answer"]["together"]
    return [effect[way]["mean"] for way in ("as_it_was", "instead", "difference")]


def test_the_page_gets_the_answer_of_marl_why(root: Path) -> None:
    told = what_if.effect(asked(root), lambda *_: None)
    assert together(told) == [7.0, 1.0, -6.0]
    assert told["answer"]["exact"]
    assert told["answer"]["sentence"].startswith("Had agent_0 done 1 in step 0, it would have earned exactly 3 less.")
    other = what_if.effect(asked(root, action=None, policy="bold"), lambda *_: None)
    assert together(other) == [7.0, 8.0, 1.0]
    # Nobody is told where the results are on this machine: a saved page goes to others.
    assert str(root) not in str(other)


def test_a_branch_has_the_form_of_an_episode(root: Path) -> None:
    told = what_if.branch(asked(root), lambda *_: None)
    assert told["trace"]["format"] == "marl-trace"
    assert told["trace"]["returns"] == {"agent_0": 0.5, "agent_1": 0.5}
    assert len(told["scenes"]) == told["trace"]["length"] + 1
    assert told["branch"] == {"step": 0, "agent": "agent_0", "action": "1", "policy": None}
    same = what_if.branch(asked(root, action="0"), lambda *_: None)
    tape = play_episode(Playable.open(root / "careful", frozenset()), Which())
    assert same["trace"]["returns"] == tape.returns


def test_progress_tells_the_continuations(tmp_path: Path) -> None:
    trained(tmp_path / "dice", "tests.play.runs:Dice")
    told: list[tuple[float, float | None, str]] = []
    arguments = asked(tmp_path, request={"run": "dice", "explore": True}, agent="gambler", continuations=70)
    found = what_if.effect(arguments, lambda done, total=None, text="": told.append((done, total, text)))
    counted = [done for done, _, text in told if text == "continuations"]
    assert counted == [0, 32, 64, 70]
    assert found["answer"]["continuations"] == 70
    assert not found["answer"]["exact"]


GOOD: dict[str, Any] = {"request": {"run": "careful"}, "agent": "agent_0", "step": 0, "instead": {"action": 1}}


def test_bad_questions_are_refused_before_any_work(root: Path) -> None:
    good = GOOD
    bad: list[dict[str, Any]] = [
        {**good, "instead": {}},
        {**good, "instead": {"deed": 1}},
        {**good, "instead": {"policy": 3}},
        {**good, "step": -1},
        {**good, "step": "0"},
        {**good, "agent": None},
        {**good, "request": None},
        {**good, "request": {"run": "careful", "more": 1}},
        {**good, "continuations": 0},
        {**good, "continuations": 10**9},
    ]
    with watched(root) as server, client_of(server) as client:
        for body in bad:
            refused = client.post("/api/whatif/effect", json=body)
            assert refused.status_code == 400, body
            assert refused.json()["error"]["message"]


@pytest.mark.slow  # a process that imports torch
def test_what_only_the_run_knows_is_told_by_the_job(root: Path) -> None:
    with watched(root) as server, client_of(server) as client:
        found = done(client, "/api/whatif/effect", {**GOOD, "continuations": 5})
        assert together(found["result"]) == [7.0, 1.0, -6.0]
        for change, why in (
            ({"step": 9}, "has no step 9"),
            ({"instead": {"action": 5}}, "no action of Discrete"),
            ({"instead": {"policy": "../x"}}, "not in the results folder"),
        ):
            told = done(client, "/api/whatif/branch", {**GOOD, **change})
            assert told["state"] == "failed"
            assert why in told["error"]["message"]


@pytest.mark.slow
def test_a_measurement_is_broken_off(root: Path) -> None:
    trained(root / "dice", "tests.play.runs:Dice")
    long = {"request": {"run": "dice", "explore": True}, "agent": "gambler", "step": 0, "instead": {"action": 1}}
    with watched(root, allow=frozenset({"tests"})) as server, client_of(server) as client:
        job = client.post("/api/whatif/effect", json={**long, "continuations": 100_000}).json()["job"]
        deadline = time.monotonic() + 60
        while client.get(f"/api/jobs/{job}").json().get("text") != "continuations" and time.monotonic() < deadline:
            time.sleep(0.05)
        assert client.delete(f"/api/jobs/{job}").status_code == 200
        assert client.get(f"/api/jobs/{job}").status_code == 404
        # The next one begins at once, and not after the 100,000.
        assert done(client, "/api/whatif/effect", {**long, "continuations": 10})["state"] == "done"


# -- in a browser ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_if_is_asked_and_answered_on_the_page(browser: Any, root: Path) -> None:
    with watched(root) as server:
        show(browser, server, "/episodes?run=careful&step=0&agent=agent_0")
        open_panel(browser)
        options = browser.find_elements("css selector", ".what-if-option")
        assert len(options) == 2
        assert "was done" in options[0].text
        assert browser.find_element("css selector", ".what-if-measure").get_attribute("disabled")
        options[1].click()
        browser.find_element("css selector", ".what-if-measure").click()
        wait_for(browser, ".what-if-answer .interval-plot")
        text = text_of(browser)
        assert "Had agent_0 done 1 in step 0, it would have earned exactly 3 less." in text
        assert "marl why careful --episode 0 --agent agent_0 --step 0 --instead 1" in text
        rows = browser.execute_script(
            "return [...document.querySelectorAll('.what-if-table tbody tr')].map((r) => r.innerText)"
        )
        assert [row.split("\t") for row in rows] == [
            ["agent_0", "3.5", "0.5", "−3"],
            ["agent_1", "3.5", "0.5", "−3"],
            ["all together", "7", "1", "−6"],
        ]
        take_another_policy(browser, "bold")
        wait_until(browser, "document.body.innerText.includes('been played by bold')", "the other policy is measured")
        assert "all together\t7\t8\t+1" in text_of(browser)
        browser.find_element("css selector", ".what-if-show").click()
        wait_until(browser, "document.body.innerText.includes('The branch is shown.')", "the branch is shown")
        assert complaints(browser) == []


@pytest.mark.slow
def test_a_saved_file_holds_what_was_measured(browser: Any, root: Path, downloads: Path) -> None:
    with watched(root) as server:
        asks = '{"step":0,"agent":"agent_0","instead":{"action":1},"continuations":100,"shown":"effect"}'
        show(browser, server, f"/episodes?run=careful&step=0&agent=agent_0&whatif={quote(asks)}")
        open_panel(browser)
        browser.find_element("css selector", ".what-if-measure").click()
        wait_for(browser, ".what-if-answer")
        browser.find_element("id", "save-view").click()
        file = saved_in(downloads)
    browser.get(file.as_uri())
    wait_for(browser, ".what-if-answer .interval-plot")
    assert "it would have earned exactly 3 less" in text_of(browser)
    assert not browser.find_elements("css selector", ".what-if-measure")  # nobody could answer
    assert complaints(browser) == []


def saved_in(downloads: Path) -> Path:
    deadline = time.monotonic() + 30
    while not list(downloads.glob("*.html")) and time.monotonic() < deadline:
        time.sleep(0.1)
    return next(downloads.glob("*.html"))


def take_another_policy(browser: Any, source: str) -> None:
    browser.find_element("css selector", ".what-if input[value=policy]").click()
    wait_until(browser, f"document.querySelector('.what-if-choice option[value={source}]')", "other runs are offered")
    choose = f"const l = document.querySelector('.what-if-choice select'); l.value = '{source}'; l.dispatchEvent(new Event('change'))"
    browser.execute_script(choose)
    browser.find_element("css selector", ".what-if-measure").click()


def open_panel(browser: Any) -> None:
    if not browser.find_elements("css selector", ".what-if-option"):
        asks = "[...document.querySelectorAll('button')].find((button) => /what if/i.test(button.innerText))"
        wait_until(browser, f"{asks} !== undefined", "a button asks what if")
        browser.execute_script(f"{asks}.click()")
    wait_for(browser, ".what-if-option")
