"""The key and the door: what is walked, taken, opened and shown, and the hierarchy that sends somebody there."""

from __future__ import annotations

import numpy as np
import pytest

import marl
from marl.envs.check import check_env
from marl.envs.games.key_door import WALKER, KeyDoor
from marl.envs.hierarchy.env import HierarchicalEnv
from marl.envs.registry import make_env
from marl.envs.scene_forms import checked
from marl.errors import ConfigError

NORTH, EAST, SOUTH, WEST = range(4)
SMALL = {"map": ["####", "#SK#", "#.D#", "####"], "limit": 4}


def test_the_door_pays_one_with_the_key_and_nothing_without_it() -> None:
    env = KeyDoor(SMALL)
    env.reset()
    without = [env.step({WALKER: move}) for move in (SOUTH, EAST)]  # to the door at once
    assert [(result.rewards[WALKER], result.terminated[WALKER]) for result in without] == [(0.0, False)] * 2
    first, opened = env.step({WALKER: NORTH}), env.step({WALKER: SOUTH})
    assert (first.rewards[WALKER], first.terminated[WALKER]) == (0.0, False)
    assert (opened.rewards[WALKER], opened.terminated[WALKER], opened.truncated[WALKER]) == (1.0, True, False)
    np.testing.assert_allclose(opened.obs[WALKER], [0.2, 0.2, 1.0])


def test_walls_stop_the_walker_and_time_ends_the_episode_without_an_outcome() -> None:
    env = KeyDoor(SMALL)
    obs, _ = env.reset()
    results = [env.step({WALKER: move}) for move in (NORTH, WEST, NORTH, WEST)]
    for result in results:
        np.testing.assert_array_equal(result.obs[WALKER], obs[WALKER])
    assert [result.truncated[WALKER] for result in results] == [False, False, False, True]
    assert not results[-1].terminated[WALKER]


def test_beyond_the_lines_there_is_wall() -> None:
    env = KeyDoor({"map": ["SKD"]})
    env.reset()
    for move in (NORTH, WEST, SOUTH):
        np.testing.assert_allclose(env.step({WALKER: move}).obs[WALKER], [0.0, 0.0, 0.0])


@pytest.mark.parametrize("lines", [["S.D"], ["SKKD"], []])
def test_a_map_has_one_of_each(lines: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"key_door: the map has . cells .*expected one"):
        KeyDoor({"map": lines})


def test_its_state_and_scene_are_those_of_the_moment() -> None:
    env, other = KeyDoor(SMALL), KeyDoor(SMALL)
    env.reset()
    assert [thing["name"] for thing in checked(env.scene())["things"]] == ["key", "door", WALKER]
    env.step({WALKER: EAST})
    other.set_state(env.get_state())
    assert [thing["name"] for thing in checked(other.scene())["things"]] == ["door", WALKER]
    assert other.step({WALKER: SOUTH}).rewards == {WALKER: 1.0}


def test_it_is_a_sound_env() -> None:
    assert check_env("key_door") == []


def test_a_goal_is_paid_where_the_thing_is_and_nowhere_else() -> None:
    levels = [
        {"name": "top_level", "horizon": 3, "goals": {"targets": [[0.1, 0.2], [0.2, 0.2]]}},
        {"name": "low_level"},
    ]
    env = make_env("key_door", SMALL, [{"hierarchy": {"features": [0, 1], "levels": levels}}])
    assert isinstance(env, HierarchicalEnv)
    env.reset(seed=0)
    told = env.step({"top_level_0": 1})  # the door, from the start
    assert list(told.obs) == ["low_level_0"]
    assert any(thing["sort"] == "goal" and thing["row"] == 2 for thing in checked(env.scene())["things"])
    assert env.step({"low_level_0": EAST}).rewards["low_level_0"] == 0.0  # the key: not what it was sent for
    reached = env.step({"low_level_0": SOUTH})
    assert reached.rewards == {"top_level_0": 1.0, "low_level_0": 1.0}
    assert reached.terminated["low_level_0"]


def test_two_levels_of_dqn_keep_a_replay_each() -> None:
    levels = [
        {"name": "top_level", "horizon": 3, "goals": {"targets": [[0.1, 0.2], [0.2, 0.2]]}},
        {"name": "low_level"},
    ]
    config = {
        "env_config": SMALL, "wrappers": [{"hierarchy": {"features": [0, 1], "levels": levels}}], "fcnet_hiddens": [8],
        "policy_mapping_fn": "levels", "learning_starts": 50, "timesteps_per_iteration": 200, "evaluation": {"interval": 0},
    }  # fmt: skip
    with marl.Trainer("dqn", env="key_door", config=config) as trainer:
        result = trainer.train()
        sizes = {
            name: len(team.replay)
            for learner in trainer.learners
            for name, team in zip(learner.policies, learner.teams, strict=True)
        }  # type: ignore[attr-defined]
    assert set(result["policy_reward_mean"]) == {"top_level", "low_level"}
    assert sizes.keys() == {"top_level", "low_level"}
    assert 0 < sizes["top_level"] < sizes["low_level"]
