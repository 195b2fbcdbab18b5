"""Scenes of any env: they change nothing, and whatever is wrong with one is said instead of raised."""

from __future__ import annotations

import base64
import io
import pickle
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from PIL import Image

from marl.envs.adapters.adapt import as_env
from marl.envs.base import MultiAgentEnv, StepResult
from marl.envs.batched import BatchedEnv, StepOutput
from marl.envs.branching import generators
from marl.envs.registry import make_batched_env
from marl.envs.scenes import scene_of
from marl.envs.vector.vector_env import DictVector
from marl.envs.wrapper import EnvWrapper
from marl.envs.wrappers import read_wrappers

FIRST = np.array([0])

# -- all of them -------------------------------------------------------------------------------------------------------

GAMES: dict[str, dict[str, Any]] = {
    "matrix_game": {"repetitions": 5},
    "two_step_game": {},
    "kuhn_poker": {"players": 3},
    "leduc_poker": {},
    "liars_dice": {"dice": 2},
    "phantom_ttt": {},
    "tic_tac_toe": {},
    "connect_four": {"rows": 4},
    "nim": {"piles": [2, 3]},
    "battleship": {"rows": 3},
    "dark_hex": {"rows": 2, "version": "abrupt"},
    "traffic": {},
    "windy_maze": {},
    "repeat_after_delay": {"length": 2, "agents": 2},
    "fast:lbf": {"sight": 2},
    "fast:rware": {},
    "fast:overcooked": {"random_reset": True},
    "fast:simple_spread": {},
    "fast:simple_tag": {},
    "fast:simple_speaker_listener": {"continuous_actions": True},
    "fast:simple_adversary": {},
    "fast:simple_push": {},
    "fast:simple_crypto": {},
    "fast:simple_reference": {},
    "fast:simple_world_comm": {},
    "congestion": {"repetitions": 3},
    "graphical_game": {"repetitions": 3},
    "pettingzoo:classic/tictactoe_v3": {},
    "pettingzoo:classic/connect_four_v3": {},
    "pettingzoo:classic/chess_v6": {},
    "openspiel:leduc_poker": {},
    "lbforaging:Foraging-8x8-2p-2f-v3": {},
}


def moved(env: BatchedEnv, output: StepOutput, rng: np.random.Generator) -> StepOutput:
    """A step with legal actions, drawn."""
    actions = []
    for kind, legal in zip(env.kinds, output.legal, strict=True):
        chosen = np.zeros((1, kind.size, *kind.action_shape), kind.action_dtype)
        if kind.action_shape:
            chosen[:] = rng.random(chosen.shape)
        for seat in range(0 if kind.action_shape else kind.size):
            allowed = np.flatnonzero(legal[0, seat]) if legal.shape[2] else np.arange(kind.action_space.n)
            chosen[0, seat] = rng.choice(allowed) if allowed.size else 0
        actions.append(chosen)
    return env.step(actions)


def everything_in(env: BatchedEnv) -> bytes:
    """The state of an env and of all generators that it could draw from."""
    inner = getattr(env, "envs", [env])
    drawn = [pickle.dumps(generator) for one in inner for generator in generators(one)]
    for_all = np.random.get_state()  # noqa: NPY002 - other libraries may draw from it
    return pickle.dumps((env.get_state(), drawn, random.getstate(), for_all))


@pytest.mark.parametrize("name", GAMES)
def test_asking_for_a_scene_changes_nothing_and_draws_nothing(name: str) -> None:
    if name.startswith(("openspiel", "lbforaging")):
        pytest.importorskip({"o": "pyspiel", "l": "lbforaging"}[name[0]])
    env = make_batched_env(name, 1, GAMES[name])
    output, rng = env.reset(FIRST, np.array([3])), np.random.default_rng(0)
    for _ in range(6):
        viewers: Sequence[str | None] = [
            None,
            *(env.agent_at(0, seat) for seat in range(2) if seat < output.present.shape[1]),
        ]
        before = everything_in(env)
        for viewer in viewers:
            scene = scene_of(env, 0, viewer)
            assert scene is not None
            assert "could not be drawn" not in scene["text"]
            assert "cannot be drawn" not in scene["text"]
        assert everything_in(env) == before
        if output.over[0]:
            break
        output = moved(env, output, rng)


# -- envs of users -----------------------------------------------------------------------------------------------------


class Drawn(MultiAgentEnv):
    """A dict env whose scene and picture are what the test says."""

    possible_agents = ("a",)

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config

    def observation_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    action_space = observation_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        return {"a": 0}, {}

    def step(self, actions: dict[str, Any]) -> StepResult:
        return StepResult({"a": 0}, {"a": 0.0}, {"a": True}, {}, {})

    def render(self) -> Any:
        return self.config.get("picture")

    def close(self) -> None:
        pass


class Scenic(Drawn):
    """The same with a method ``scene``."""

    def scene(self, viewer: str | None = None) -> Any:
        found = self.config["scene"]
        if isinstance(found, Exception):
            raise found
        return found


def drawn_by(kind: type[Drawn], **config: Any) -> dict[str, Any] | None:
    return scene_of(DictVector([as_env(kind(config), "mine")], "mine"), 0, "a")


EMPTY = {"kind": "board", "text": "x", "rows": 1, "columns": 1, "cells": [[None]]}


