"""``fast:rware``: rules by hand, draws, saving, keys, mistakes. That it plays like rware is tested beside this file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

import marl
from marl.envs.games.warehouse.config import WarehouseConfig
from marl.envs.games.warehouse.games import WarehouseGames
from marl.envs.registry import make_batched_env
from marl.errors import ConfigError, EnvError
from marl.training.trainer import Trainer

STAY, FORWARD, LEFT, RIGHT, LOAD = range(5)
UP, DOWN, TO_LEFT, TO_RIGHT = range(4)
ID = "rware-tiny-2ag-v2"
ROOM = "x.x\n...\n.g."  # shelf 0 and shelf 1, a goal in the lowest row


def one_room(*robots: tuple[int, int, int], wanted: int = 0, **config: Any) -> WarehouseGames:
    games = WarehouseGames(1, {"layout": ROOM, "n_agents": len(robots), "request_queue_size": 1, **config})
    games.reset(np.array([0]), np.array([0]))
    games.place(0, robots, [wanted])
    return games


def played(games: WarehouseGames, *rounds: list[int]) -> list[list[float]]:
    return [games.step([np.array([actions])]).rewards[0].tolist() for actions in rounds]


# -- rules by hand ---------------------------------------------------------------------------------------------------


def test_a_wanted_shelf_on_the_goal_pays_its_carrier_and_another_one_is_wanted() -> None:
    games = one_room((0, 0, DOWN), (1, 2, UP))
    way = [[LOAD, STAY], [FORWARD, STAY], [FORWARD, STAY], [LEFT, STAY], [FORWARD, STAY]]
    assert played(games, *way) == [[0.0, 0.0]] * 4 + [[1.0, 0.0]]
    assert games.wanted.tolist() == [[False, True]]
    assert played(games, [LOAD, STAY]) == [[0.0, 0.0]]
    assert games.carried.tolist() == [[0, -1]]  # a goal is no place to put a shelf down


@pytest.mark.parametrize(("reward_type", "paid"), [("global", [1.0, 1.0]), ("two_stage", [0.5, 0.0])])
def test_who_is_paid_is_a_key(reward_type: str, paid: list[float]) -> None:
    games = one_room((0, 0, DOWN), (1, 2, UP), reward_type=reward_type)
    played(games, [LOAD, STAY], [FORWARD, STAY], [FORWARD, STAY], [LEFT, STAY])
    assert played(games, [FORWARD, STAY]) == [paid]
    # Back home: turn round, two cells left of the goal's column and up.
    back = [[LEFT, STAY], [LEFT, STAY], [FORWARD, STAY], [RIGHT, STAY], [FORWARD, STAY], [FORWARD, STAY], [LOAD, STAY]]
    assert played(games, *back)[-1] == [0.5 if reward_type == "two_stage" else 0.0, 0.0]


def test_with_a_shelf_nobody_drives_below_another_one_and_without_one_everybody_does() -> None:
    games = one_room((0, 0, TO_RIGHT), wanted=1)
    played(games, [FORWARD], [FORWARD])
    assert games.floor.place(games.robot_cell)[1].tolist() == [[2]]
    games = one_room((0, 0, TO_RIGHT), wanted=1)
    played(games, [LOAD], [FORWARD], [FORWARD])
    assert games.floor.place(games.robot_cell)[1].tolist() == [[1]]
    assert games.floor.place(games.shelf_cell)[1].tolist() == [[1, 2]]


def test_with_a_shelf_one_may_follow_another_one_with_a_shelf() -> None:
    games = WarehouseGames(1, {"layout": "x.\nx.\n.g", "request_queue_size": 1})
    games.place(0, [(0, 0, DOWN), (1, 0, DOWN)], [0])
    played(games, [LOAD, LOAD], [FORWARD, FORWARD])
    assert games.floor.place(games.robot_cell)[0].tolist() == [[1, 2]]
    assert games.floor.place(games.shelf_cell)[0].tolist() == [[1, 2]]


def test_turns_lead_round_in_both_directions() -> None:
    games, seen = one_room((1, 1, UP)), []
    for action in [RIGHT] * 4 + [LEFT] * 4:
        played(games, [action])
        seen.append(int(games.direction[0, 0]))
    assert seen == [TO_RIGHT, DOWN, TO_LEFT, UP, TO_LEFT, DOWN, TO_RIGHT, UP]


def test_time_and_idleness_truncate() -> None:
    late = one_room((1, 1, UP), max_steps=3)
    assert [bool(late.step([np.array([[STAY]])]).truncated.all()) for _ in range(3)] == [False, False, True]
    idle = one_room((2, 0, TO_RIGHT), max_steps=None, max_inactivity_steps=2)
    assert [bool(idle.step([np.array([[STAY]])]).over[0]) for _ in range(2)] == [False, True]


# -- starts, draws, saving -------------------------------------------------------------------------------------------


def test_starts_are_drawn_alike_from_all_cells_directions_and_shelves() -> None:
    count = 4000
    games = WarehouseGames(count, {"id": ID})
    games.reset(np.arange(count), np.arange(count))
    assert (games.robot_cell[:, 0] != games.robot_cell[:, 1]).all()
    assert (games.wanted.sum(axis=1) == 2).all()
    shelves = games.wanted.sum(axis=0)
    for counted, cells in (
        (np.bincount(games.robot_cell.ravel())[games.floor.inside[: games.robot_cell.max() + 1]], 110),
        (np.bincount(games.direction.ravel()), 4),
        (shelves, len(games.floor.shelves)),
    ):
        expected = 2 * count / cells
        assert len(counted) == cells
        assert ((counted - expected) ** 2 / expected).sum() <= cells + 5 * np.sqrt(2 * cells)


def test_what_is_wanted_next_is_drawn_alike_from_what_is_not_wanted() -> None:
    count = 4000
    games = WarehouseGames(count, {"id": ID})
    games.reset(np.arange(count), np.arange(count))
    wanted = np.tile([True, True] + [False] * (len(games.floor.shelves) - 2), (count, 1))
    games.wanted[:] = wanted
    first, second = games._draw_request(np.arange(count)), games._draw_request(np.arange(count))
    for drawn in (first, second):
        counted = np.bincount(drawn, minlength=wanted.shape[1])
        assert counted[:2].tolist() == [0, 0]
        expected = count / (len(counted) - 2)
        assert ((counted[2:] - expected) ** 2 / expected).sum() <= len(counted) + 5 * np.sqrt(2 * len(counted))
    assert (first == second).mean() < 0.1


def test_an_episode_taken_up_in_the_middle_has_the_same_future() -> None:
    config = {"layout": ROOM, "n_agents": 2, "request_queue_size": 1}
    plan = np.random.default_rng(0).choice(5, p=[0.1, 0.5, 0.1, 0.1, 0.2], size=(400, 8, 2))
    games = WarehouseGames(8, config)
    games.reset(np.arange(8), np.arange(8))
    for moves in plan[:200]:
        games.step([moves])
    state = games.get_state()
    future = [games.step([moves]) for moves in plan[200:]]
    assert sum(output.rewards.sum() for output in future) > 0
    again = WarehouseGames(8, config)
    again.set_state(state)
    for moves, wanted in zip(plan[200:], future, strict=True):
        output = again.step([moves])
        assert np.array_equal(output.rewards, wanted.rewards)
        assert np.array_equal(output.state, wanted.state)


def test_an_episode_follows_from_its_seed_alone_until_it_is_reseeded() -> None:
    many, one = WarehouseGames(20, {"id": ID}), WarehouseGames(1, {"id": ID})
    seen = many.reset(np.arange(20), np.arange(20)).obs[0].copy()
    assert np.array_equal(one.reset(np.array([0]), np.array([7])).obs[0][0], seen[7])
    drawn = many._draw_request(np.arange(20))
    assert one._draw_request(np.array([0]))[0] == drawn[7]
    assert many.reseed(np.arange(20) + 100)
    assert not np.array_equal(many._draw_request(np.arange(20)), drawn)


# -- keys and mistakes -----------------------------------------------------------------------------------------------


def test_an_id_sets_the_options_and_other_keys_override_it() -> None:
    config = WarehouseConfig(id="rware-small-4ag-hard-v2", sensor_range=2)
    assert (config.shelf_rows, config.shelf_columns, config.n_agents) == (2, 3, 4)
    assert (config.request_queue_size, config.sensor_range, config.max_steps) == (2, 2, 500)


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"id": "rware-tiny-2ag-v1"}, "no id of a warehouse"),
        ({"id": "rware-tiny-1ag-hard-v2"}, "request_queue_size"),
        ({"shelf_columns": 2}, "expected an odd number"),
        ({"layout": "xx\n."}, "all of one length"),
        ({"layout": "xx\n.o"}, "holds 'o'"),
        ({"layout": "xx\n.."}, "no goal"),
        ({"layout": ROOM, "n_agents": 1}, "request_queue_size is 2 of 2 shelves"),
        ({"layout": ROOM, "n_agents": 10, "request_queue_size": 1}, "the floor has 9 cells"),
        ({"layout": ROOM, "request_queue_size": 1, "column_height": 4}, "layout"),
        ({"max_steps": None}, "would never end"),
        ({"msg_bits": 2}, "msg_bits"),
    ],
    ids=str,
)
def test_keys_that_make_no_sense_are_refused(keys: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        WarehouseConfig(**keys)
    with pytest.raises(ConfigError, match=told):
        make_batched_env("fast:rware", 2, keys)


@pytest.mark.parametrize(
    ("robots", "wanted", "told"),
    [
        ([(0, 0, 0)], [0, 1], r"expected \(2, 3\)"),
        ([(0, 0, 0), (11, 0, 0)], [0, 1], r"\[11, 0, 0\]"),
        ([(0, 0, 0), (0, 0, 1)], [0, 1], "two robots"),
        ([(0, 0, 0), (0, 1, 1)], [0, 0], "expected 2 different numbers"),
    ],
)
def test_starts_that_cannot_be_are_refused(robots: Any, wanted: Any, told: str) -> None:
    with pytest.raises(EnvError, match=told):
        WarehouseGames(1, {"id": ID}).place(0, robots, wanted)


# -- looking and learning --------------------------------------------------------------------------------------------


def test_a_viewer_is_shown_what_its_sensors_reach_and_a_text_shows_all() -> None:
    games = one_room((0, 0, DOWN), (2, 2, UP))
    played(games, [LOAD, STAY])
    assert {thing["name"] for thing in games.scene(0, "agent_0")["things"]} == {"agent_0", "wanted shelf 0", "goal"}
    assert len(games.scene(0)["things"]) == 5
    assert games.render(0).splitlines()[:3] == ["v.s", "...", ".g^"]


@pytest.mark.slow
def test_the_checker_passes() -> None:
    assert marl.check_env("fast:rware", env_config={"id": ID, "max_steps": 50}) == []


@pytest.mark.parametrize("algo", ["ppo", "qmix"])
def test_training_runs(algo: str) -> None:
    keys: dict[str, Any] = {"num_envs_per_worker": 8, "fcnet_hiddens": [16], "env_config": {"id": ID, "max_steps": 40}}
    keys |= {"train_batch_size": 800} if algo == "ppo" else {"learning_starts": 50, "timesteps_per_iteration": 400}
    with Trainer(algo, env="fast:rware", config=keys) as trainer:
        result = [trainer.train() for _ in range(2)][-1]
    assert result["training_iteration"] == 2
    assert result["episode_len_mean"] == 40
