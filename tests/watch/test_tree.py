"""Trees of small games: what the server gives, and a probability that is dragged in the browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import httpx
import numpy as np
import pytest

from marl import Trainer
from marl.analysis.exploit import exploitability_of
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.response import gains, nash_conv
from marl.gametheory.tree.tree import Behaviour, Tree
from marl.populations.exploit_config import ExploitabilityConfig
from marl.watch.server import WatchServer
from tests.watch.browser import PATIENCE_S, complaints, show, text_of, wait_for, wait_until, watched

TINY = {
    "env": "kuhn_poker", "train_batch_size": 64, "fcnet_hiddens": [8], "evaluation": {"interval": 0}, "checkpoint_freq": 1,
    "multiagent": {"policy_mapping_fn": "per_agent"},
}  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    with Trainer("ppo", config=TINY, directory=folder / "poker" / "<b>run</b>") as trainer:
        trainer.train()
        trainer.train()
    return folder


@pytest.fixture(scope="module")
def server(results: Path) -> Iterator[WatchServer]:
    with watched(results) as server:
        yield server


def ask(server: WatchServer, path: str, **words: str) -> httpx.Response:
    headers = {"authorization": f"Bearer {server.desk.secret}"}
    return httpx.get(f"{server.url}/api/{path}", params=words, headers=headers, timeout=60)


def test_games_and_runs_are_listed(server: WatchServer) -> None:
    listed = ask(server, "tree/games").json()
    names = [game["name"] for game in listed["games"]]
    assert {"kuhn_poker", "leduc_poker", "liars_dice_3", "prisoners_dilemma", "two_step_game"} <= set(names)
    assert listed["runs"] == ["poker/<b>run</b>"]


def test_basins_of_a_game_that_was_typed_in_come_with_their_areas(server: WatchServer) -> None:
    payoffs = "[[[4, 1], [3, 2]], [[4, 3], [1, 2]]]"
    found = ask(server, "dynamics/basins", payoffs=payoffs, kind="best_response", populations="2").json()
    assert [basin["area"] for basin in found["basins"]] == pytest.approx([0.5, 0.5], abs=0.1)
    assert found["starts"] == 500
    for wrong, told in (
        ({"payoffs": "[[1"}, "no JSON lists of numbers"),
        ({"payoffs": "[[1, 2], [3]]"}, "no JSON lists of numbers"),
        ({"payoffs": payoffs, "kind": "none"}, "unknown dynamics 'none'"),
        ({"payoffs": str(np.zeros((2, 4, 4)).tolist())}, "at most 3 actions"),
    ):
        refused = ask(server, "dynamics/basins", **wrong)
        assert refused.status_code == 400
        assert told in refused.text


def test_an_equilibrium_comes_with_its_nash_conv(server: WatchServer) -> None:
    found = ask(server, "tree/strategy", name="leduc_poker", of="equilibrium").json()
    tree = build_tree("leduc_poker")
    assert found["nash_conv"] == pytest.approx(nash_conv(tree, np.array(found["strategy"])), abs=1e-12)
    assert found["nash_conv"] < 1e-12
    of_three = ask(server, "tree/strategy", name="chicken", of="equilibrium").json()
    assert of_three["method"] == "CFR+"
    assert of_three["nash_conv"] < 1e-4


@pytest.mark.parametrize("checkpoint", [None, "checkpoint_000001"])
def test_the_policies_of_a_checkpoint_are_read_as_marl_exploit_does(
    server: WatchServer, results: Path, checkpoint: str | None
) -> None:
    words = {"run": "poker/<b>run</b>"}
    place = results / "poker" / "<b>run</b>"
    if checkpoint is not None:
        words["checkpoint"] = checkpoint
        place = place / "checkpoints" / checkpoint
    game = ask(server, "tree/game", **words).json()
    found = ask(server, "tree/strategy", of="policies", **words).json()
    truth = exploitability_of(place, ExploitabilityConfig())
    assert game["has_policies"]
    assert game["checkpoints"] == ["checkpoint_000001", "checkpoint_000002"]
    assert game["checkpoint"] == (checkpoint or "checkpoint_000002")
    assert found["nash_conv"] == pytest.approx(truth.nash_conv, abs=1e-12)
    assert found["gains"] == pytest.approx(list(truth.gains.values()), abs=1e-12)


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        ({"name": "kuhn_pokr"}, 400, "Did you mean 'kuhn_poker'?"),
        ({"env": "pettingzoo:classic/tictactoe_v3"}, 400, "nodes (estimated from random play, before building it)"),
        ({"env": "fast:simple_tag"}, 400, "billions of nodes"),
        ({"env": "traffic"}, 400, "more than the 60,000"),
        ({"env": "liars_dice", "env_config": "{"}, 400, "env_config is no JSON"),
        ({"env": "liars_dice", "env_config": "[]"}, 400, "no JSON object"),
        ({"env": "liars_dice", "env_config": '{"sides": 99}'}, 400, "sides"),
        ({"env": "os:system"}, 400, "os"),
        ({"name": "kuhn_poker", "run": "x"}, 400, "expected one of name, env and run"),
        ({}, 400, "expected one of name, env and run"),
        ({"run": "nobody"}, 404, "there is no 'nobody'"),
        ({"run": "../.."}, 404, "not in the results folder"),
        ({"run": "poker/<b>run</b>", "checkpoint": "../../../../.."}, 404, "not in the results folder"),
    ],
)
def test_what_has_no_tree_is_refused_with_the_reason(
    server: WatchServer, words: dict[str, str], status: int, told: str
) -> None:
    answer = ask(server, "tree/game", **words)
    assert answer.status_code == status, answer.text
    assert told in answer.json()["error"]["message"]


def test_a_game_without_a_run_has_no_policies(server: WatchServer) -> None:
    answer = ask(server, "tree/strategy", name="kuhn_poker", of="policies")
    assert answer.status_code == 400
    assert "not of a run" in answer.json()["error"]["message"]


def test_an_unknown_kind_of_strategy_is_refused(server: WatchServer) -> None:
    answer = ask(server, "tree/strategy", name="kuhn_poker", of="luck")
    assert answer.status_code == 400
    assert "expected one of equilibrium, policies" in answer.json()["error"]["message"]


# -- in the browser ----------------------------------------------------------------------------------------------------


def shown_conv(browser: Any) -> float:
    return float(browser.execute_script("return Number(document.getElementById('nash-conv').dataset.value)"))


def drag(browser: Any, choice: int, share: float) -> float:
    """Take a slider's thumb and drag it to a share of its width; the probability that it shows then."""
    from selenium.webdriver.common.action_chains import ActionChains

    slider = wait_for(browser, f'input[data-choice="{choice}"]')
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", slider)
    width, now = slider.size["width"], float(slider.get_attribute("value"))
    thumb = 16  # whose middle goes from half of it to the width less half of it
    place = [round(thumb / 2 + p * (width - thumb) - width / 2) for p in (now, share)]
    chain = ActionChains(browser).move_to_element_with_offset(slider, place[0], 0).click_and_hold()
    for part in range(1, 6):
        chain = chain.move_to_element_with_offset(slider, round(place[0] + part / 5 * (place[1] - place[0])), 0)
    chain.release().perform()
    return float(slider.get_attribute("value"))