@pytest.mark.parametrize(
    ("scene", "said"),
    [
        (7, "scene() returned a int"),
        ({"text": "x"}, "its kind is None. Known kinds: matrix, states,"),
        ({"kind": "bored", "text": "x"}, "its kind is 'bored'"),
        ({**EMPTY, "text": None}, "text of kind board: Input should be a valid string"),
        ({**EMPTY, "rows": float("nan")}, "scene.rows is nan; expected a finite number"),
        ({**EMPTY, "cells": [[None, None]]}, "cells are not 1 rows of 1"),
        ({**EMPTY, "colour": "red"}, "colour of kind board: Extra inputs are not permitted"),
        ({**EMPTY, "actions": {"0,0": object()}}, "scene.actions.0,0 is a object"),
        ({**EMPTY, "actions": {3: 3}}, "scene.actions has the key 3; expected a text"),
        ({"kind": "text", "text": "x" * 30_000}, "30000 characters"),
        ({"kind": "text", "text": ["x"] * 30_000}, "it is too large"),
        ({"kind": "network", "text": "x", "nodes": [{"name": "a", "x": 0, "y": 0}], "edges": [{"start": 0, "end": 1}]}, "1 nodes"),
        (ValueError("no paint"), "could not be drawn: ValueError: no paint"),
    ],
)  # fmt: skip
def test_a_broken_scene_becomes_a_text_that_says_what_is_wrong(scene: Any, said: str) -> None:
    found = drawn_by(Scenic, scene=scene)
    assert found is not None
    assert found["kind"] == "text"
    assert said in found["text"]
    assert "'mine'" in found["text"]


def test_arrays_and_numbers_of_numpy_become_json() -> None:
    board = {**EMPTY, "rows": np.int64(1), "last": np.zeros((1, 2), int), "actions": {"0,0": np.int8(1)}}
    found = drawn_by(Scenic, scene=board)
    assert found is not None
    assert (found["rows"], found["last"], found["actions"]) == (1, [[0, 0]], {"0,0": 1})


def test_without_a_scene_it_is_what_render_gives() -> None:
    assert drawn_by(Drawn) is None
    assert drawn_by(Drawn, picture="#.") == {"kind": "text", "text": "#."}
    picture = drawn_by(Drawn, picture=np.zeros((4, 6, 3), np.uint8))
    assert picture is not None
    assert size_of(picture) == (6, 4)
    wrong = drawn_by(Drawn, picture=np.zeros((4, 6)))
    assert wrong is not None
    assert "float64 with shape (4, 6)" in wrong["text"]


def test_pictures_of_a_whole_episode_fit_into_a_page() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (900, 600, 3), np.uint8)
    picture = drawn_by(Drawn, picture=noise)
    assert picture is not None
    assert 500 * len(picture["png"]) < 10_000_000
    width, height = size_of(picture)
    assert abs(height / width - 1.5) < 0.05
    plain = np.full((900, 600, 3), 200, np.uint8)
    large = drawn_by(Drawn, picture=plain)
    assert large is not None
    assert size_of(large) == (320, 480)


def size_of(scene: Mapping[str, Any]) -> tuple[int, int]:
    assert scene["kind"] == "picture"
    size: tuple[int, int] = Image.open(io.BytesIO(base64.b64decode(scene["png"]))).size
    return size


# -- envs inside of envs -----------------------------------------------------------------------------------------------


class Numbered(Drawn):
    """Agents are numbers, as in RLlib; the scene says who looks."""

    possible_agents = (0, 1)  # type: ignore[assignment]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[dict[Any, Any], dict[Any, Any]]:
        return {0: 0, 1: 0}, {}

    def scene(self, viewer: Any = None) -> dict[str, Any]:
        return {"kind": "text", "text": f"{viewer!r} looks", "actions": {"here": 1}}


def test_an_env_is_asked_with_the_ids_that_it_knows() -> None:
    env = DictVector([as_env(Numbered({}), "mine")], "mine")
    assert env.seat_names == ("agent_0", "agent_1")
    assert scene_of(env, 0, "agent_1") == {"kind": "text", "text": "1 looks", "actions": {"here": 1}}
    assert scene_of(env, 0) == {"kind": "text", "text": "None looks", "actions": {"here": 1}}


class MoreActions(EnvWrapper):
    """Actions mean something else than in the env inside."""

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(5)


@pytest.mark.parametrize(("wrapper", "places"), [(MoreActions, {}), (EnvWrapper, {"0,0": 1})])
def test_places_are_taken_away_where_a_wrapper_changes_what_actions_mean(wrapper: Any, places: dict[str, int]) -> None:
    inside = Scenic({"scene": {**EMPTY, "actions": {"0,0": 1}}})
    found = scene_of(DictVector([wrapper(inside)], "mine"), 0, "a")
    assert found is not None
    assert (found["kind"], found["actions"]) == ("board", places)


def test_a_native_env_in_a_wrapper_has_its_scene() -> None:
    wrapped = make_batched_env("matrix_game", 1, {}, wrappers=read_wrappers([{"keep_entries": {"entries": [0]}}]))
    wrapped.reset(FIRST, FIRST)
    found = scene_of(wrapped, 0, "player_1")
    assert found is not None
    assert (found["kind"], found["actions"]) == ("matrix", {"0": 0, "1": 1})
