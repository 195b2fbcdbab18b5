"""Drawings of scenes in a real browser: every kind from a real env, clicks and keys that take the right action."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marl.envs.registry import make_batched_env
from marl.envs.scene_forms import FORMS
from marl.envs.scenes import Scene, scene_of
from tests.watch.browser import complaints, show, wait_for, watched

pytestmark = pytest.mark.slow

ENVS: dict[str, tuple[str, dict[str, Any], str | None]] = {
    "matrix": ("matrix_game", {"repetitions": 5}, "player_0"),
    "three players": ("matrix_game", {"payoffs": np.arange(24).reshape(3, 2, 2, 2).tolist()}, "player_2"),
    "states": ("two_step_game", {}, None),
    "cards": ("leduc_poker", {}, "player_1"),
    "dice": ("liars_dice", {"dice": 5}, "player_1"),
    "board": ("pettingzoo:classic/tictactoe_v3", {}, "player_1"),
    "holes": ("pettingzoo:classic/connect_four_v3", {}, "player_0"),
    "chess": ("pettingzoo:classic/chess_v6", {}, "player_0"),
    "points": ("pettingzoo:classic/go_v5", {"board_size": 5}, "black_0"),
    "particles": ("fast:simple_tag", {}, "agent_0"),
    "traffic": ("traffic", {}, "traffic_light_0"),
    "maze": ("windy_maze", {}, "walker_0"),
    "network": ("congestion", {"repetitions": 2}, "driver_0"),
    "parallel edges": ("congestion", {"network": "pigou"}, None),
    "graph": ("graphical_game", {"graph": {"generator": "grid_2d_graph", "m": 3, "n": 3}}, "node_0_0"),
    "picture": ("CartPole-v1", {}, None),
}
GALLERY = """
const [scenes, seats, done] = arguments;
import("marl/draw/scene.js").then(({ scenePicture }) => {
  const root = document.getElementById("main");
  root.replaceChildren();
  window.taken = [];
  window.legal = null;
  window.pictures = {};
  for (const [name, scene] of Object.entries(scenes)) {
    const options = { seat: seats[name], legal: () => window.legal, onAction: (action) => window.taken.push(action) };
    const picture = scenePicture(options);
    picture.show(scene);
    picture.element.id = name.replaceAll(" ", "-");
    root.append(picture.element);
    window.pictures[name] = picture;
  }
  done("drawn");
}).catch((error) => done(String(error)));
"""


def scene_after_a_step(name: str, config: Mapping[str, Any], viewer: str | None, moves: int = 1) -> Scene:
    env = make_batched_env(name, 1, config, render_mode="rgb_array")
    out = env.reset(np.array([0]), np.array([1]))
    for _ in range(moves):
        actions = []
        for kind, legal in zip(env.kinds, out.legal, strict=True):
            best = legal[0].argmax(axis=1) if legal.shape[2] else np.zeros(kind.size)
            actions.append(np.broadcast_to(best, (1, *best.shape)).astype(kind.action_dtype))
        out = env.step(actions)
    scene = scene_of(env, 0, viewer)
    env.close()
    assert scene is not None
    return scene


@pytest.fixture(scope="module")
def scenes() -> dict[str, Scene]:
    found = {}
    for key, (name, config, viewer) in ENVS.items():
        found[key] = scene_after_a_step(name, config, viewer, moves=0 if key in ("board", "chess") else 1)
    found["text"] = {"kind": "text", "text": "<b>row</b>\n1 2"}
    return found


@pytest.fixture
def gallery(browser: Any, scenes: dict[str, Scene], tmp_path: Path) -> Iterator[Any]:
    with watched(tmp_path) as server:
        show(browser, server, "/explain")
        seats = {key: viewer for key, (_, _, viewer) in ENVS.items()}
        assert browser.execute_async_script(GALLERY, scenes, seats) == "drawn"
        yield browser


def taken(browser: Any) -> list[int]:
    actions: list[int] = browser.execute_script("return window.taken.splice(0)")
    return actions


def press(browser: Any, selector: str, *keys: str) -> None:
    wait_for(browser, selector).send_keys(*keys)


def click(browser: Any, selector: str) -> None:
    """In the middle of the window: the bar on top of the page covers what lies below it."""
    place = wait_for(browser, selector)
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", place)
    place.click()


def labels(browser: Any, selector: str) -> list[str]:
    script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.getAttribute('aria-label'))"
    found: list[str] = browser.execute_script(script, selector)
    return found


def test_every_kind_is_drawn_and_says_what_it_shows(gallery: Any, scenes: dict[str, Scene]) -> None:
    assert {scene["kind"] for scene in scenes.values()} == set(FORMS)
    for name, scene in scenes.items():
        place = f"#{name.replace(' ', '-')}"
        if scene["kind"] in ("picture", "text"):
            continue
        assert labels(gallery, f"{place} svg[role=img]") == [scene["text"]], name
        boxes = gallery.execute_script(
            "const svg = document.querySelector(arguments[0] + ' svg'); const out = svg.getBoundingClientRect();"
            "return [out.width, out.height, svg.querySelectorAll('*').length, svg.textContent.includes('NaN')]",
            place,
        )
        assert boxes[0] > 100, name
        assert boxes[1] > 60, name
        assert boxes[2] > 5, name
        assert not boxes[3], name
    picture = gallery.execute_script(
        "const one = document.querySelector('#picture img'); return [one.naturalWidth, one.alt]"
    )
    assert picture[0] == 480
    assert "CartPole" in picture[1]
    assert gallery.execute_script("return document.querySelector('#text pre').textContent") == "<b>row</b>\n1 2"
    assert complaints(gallery) == []


def test_nothing_that_is_drawn_lies_outside_of_its_sheet(gallery: Any) -> None:
    script = """
    const wrong = [];
    for (const svg of document.querySelectorAll(".scene svg")) {
      const sheet = svg.getBoundingClientRect();
      for (const one of svg.querySelectorAll("text, rect, circle")) {
        const box = one.getBoundingClientRect();
        const inside = box.left > sheet.left - 3 && box.right < sheet.right + 3 && box.top > sheet.top - 3;
        if (!inside || box.bottom > sheet.bottom + 3) wrong.push(svg.getAttribute("class") + ": " + one.textContent);
      }
    }
    return wrong;"""
    assert gallery.execute_script(script) == []


def test_a_click_on_the_board_takes_the_action_of_that_cell(gallery: Any, scenes: dict[str, Scene]) -> None:
    click(gallery, "#board [aria-label='place X at row 1, column 3']")
    assert taken(gallery) == [6]  # squares count down the columns
    click(gallery, "#holes [aria-label='place O at row 2, column 4']")
    assert taken(gallery) == [3]  # anywhere in the column: the disc falls
    assert len(labels(gallery, "#board .place[aria-disabled=false]")) == 9
    click(gallery, "#chess [aria-label='pick up white pawn at row 7, column 5']")
    assert taken(gallery) == []
    click(gallery, "#chess [aria-label='move to empty at row 5, column 5']")
    assert taken(gallery) == [scenes["chess"]["actions"]["6,4>4,4"]]


def test_a_board_is_played_by_keys(gallery: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    press(gallery, "#board .place[tabindex='0']", Keys.ARROW_DOWN)
    focused = "return document.activeElement.getAttribute('aria-label')"
    assert gallery.execute_script(focused) == "place X at row 2, column 1"
    gallery.switch_to.active_element.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert gallery.execute_script(focused) == "place X at row 2, column 3"
    gallery.switch_to.active_element.send_keys(Keys.ENTER)
    assert taken(gallery) == [7]
    # The next scene keeps the focus where it is.
    gallery.execute_script(
        "const scene = structuredClone(arguments[0]); scene.cells[1][2] = 'X'; delete scene.actions['1,2'];"
        "window.pictures.board.show(scene)",
        scene_after_a_step("pettingzoo:classic/tictactoe_v3", {}, None, moves=0),
    )
    assert gallery.execute_script(focused) == "X at row 2, column 3"
    gallery.switch_to.active_element.send_keys(Keys.ENTER)
    assert taken(gallery) == []
    # The new piece is marked, though the scene alone does not know which one it is.
    assert gallery.execute_script("return document.querySelectorAll('#board .board-last').length") == 1


def test_illegal_places_take_no_action(gallery: Any, scenes: dict[str, Scene]) -> None:
    gallery.execute_script("window.legal = [4]; window.pictures.board.show(arguments[0])", scenes["board"])
    assert labels(gallery, "#board .place[aria-disabled=false]") == ["place X at row 2, column 2"]
    click(gallery, "#board [aria-label='empty at row 1, column 1']")
    assert taken(gallery) == []


def test_arrow_keys_and_buttons_move_walkers_and_bodies(gallery: Any, scenes: dict[str, Scene]) -> None:
    from selenium.webdriver.common.keys import Keys

    press(gallery, "#maze .arrow-pad button", Keys.ARROW_RIGHT)
    click(gallery, "#maze [aria-label='go up']")
    press(gallery, "#particles .arrow-pad button", Keys.ARROW_LEFT)
    assert taken(gallery) == [2, 1, 1]
    click(gallery, "#network .choices button:nth-child(2)")
    click(gallery, "#matrix .choices button:nth-child(2)")
    assert taken(gallery) == [1, 1]


def test_hidden_cards_are_not_on_the_page(gallery: Any) -> None:
    drawn = gallery.execute_script("return document.querySelector('#cards').outerHTML")
    (hidden, own) = scene_after_a_step("leduc_poker", {}, None)["players"]
    assert own["cards"][0][0] in drawn
    assert f">{hidden['cards'][0]}<" not in drawn
    assert gallery.execute_script("return document.querySelectorAll('#cards .card-back').length") == 2


def test_a_scene_that_cannot_be_drawn_is_read(gallery: Any) -> None:
    gallery.execute_script(
        "window.pictures.network.show({kind: 'network', text: 'only <i>words</i>', nodes: [], edges: [{}]})"
    )
    assert gallery.execute_script("return document.querySelector('#network').textContent") == "only <i>words</i>"
    gallery.execute_script("window.pictures.network.show(null)")
    assert "draws nothing" in gallery.execute_script("return document.querySelector('#network').textContent")


def test_drawings_are_cheap(gallery: Any, scenes: dict[str, Scene]) -> None:
    script = """
    const slow = {};
    for (const [name, scene] of Object.entries(arguments[0])) {
      const begin = performance.now();
      for (let i = 0; i < 20; i += 1) window.pictures[name].show(structuredClone(scene));
      slow[name] = (performance.now() - begin) / 20;
    }
    return slow;"""
    spent = gallery.execute_script(script, scenes)
    assert max(spent.values()) < 50, spent  # milliseconds, on a machine that may be busy; usually below 3