def moved(tree: Tree, strategy: Behaviour, choice: int, probability: float) -> Behaviour:
    """By hand: the others of the set share the rest as before."""
    found = strategy.copy()
    owner = tree.sets.owner == tree.sets.owner[choice]
    found[owner] *= (1 - probability) / (1 - strategy[choice])
    found[choice] = probability
    return found


def check_drag(browser: Any, tree: Tree, choice: int, share: float) -> None:
    before = shown_conv(browser)
    probability = drag(browser, choice, share)
    assert abs(probability - share) < 0.1
    expected = moved(tree, tree.uniform(), choice, probability)
    wait_until(
        browser, f"Number(document.getElementById('nash-conv').dataset.value) !== {before!r}", "nothing was solved"
    )
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    assert shown_conv(browser) == pytest.approx(nash_conv(tree, expected), abs=1e-9)
    cells = browser.execute_script(
        "return [...document.querySelectorAll('.figures tbody tr')].map((row) => row.lastChild.textContent)"
    )
    assert [float(cell) for cell in cells] == pytest.approx(gains(tree, expected), rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "number"), [("kuhn_poker", 2), ("leduc_poker", 4), ("liars_dice_3", 0)])
def test_dragging_a_probability_solves_the_game_again(
    browser: Any, server: WatchServer, name: str, number: int
) -> None:
    tree = tree_of(name)
    show(browser, server, f"/tree?name={name}&set={number}")
    choice = int(tree.sets.first_choice[number])
    wait_until(browser, "document.getElementById('nash-conv') !== null", "no figures")
    assert shown_conv(browser) == pytest.approx(nash_conv(tree, tree.uniform()), abs=1e-9)
    check_drag(browser, tree, choice, 0.85)
    assert "edits=" in browser.current_url
    assert complaints(browser) == []


def tree_of(name: str) -> Tree:
    if name == "liars_dice_3":
        return build_tree("liars_dice", {"sides": 3})
    return build_tree(name)


