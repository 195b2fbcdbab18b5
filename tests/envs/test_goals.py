"""Goals of a hierarchy: features of the observation, a class of one's own, and keys that do not fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from marl.data.task import Array
from marl.envs.games.windy_maze import WindyMaze
from marl.envs.hierarchy.env import HierarchicalEnv
from marl.envs.hierarchy.goals import Changes, Goals, Targets, build_goals
from marl.errors import ConfigError

OPTIONS = {"features": [0, 2], "changes": [[3.0, 4.0], [0.0, 0.0]], "tolerance": 0.5}


def view(*numbers: float) -> Array:
    return np.array(numbers, np.float32)


class Stand(Goals):
    """Stand on a column; the commander names it as a number between 0 and 1."""

    def __init__(self, sizes: Sequence[int], pays: float = 1.0) -> None:
        self.space = spaces.Box(0, 1, (1,), np.float32)
        self.width, self.pays = 1, pays

    def shown(self, choice: Any, start: Any, now: Any) -> Array:
        return np.asarray(choice, np.float32)

    def reached(self, choice: Any, start: Any, now: Any) -> bool:
        return abs(now[0][1] - choice[0]) < 0.05

    def reward(self, choice: Any, start: Any, before: Any, after: Any, reached: bool) -> float:
        return self.pays * reached


def test_a_goal_is_reached_when_every_feature_is_within_the_tolerance() -> None:
    goals, start = Changes([3], **OPTIONS), [view(1, 9, 1)]
    for now, reached in [((4, 9, 5), True), ((4.5, 0, 4.5), True), ((4.6, 9, 5), False), ((4, 9, 4.4), False)]:
        assert goals.reached(0, start, [view(*now)]) is reached
    assert goals.reached(1, start, start)


def test_the_whole_way_pays_progress_once_however_long_it_is() -> None:
    goals, start = Changes([3], **OPTIONS, progress=2.0, bonus=10.0, step_cost=0.25), [view(1, 9, 1)]
    middle, end = [view(2.5, 9, 3)], [view(4, 9, 5)]
    assert goals.reward(0, start, start, middle, False) == pytest.approx(2 * 0.5 - 0.25)
    assert goals.reward(0, start, middle, end, True) == pytest.approx(2 * 0.5 + 10 - 0.25)
    assert goals.reward(0, start, end, start, False) == pytest.approx(-2 - 0.25)
    assert goals.shown(0, start, middle).tolist() == [1.5, 2.0]


def test_of_several_base_agents_each_has_to_move_and_the_mean_way_counts() -> None:
    goals = Changes([3, 3], **OPTIONS, step_cost=0.0)
    start, half = [view(0, 0, 0), view(1, 0, 1)], [view(3, 0, 4), view(1, 0, 1)]
    assert not goals.reached(0, start, half)
    assert goals.reward(0, start, start, half, False) == pytest.approx(0.5)
    assert goals.shown(0, start, half).tolist() == [0, 0, 3, 4]
    assert goals.width == 4


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"features": [0, 3]}, "feature 3 does not exist: the flat base observation has 3 entries. Use 0 to 2"),
        ({"changes": [[1.0]]}, r"the change \[1.0\] has 1 numbers, but there are 2 features"),
        ({"changes": []}, "changes"),
        ({"features": []}, "features"),
        ({"tolerence": 1}, "unknown key 'tolerence'. Did you mean 'tolerance'"),
        ({"show": "all"}, "show = 'all'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_goals_that_do_not_fit_the_env_are_refused(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        build_goals({**OPTIONS, **keys}, [], [3], "level 'top_level'")


def test_a_class_that_is_no_goals_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"expected a subclass of marl\.Goals"):
        build_goals("builtins:dict", [], [3], "level 'top_level'")
    with pytest.raises(ConfigError, match=r"goals tests\.envs\.test_goals:Stand: .*color"):
        build_goals({"class": "tests.envs.test_goals:Stand", "color": 1}, [], [3], "level 'top_level'")


def test_a_class_of_ones_own_sets_goals_of_any_space() -> None:
    levels = [
        {"name": "top_level", "horizon": 5, "goals": {"class": "tests.envs.test_goals:Stand", "pays": 7.0}},
        {"name": "low_level"},
    ]
    env = HierarchicalEnv(WindyMaze({"map": ["#S..E#"], "wind": 0}), levels=levels)
    assert env.action_space("top_level_0") == spaces.Box(0, 1, (1,), np.float32)
    env.reset(seed=0)
    result = env.step({"top_level_0": np.array([0.3], np.float32)})
    assert result.obs["low_level_0"][-2:].tolist() == pytest.approx([0.3, 1.0])
    assert env.step({"low_level_0": 2}).rewards["low_level_0"] == 0
    result = env.step({"low_level_0": 2})
    assert result.rewards["low_level_0"] == 7
    assert result.terminated["low_level_0"]


@pytest.mark.parametrize(
    ("levels", "says"),
    [
        ([{"name": "top_level", "horizon": 3, "goals": {}}], "at least 2 items"),
        ([{"name": "top_level", "goals": {}}, {"name": "low_level"}], "'top_level' commands, so it needs horizon and goals"),
        ([{"name": "top_level", "horizon": 3}, {"name": "low_level"}], "'top_level' commands, so it needs horizon and goals"),
        (
            [{"name": "top_level", "horizon": 3, "goals": {}}, {"name": "low_level", "horizon": 3}],
            "'low_level' is the last one: it commands nobody",
        ),
        (
            [{"name": "top_level", "horizon": 3, "goals": {}, "extrinsic": 1}, {"name": "low_level"}],
            "'top_level' is the first one: it is always paid",
        ),
        ([{"name": "top_level", "horizon": 0, "goals": {}}, {"name": "low_level"}], r"levels.0.horizon = 0"),
        ([{"name": "top_level", "horison": 3}, {"name": "low_level"}], "'levels.0.horison'. Did you mean 'horizon'"),
        ([{"name": "top_level", "horizon": 3, "goals": {}}, {"name": "low_level"}], "level 'top_level': goals: .*changes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_levels_that_make_no_hierarchy_are_refused(levels: list[dict[str, Any]], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        HierarchicalEnv(WindyMaze({}), levels=levels, features=[0])


def test_a_target_is_a_place_wherever_the_way_begins() -> None:
    keys = {"features": [0, 2], "targets": [[3.0, 4.0], [0.0, 0.0]], "tolerance": 0.5}
    goals = build_goals(keys, [], [3], "here")
    assert isinstance(goals, Targets)
    for start in ([view(0, 9, 0)], [view(3, 9, 1)]):
        assert goals.reached(0, start, [view(3, 0, 4)])
        assert not goals.reached(0, start, [view(3, 0, 3.4)])
    assert goals.wanted_values(0, view(7, 7, 7)) == {0: 3.0, 2: 4.0}
    assert goals.shown(0, [view(9, 9, 9)], [view(1, 9, 2)]).tolist() == [2.0, 2.0]


def test_unless_it_is_said_otherwise_nothing_but_reaching_a_target_pays() -> None:
    plain = Targets([3], features=[0, 2], targets=[[3.0, 4.0]])
    start, middle, end = [view(0, 9, 0)], [view(1.5, 9, 2)], [view(3, 9, 4)]
    assert plain.reward(0, start, start, middle, False) == 0.0
    assert plain.reward(0, start, middle, end, True) == 1.0
    shaped = Targets([3], features=[0, 2], targets=[[3.0, 4.0]], progress=2.0, step_cost=0.25)
    assert shaped.reward(0, start, start, middle, False) == pytest.approx(2 * 0.5 - 0.25)
    assert shaped.reward(0, end, end, end, True) == pytest.approx(
        1.0 - 0.25
    )  # there already: no way, and no division by it


def test_targets_with_too_few_numbers_and_a_mixture_of_keys_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"the target \[3.0\] has 1 numbers, but there are 2 features"):
        build_goals({"targets": [[3.0]]}, [0, 2], [3], "here")
    with pytest.raises(ConfigError, match="targets"):
        build_goals({"targets": [[3.0]], "changes": [[1.0]]}, [0], [3], "here")
