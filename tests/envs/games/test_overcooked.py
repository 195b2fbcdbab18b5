"""fast:overcooked against a recording of JaxMARL's, and what it promises besides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import marl
from marl.data.task import Array
from marl.envs.games.overcooked.kitchens import OvercookedGames
from marl.envs.games.overcooked.layouts import LAYOUTS
from marl.envs.games.overcooked.rules import COUNTER, ONION, PLATE, POT, POT_EMPTY, POT_FULL, POT_READY, SOUP
from marl.envs.registry import make_batched_env
from marl.envs.scenes import scene_of
from marl.errors import ConfigError, UserError
from tests.envs.games.overcooked_original import COPIES, RECORDING, STEPS, Crew
from tests.envs.games.overcooked_original import LAYOUTS as RECORDED

UP, DOWN, RIGHT, LEFT, STAY, INTERACT = range(6)
ROOM = ("WWPWW", "O0 1O", "W   W", "WBWXW")


def kitchens(copies: int = 1, **config: Any) -> OvercookedGames:
    env = make_batched_env("fast:overcooked", copies, config)
    assert isinstance(env, OvercookedGames)
    env.reset(np.arange(copies), np.arange(copies))
    return env


def start_from(env: OvercookedGames, **arrays: Any) -> Any:
    """Put all copies into a state of which only some arrays are given, ``[E, ...]``."""
    state = env.get_state()
    for name, value in arrays.items():
        state[name] = np.broadcast_to(np.asarray(value, state[name].dtype), state[name].shape)
    return env.set_state(state)


def play(env: OvercookedGames, *moves: tuple[int, int]) -> list[Any]:
    """Steps of both cooks in the only copy."""
    return [env.step([np.array([move])]) for move in moves]


# -- the original --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("begins", ["start", "anywhere"])
@pytest.mark.parametrize("layout", RECORDED)
def test_every_step_is_that_of_the_recorded_original(layout: str, begins: str) -> None:
    with np.load(RECORDING) as file:
        told = {name: file[f"{layout}.{begins}.{name}"] for name in RECORDED_COLUMNS}
    shown = np.cumsum(told["obs"], axis=0, dtype=np.uint8)
    env = kitchens(COPIES, layout=layout, max_steps=STEPS)
    first = start_from(env, **{name: told[name] for name in ("cells", "places", "facing", "held", "clock")})
    np.testing.assert_array_equal(first.obs[0], shown[0])
    for step in range(STEPS):
        frame = env.step([told["actions"][step].astype(np.int64)])
        np.testing.assert_array_equal(frame.obs[0], shown[step + 1], err_msg=f"observations of step {step}")
        np.testing.assert_array_equal(frame.rewards, told["rewards"][step], err_msg=f"rewards of step {step}")
        np.testing.assert_array_equal(env.shaped, told["shaped"][step], err_msg=f"shaped rewards of step {step}")
        np.testing.assert_array_equal(frame.over, told["done"][step])
        np.testing.assert_array_equal(frame.truncated, np.repeat(told["done"][step][:, None], 2, axis=1))
        assert not frame.terminated.any()
    np.testing.assert_array_equal(env.soups, told["rewards"][..., 0].sum(axis=0) // 20)


RECORDED_COLUMNS = ("obs", "actions", "rewards", "shaped", "done", "cells", "places", "facing", "held", "clock")


def test_the_recording_delivers_soups_in_every_layout_and_pays_all_shaped_rewards() -> None:
    with np.load(RECORDING) as file:
        for layout in RECORDED:
            episodes = [f"{layout}.{begins}" for begins in ("start", "anywhere")]
            assert sum(int(file[f"{name}.rewards"].sum()) for name in episodes) > 0, layout
            paid = np.concatenate([file[f"{name}.shaped"].reshape(-1) for name in episodes])
            assert set(paid.tolist()) == {0, 3, 5}, layout


# -- rules, worked out by hand -------------------------------------------------------------------------------------


def test_a_soup_from_the_first_onion_to_its_delivery() -> None:
    env = kitchens(layout=list(ROOM), shaped_rewards=1.0)
    start_from(env, facing=[LEFT, RIGHT], held=[ONION, 0])
    pot = 2
    fetch = [(LEFT, STAY), (INTERACT, STAY), (RIGHT, STAY), (UP, STAY), (INTERACT, STAY)]
    first = play(env, (RIGHT, STAY), (UP, STAY), (INTERACT, STAY))
    assert first[-1].rewards.tolist() == [[3.0, 0.0]]
    assert env.cells[pot, 0] == POT + POT_EMPTY - 1
    for onions in (2, 3):
        play(env, *fetch)
        assert env.cells[pot, 0] == (POT + POT_EMPTY - 2 if onions == 2 else POT + 19)  # the third one starts it
    play(env, *[(STAY, STAY)] * 18)
    assert env.cells[pot, 0] == POT + 1
    play(env, (STAY, STAY), (STAY, STAY))
    assert env.cells[pot, 0] == POT + POT_READY
    start_from(env, held=[PLATE, 0])
    assert play(env, (INTERACT, STAY))[0].rewards.tolist() == [[5.0, 0.0]]
    assert (env.held[0, 0], env.cells[pot, 0]) == (SOUP, POT + POT_EMPTY)
    paid = play(env, (DOWN, LEFT), (RIGHT, STAY), (DOWN, STAY), (INTERACT, STAY))
    assert [frame.rewards.tolist() for frame in paid][-1] == [[20.0, 20.0]]
    assert env.soups[0] == 1


def test_a_full_pot_that_does_not_cook_yet_shows_three_onions_and_takes_no_more() -> None:
    """Only random starts have one: the third onion and the first step of cooking are one step."""
    env = kitchens()
    cells = env.layout.codes.copy()
    cells[2] = POT + POT_FULL
    frame = start_from(env, cells=cells, places=[7, 8], facing=[UP, UP], held=[ONION, 0])
    seen = frame.obs[0].reshape(2, -1, 26)[:, 2, 16:22].tolist()
    assert seen == [[3, 0, 0, 0, 0, 0]] * 2
    frame = play(env, (INTERACT, STAY))[0]
    assert frame.obs[0].reshape(2, -1, 26)[:, 2, 16:22].tolist() == [[0, 0, 3, 0, 19, 0]] * 2
    assert env.held[0, 0] == ONION


@pytest.mark.parametrize(
    ("pot", "other_holds", "lies_about", "paid"),
    [
        (POT_EMPTY, 0, COUNTER, 0.0),  # no pot has anything in it
        (POT_EMPTY - 1, 0, COUNTER, 3.0),
        (POT_READY, 0, COUNTER, 3.0),
        (POT_READY, PLATE, COUNTER, 0.0),  # the other one's plate is enough
        (POT_READY, 0, COUNTER + PLATE, 0.0),  # so is one that lies about
        (POT_READY, 0, COUNTER + ONION, 3.0),
    ],
)
def test_a_plate_pays_while_it_is_useful(pot: int, other_holds: int, lies_about: int, paid: float) -> None:
    env = kitchens(shaped_rewards=1.0)
    cells = env.layout.codes.copy()
    cells[[2, 0]] = POT + pot, lies_about
    start_from(env, cells=cells, places=[11, 8], facing=[DOWN, UP], held=[0, other_holds])
    assert play(env, (INTERACT, STAY))[0].rewards.tolist() == [[paid, 0.0]]
    assert env.held[0, 0] == PLATE


def test_the_second_cook_finds_what_the_first_has_just_laid_down() -> None:
    lines = ["WWWWWW", "W0W1OW", "WBXPWW"]
    env = kitchens(layout=lines)
    start_from(env, facing=[RIGHT, LEFT], held=[ONION, 0])
    play(env, (INTERACT, INTERACT))
    assert env.held[:, 0].tolist() == [0, ONION]
    start_from(env, held=[0, ONION])  # the first one reaches first, and finds nothing
    play(env, (INTERACT, INTERACT))
    assert env.held[:, 0].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("places", "moves", "after"),
    [
        ([6, 8], (RIGHT, LEFT), [6, 8]),  # both want the cell between them
        ([6, 7], (RIGHT, LEFT), [6, 7]),  # each other's
        ([6, 7], (RIGHT, RIGHT), [7, 8]),  # one follows the other
        ([6, 7], (RIGHT, STAY), [6, 7]),
        ([6, 8], (LEFT, DOWN), [6, 13]),  # a counter stops the first
    ],
)
def test_cooks_stay_where_they_would_meet(places: list[int], moves: tuple[int, int], after: list[int]) -> None:
    env = kitchens()
    start_from(env, places=places)
    play(env, moves)
    assert env.places[:, 0].tolist() == after
    turned = [move for move in moves if move < 4]
    assert [way for way, move in zip(env.facing[:, 0].tolist(), moves, strict=True) if move < 4] == turned


# -- what it promises as an env ------------------------------------------------------------------------------------


def test_views_painted_step_by_step_are_those_painted_anew() -> None:
    env, other = kitchens(8, layout="coord_ring", max_steps=60), kitchens(8, layout="coord_ring", max_steps=60)
    crew = Crew(env.layout.width, 8, seed=3)
    for _ in range(60):
        state = env.get_state()
        frame = env.step([crew.actions(state)])
        anew = other.set_state(env.get_state())
        np.testing.assert_array_equal(frame.obs[0], anew.obs[0])
        np.testing.assert_array_equal(frame.state, anew.state)
    assert frame.over.all()


def test_the_state_is_the_first_cooks_view_from_zero_to_one() -> None:
    env = kitchens(3, random_reset=True)
    frame = env.step([np.full((3, 2), STAY)])
    high = env.kinds[0].observation_space.high
    np.testing.assert_allclose(frame.state, frame.obs[0][:, 0] / high, atol=1e-7)
    assert frame.state.max() <= 1.0


def test_an_episode_follows_from_its_seed_whatever_the_copy() -> None:
    few, many = kitchens(2, random_reset=True), kitchens(5, random_reset=True)
    few.reset(np.array([1]), np.array([40]))
    frame = many.reset(np.array([3]), np.array([40]))
    np.testing.assert_array_equal(
        few.step([np.full((2, 2), STAY)]).obs[0][1], many.step([np.full((5, 2), STAY)]).obs[0][3]
    )
    assert not np.array_equal(frame.obs[0][3], frame.obs[0][4])


def test_random_starts_reach_every_place_load_and_pot() -> None:
    env = kitchens(4000, random_reset=True, layout="coord_ring")
    assert set(env.places.reshape(-1).tolist()) == set(env.layout.floor.tolist())
    assert (env.places[0] != env.places[1]).all()
    assert set(env.held.reshape(-1).tolist()) == set(range(4))
    assert set((env.cells[env.layout.pots] - POT).reshape(-1).tolist()) == set(range(24))
    assert set(env.facing.reshape(-1).tolist()) == set(range(4))


def test_weights_of_shaped_rewards_change_with_the_next_episode() -> None:
    env = kitchens(2, shaped_rewards=1.0)
    env.set_task(1, 0.5)
    assert env.weight.tolist() == [1.0, 1.0]
    env.reset(np.array([1]), np.array([0]))
    start_from(env, places=[7, 8], facing=[UP, UP], held=[ONION, 0])
    assert env.step([np.array([[INTERACT, STAY]] * 2)]).rewards.tolist() == [[3.0, 0.0], [1.5, 0.0]]
    with pytest.raises(ConfigError, match="weight of shaped rewards"):
        env.set_task(0, "easy")


def test_the_grid_is_the_flat_view_in_another_shape() -> None:
    grid, flat = kitchens(observation="grid"), kitchens()
    assert grid.kinds[0].observation_space.shape == (4, 5, 26)
    assert flat.kinds[0].observation_space.shape == (520,)
    np.testing.assert_array_equal(grid.views.obs, flat.views.obs)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_array_interface_holds_in_every_layout(layout: str) -> None:
    assert marl.check_env("fast:overcooked", {"layout": layout, "max_steps": 20}) == []


def test_pictures_and_scenes_show_the_kitchen() -> None:
    env = kitchens()
    start_from(env, held=[SOUP, 0], facing=[UP, LEFT])
    picture = env.render(0)
    assert isinstance(picture, np.ndarray)
    assert picture.shape == (128, 160, 3)
    scene = scene_of(env, 0, "agent_0")
    assert scene is not None
    assert scene["kind"] == "maze"
    assert scene["lines"] == ["#####", "#   #", "#   #", "#####"]
    assert "agent_0 in row 1, column 1 holds a soup" in scene["text"]
    words = {thing["name"]: thing.get("text", "") for thing in scene["things"]}
    assert words == {
        "pot with 0 onions": "", "onions": "O", "plates": "B", "delivery": "", "agent_0": "↑s", "agent_1": "←",
    }  # fmt: skip
    before = np.asarray(env.render(0)).copy()
    env.step([np.array([[RIGHT, STAY]])])
    assert not np.array_equal(before, env.render(0))


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("cramped_rom", "Did you mean 'cramped_room'"),
        (["WWPWW", "O0 1O", "WBX"], "is not a rectangle"),
        (["WWPWW", "O0 1O", "W ? W", "WBWXW"], "has cells '\\?', which mean nothing"),
        (["WWWWW", "O0 1O", "W   W", "WBWWW"], "has no pot and no place to deliver soups"),
        (["WWPWW", "O0  O", "W   W", "WBWXW"], "does not have two cooks"),
        (["WWPWW", "O0 1O", "W    ", "WBWXW"], "is open: floor on its border"),
        ([], "is not a rectangle"),
    ],
)
def test_a_layout_that_is_none_is_refused(layout: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make_batched_env("fast:overcooked", 1, {"layout": layout})


def test_lines_as_one_text_and_as_a_list_are_the_same_kitchen() -> None:
    text = "\n".join(ROOM).replace("0", "A").replace("1", "A")
    a: Array = kitchens(layout=text).views.obs
    np.testing.assert_array_equal(a, kitchens(layout=list(ROOM)).views.obs)
    np.testing.assert_array_equal(a, kitchens(layout="cramped_room").views.obs)