@pytest.mark.slow
def test_a_saved_tree_is_dragged_without_a_server(
    browser: Any, server: WatchServer, downloads: Path, tmp_path: Path
) -> None:
    show(browser, server, "/tree?name=kuhn_poker&set=3")
    wait_until(browser, "document.querySelector('[data-base=equilibrium]') !== null", "no buttons")
    # The equilibrium is asked for in the background; in the file its button works without a server.
    wait_until(
        browser,
        "performance.getEntriesByType('resource').some((one) => one.name.includes('of=equilibrium') && one.responseEnd > 0)",
        "the equilibrium was not loaded",
    )
    browser.find_element("id", "save-view").click()
    file = downloads / "Tree_of_Kuhn_poker.html"
    end = monotonic() + PATIENCE_S
    while not file.exists() and monotonic() < end:
        sleep(0.05)
    browser.get(file.as_uri())
    wait_for(browser, "#main[data-ready]")
    tree = build_tree("kuhn_poker")
    check_drag(browser, tree, int(tree.sets.first_choice[3]), 0.9)
    browser.execute_script("document.querySelector('[data-base=equilibrium]').click()")
    wait_until(browser, "Number(document.getElementById('nash-conv').dataset.value) < 1e-9", "no equilibrium")
    assert complaints(browser) == []


@pytest.mark.slow
def test_the_keyboard_moves_probabilities_and_goes_through_the_tree(browser: Any, server: WatchServer) -> None:
    from selenium.webdriver.common.keys import Keys

    show(browser, server, "/tree?name=kuhn_poker&set=2")
    slider = wait_for(browser, 'input[type="range"][data-choice]')
    before = shown_conv(browser)
    slider.send_keys(Keys.ARROW_RIGHT * 30)
    wait_until(browser, f"Number(document.getElementById('nash-conv').dataset.value) !== {before!r}", "nothing moved")
    pane = wait_for(browser, ".tree-pane")
    pane.send_keys(Keys.ARROW_DOWN)
    wait_until(browser, "document.querySelector('.tree-told').textContent.startsWith('player_0 decides')", "not there")
    pane.send_keys(Keys.ARROW_DOWN)
    pane.send_keys(Keys.ENTER)
    wait_until(browser, "document.querySelector('.set-panel h2').textContent.includes('player_1')", "not selected")
    assert "after pass" in text_of(browser)


@pytest.mark.slow
def test_cfr_plus_solves_leduc_on_the_page(browser: Any, server: WatchServer) -> None:
    show(browser, server, "/tree?name=leduc_poker")
    wait_for(browser, "#tree-solve").click()
    wait_until(browser, "Number(document.getElementById('nash-conv').dataset.value) < 0.5", "NashConv does not fall")
    browser.find_element("id", "tree-solve").click()
    wait_until(browser, "document.getElementById('tree-solve').textContent === 'Solve by CFR+'", "it does not stop")
    script = "return JSON.stringify([...(await import('marl/views/tree.js')).strategyShown()])"
    found = np.array(json.loads(browser.execute_script(f"return (async () => {{ {script} }})()")))
    tree = build_tree("leduc_poker")
    assert shown_conv(browser) == pytest.approx(nash_conv(tree, tree.checked(found)), abs=1e-9)
    drawn = browser.execute_script("return document.querySelectorAll('.tree-svg .node').length")
    assert 5 < drawn < 300  # never all of it
    pressed = "document.querySelector('[data-base=uniform]').getAttribute('aria-pressed')"
    assert browser.execute_script(f"return {pressed}") == "false"  # what is shown is what CFR+ found
    # The address says how it was found, so whoever opens it sees the same.
    before = shown_conv(browser)
    show(browser, server, str(browser.current_url).partition("#")[2])
    wait_until(browser, "document.body.textContent.includes('iterations of CFR+')", "not solved again")
    assert shown_conv(browser) == pytest.approx(before, abs=1e-12)


@pytest.mark.slow
def test_all_of_kuhns_family_are_equilibria(browser: Any, server: WatchServer) -> None:
    show(browser, server, "/tree?name=kuhn_poker")
    wait_for(browser, "#kuhn-alpha")
    for alpha in (0, 30, 100):
        browser.execute_script(
            "const s = document.getElementById('kuhn-alpha'); s.value = arguments[0]; s.dispatchEvent(new Event('input'))",
            alpha,
        )
        wait_until(browser, "Number(document.getElementById('nash-conv').dataset.value) < 1e-12", f"alpha {alpha}")
        assert "−0.05556" in text_of(browser)


@pytest.mark.slow
def test_a_run_begins_as_its_policies_play(browser: Any, server: WatchServer, results: Path) -> None:
    show(browser, server, "/tree?run=poker%2F%3Cb%3Erun%3C%2Fb%3E")
    truth = exploitability_of(results / "poker" / "<b>run</b>", ExploitabilityConfig())
    wait_until(
        browser, "document.querySelector('[data-base=policies][aria-pressed=true]') !== null", "not the policies"
    )
    assert shown_conv(browser) == pytest.approx(truth.nash_conv, abs=1e-9)
    assert "poker/<b>run</b>: 55 nodes" in text_of(browser)


@pytest.mark.slow
def test_what_is_too_large_is_said_on_the_page(browser: Any, server: WatchServer) -> None:
    show(browser, server, "/tree?env=pettingzoo%3Aclassic%2Ftictactoe_v3")
    wait_until(browser, "document.querySelector('.message.error') !== null", "no message")
    assert "nodes (estimated from random play, before building it)" in text_of(browser)
