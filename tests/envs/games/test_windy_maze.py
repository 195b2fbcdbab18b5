"""The windy maze: its rooms, its moves, its wind and its end."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

import marl
from marl.envs.games.windy_maze import WALKER, WindyMaze, room_lines
from marl.errors import ConfigError

STAY, NORTH, EAST, SOUTH, WEST = range(5)


def walk(maze: WindyMaze, moves: list[int]) -> tuple[int, int]:
    for move in moves:
        maze.step({WALKER: move})
    return maze.places[maze.cell]


def shortest_way(maze: WindyMaze) -> int:
    """Steps from start to exit without wind."""
    far = {maze.cell_of[maze.start]: 0}
    queue = deque(far)
    while queue:
        cell = queue.popleft()
        for other in maze.leads[cell]:
            if other not in far:
                far[other] = far[cell] + 1
                queue.append(other)
    return far[maze.cell_of[maze.exit]]


def test_rooms_are_a_snake_from_the_first_to_the_last() -> None:
    assert room_lines(2, 2, 3) == [
        "#########",
        "#...#...#",
        "#.S.....#",
        "#...#...#",
        "######.##",
        "#...#...#",
        "#.E.....#",
        "#...#...#",
        "#########",
    ]


@pytest.mark.parametrize(
    ("rooms", "size", "steps"), [((1, 2), 3, 4), ((2, 3), 5, 30), ((3, 3), 5, 48), ((3, 1), 4, 10)]
)
def test_the_way_leads_through_the_centre_of_every_room(rooms: tuple[int, int], size: int, steps: int) -> None:
    assert shortest_way(WindyMaze({"rooms": rooms, "room_size": size})) == steps


def test_walls_stop_the_walker_and_are_seen() -> None:
    maze = WindyMaze({"map": ["#####", "#S.E#", "#####"], "wind": 0})
    obs, _ = maze.reset(seed=0)
    assert obs[WALKER][:2] == pytest.approx([0.1, 0.1])
    assert obs[WALKER][6:].tolist() == [1, 0, 1, 1]  # north, east, south, west
    assert walk(maze, [NORTH, SOUTH, WEST, STAY]) == (1, 1)
    assert walk(maze, [EAST]) == (1, 2)
    assert walk(maze, [WEST]) == (1, 1)


def test_the_edge_of_a_map_is_a_wall() -> None:
    maze = WindyMaze({"map": ["S.", ".E"], "wind": 0})
    maze.reset(seed=0)
    assert walk(maze, [NORTH, WEST]) == (0, 0)


def test_only_the_exit_pays_and_it_ends_the_episode() -> None:
    maze = WindyMaze({"map": ["S.E"], "wind": 0})
    maze.reset(seed=0)
    first, second = maze.step({WALKER: EAST}), maze.step({WALKER: EAST})
    assert (first.rewards, first.terminated, first.truncated) == ({WALKER: 0}, {WALKER: False}, {WALKER: False})
    assert (second.rewards, second.terminated, second.truncated) == ({WALKER: 1}, {WALKER: True}, {WALKER: False})


def test_the_limit_truncates_but_an_exit_found_in_the_last_step_counts() -> None:
    maze = WindyMaze({"map": ["S.E"], "wind": 0, "limit": 2})
    maze.reset(seed=0)
    maze.step({WALKER: STAY})
    assert maze.step({WALKER: EAST}).truncated == {WALKER: True}
    maze.reset(seed=0)
    maze.step({WALKER: EAST})
    last = maze.step({WALKER: EAST})
    assert last.terminated == {WALKER: True}
    assert last.truncated == {WALKER: False}


def test_the_wind_carries_one_cell_in_the_direction_that_is_seen() -> None:
    maze = WindyMaze({"map": ["......", "..S...", "......", ".....E"], "wind": 1, "turn": 0})
    ways = {}
    for seed in range(20):
        obs, _ = maze.reset(seed=seed)
        direction = int(obs[WALKER][2:6].argmax())
        ways[direction] = walk(maze, [STAY])
    assert ways == {0: (0, 2), 1: (1, 3), 2: (2, 2), 3: (1, 1)}  # north, east, south, west


def test_the_wind_blows_and_turns_as_often_as_its_chances_say() -> None:
    maze = WindyMaze({"map": ["." * 9] * 4 + ["....S...E"] + ["." * 9] * 4, "wind": 0.3, "turn": 0.2, "limit": 20_000})
    maze.reset(seed=0)
    moved = turned = 0
    for _ in range(20_000):
        maze.cell, before = maze.cell_of[maze.start], maze.wind
        maze.step({WALKER: STAY})
        moved, turned = moved + (maze.cell != maze.cell_of[maze.start]), turned + (maze.wind != before)
    assert moved / 20_000 == pytest.approx(0.3, abs=0.015)
    assert turned / 20_000 == pytest.approx(0.2 * 3 / 4, abs=0.015)  # a quarter of the turns lead nowhere new


def test_the_same_seed_gives_the_same_wind() -> None:
    def places(seed: int) -> list[tuple[int, int]]:
        maze = WindyMaze({"wind": 0.5})
        maze.reset(seed=seed)
        return [walk(maze, [EAST]) for _ in range(50)]

    assert places(1) == places(1)
    assert places(1) != places(2)


def test_an_episode_goes_on_from_its_state() -> None:
    first, second = WindyMaze({"wind": 0.5}), WindyMaze({"wind": 0.5})
    first.reset(seed=3)
    walk(first, [EAST] * 20)
    second.reset(seed=4)
    second.set_state(first.get_state())
    for _ in range(50):
        one, other = first.step({WALKER: SOUTH}), second.step({WALKER: SOUTH})
        np.testing.assert_array_equal(one.obs[WALKER], other.obs[WALKER])


def test_the_picture_shows_walls_the_exit_and_the_walker() -> None:
    maze = WindyMaze({"map": ["S.#E"], "wind": 0})
    maze.reset(seed=0)
    picture = maze.render()
    assert picture.shape == (8, 32, 3)
    assert picture.dtype == np.uint8
    colours = [tuple(picture[4, 8 * c + 4].tolist()) for c in range(4)]
    assert len(set(colours)) == 4
    maze.step({WALKER: EAST})
    assert tuple(maze.render()[4, 12].tolist()) == colours[0]


def test_it_is_registered_and_clean() -> None:
    assert marl.check_env("windy_maze", {"rooms": [1, 2]}) == []


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"map": ["S.."]}, "the map has 0 cells 'E'; expected one"),
        ({"map": ["SSE"]}, "the map has 2 cells 'S'; expected one"),
        ({"rooms": [1, 1]}, "one room has no way to go"),
        ({"wind": 1.5}, "wind = 1.5"),
        ({"windy": 0.1}, "unknown key 'windy'. Did you mean 'wind'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_maze_that_cannot_be_built_says_why(keys: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        marl.make_env("windy_maze", keys)
