"""``fast:lbf``: rules by hand, seeds, saving, keys, mistakes. That it plays like lbforaging is tested beside this file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

import marl
from marl.envs.games.foraging.config import ForagingConfig, options_of
from marl.envs.games.foraging.games import ForagingGames
from marl.envs.registry import make_batched_env
from marl.errors import ConfigError, EnvError
from marl.training.trainer import Trainer

STAY, NORTH, SOUTH, WEST, EAST, LOAD = range(6)
ID = "Foraging-8x8-2p-2f-coop-v3"


def placed(players: Any, food: Any, **config: Any) -> ForagingGames:
    games = ForagingGames(2, {"players": len(players), **config})
    games.reset(np.arange(2), np.arange(2))
    games.place(1, players, food)
    return games


def played(games: ForagingGames, *actions: int) -> list[float]:
    """Rewards of copy 1; copy 0 stands still."""
    moves = np.zeros((2, len(actions)), np.int64)
    moves[1] = actions
    rewards: list[float] = games.step([moves]).rewards[1].tolist()
    return rewards


def places(games: ForagingGames) -> list[tuple[int, int]]:
    return [(row, column) for _, row, column, _ in games.walkers(1)]


# -- rules by hand ---------------------------------------------------------------------------------------------------


def test_food_takes_all_levels_it_has_and_pays_by_level() -> None:
    games = placed([(4, 3, 1), (4, 5, 2)], [(4, 4, 3), (1, 1, 2)])
    assert played(games, LOAD, STAY) == [0.0, 0.0]
    assert played(games, LOAD, LOAD) == pytest.approx([1 / 3 * 3 / 5, 2 / 3 * 3 / 5])
    assert games.food_left(1) == [(1, 1, 2)]


def test_food_that_is_too_heavy_costs_the_penalty_of_those_who_tried() -> None:
    games = placed([(4, 3, 1), (4, 5, 1)], [(4, 4, 2)], penalty=0.25)
    assert played(games, STAY, LOAD) == [0.0, -0.25]
    assert played(games, LOAD, LOAD) == [0.5, 0.5]


def test_who_wants_the_same_cell_stays_and_so_does_who_wants_a_cell_where_somebody_stays() -> None:
    games = placed([(2, 2, 1), (2, 4, 1), (0, 0, 1), (0, 1, 1)], [(5, 5, 1)])
    played(games, EAST, WEST, EAST, LOAD)
    assert places(games) == [(2, 2), (2, 4), (0, 0), (0, 1)]


def test_two_may_change_places_and_a_follower_runs_into_who_was_stopped() -> None:
    games = placed([(2, 2, 1), (2, 3, 1)], [(5, 5, 1)])
    played(games, EAST, WEST)
    assert places(games) == [(2, 3), (2, 2)]
    games = placed([(2, 2, 1), (2, 3, 1), (2, 4, 1)], [(5, 5, 1)])
    played(games, EAST, EAST, STAY)
    assert places(games) == [(2, 3), (2, 3), (2, 4)]


def test_walls_and_food_stop_a_walker() -> None:
    games = placed([(0, 7, 1), (1, 2, 1)], [(1, 1, 1)])
    played(games, NORTH, WEST)
    played(games, EAST, WEST)
    assert places(games) == [(0, 7), (1, 2)]


def test_eaten_food_terminates_and_running_out_of_time_truncates() -> None:
    games = placed([(4, 3, 1), (4, 5, 1)], [(4, 4, 2)], max_episode_steps=1)
    output = games.step([np.array([[STAY, STAY], [LOAD, LOAD]])])
    assert output.terminated.tolist() == [[False, False], [True, True]]
    assert output.truncated.tolist() == [[True, True], [False, False]]
    assert output.over.tolist() == [True, True]


# -- seeds and states ------------------------------------------------------------------------------------------------


def test_a_start_follows_from_its_seed_alone() -> None:
    many, one = ForagingGames(50, {"id": ID}), ForagingGames(1, {"id": ID})
    seen = many.reset(np.arange(50), np.arange(50)).obs[0].copy()
    for seed in (0, 7, 49):
        assert np.array_equal(one.reset(np.array([0]), np.array([seed])).obs[0][0], seen[seed])
    assert len(np.unique(seen.reshape(50, -1), axis=0)) > 45


def test_an_episode_taken_up_in_the_middle_has_the_same_future() -> None:
    config = {"field_size": [5, 5], "players": 3, "max_num_food": 2, "sight": 2}
    rng = np.random.default_rng(0)
    games = ForagingGames(20, config)
    games.reset(np.arange(20), np.arange(20))
    plan = rng.choice(6, size=(30, 20, 3))
    for moves in plan[:10]:
        games.step([moves])
    state = games.get_state()
    future = [games.step([moves]) for moves in plan[10:]]
    again = ForagingGames(20, config)
    again.set_state(state)
    for moves, wanted in zip(plan[10:], future, strict=True):
        output = again.step([moves])
        assert np.array_equal(output.rewards, wanted.rewards)
        assert np.array_equal(output.state, wanted.state)


# -- keys ------------------------------------------------------------------------------------------------------------


def test_an_id_sets_the_options_and_other_keys_override_it() -> None:
    config = ForagingConfig(id="Foraging-2s-10x10-3p-3f-coop-v3", players=4, sight=3)
    assert (config.field_size, config.players, config.max_num_food) == ((10, 10), 4, 3)
    assert (config.force_coop, config.sight, config.max_episode_steps) == (True, 3, 50)
    assert options_of("Foraging-8x8-2p-2f-v3")["sight"] == 8


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"id": "Foraging-8x8-2p-2f-v2"}, "no id of level-based foraging"),
        ({"id": "Foraging-2x8-2p-2f-v3"}, "expected at least 3 rows"),
        ({"field_size": [3, 3], "players": 10}, "has 9 cells"),
        ({"min_player_level": [1, 2, 3]}, "min_player_level has 3 levels; expected a number, or a list of 2"),
        ({"min_player_level": 3}, "is above max_player_level"),
        ({"min_food_level": 3}, "above what the weakest agents may have together, 2"),
        ({"force_coop": True, "min_food_level": 2}, "force_coop"),
        ({"grid_observation": True}, "grid_observation"),
        ({"max_num_food": 0}, "greater than 0"),
    ],
    ids=str,
)
def test_keys_that_make_no_sense_are_refused(keys: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        ForagingConfig(**keys)
    with pytest.raises(ConfigError, match=told):
        make_batched_env("fast:lbf", 2, keys)


@pytest.mark.parametrize(
    ("players", "food", "told"),
    [
        ([(0, 0, 1)], [], "1 players and 0 food"),
        ([(0, 0, 1), (8, 0, 1)], [], "row 8, column 0"),
        ([(0, 0, 1), (1, 0, 1)], [(0, 3, 1)], "expected rows 1 to 6"),
        ([(0, 0, 1), (1, 0, 1)], [(3, 3, 1), (4, 4, 1)], "touches both"),
        ([(0, 0), (1, 0)], [], "a row, a column and a level each"),
    ],
)
def test_layouts_that_cannot_be_are_refused(players: Any, food: Any, told: str) -> None:
    games = ForagingGames(1, {})
    with pytest.raises(EnvError, match=told):
        games.place(0, players, food)


# -- looking and learning --------------------------------------------------------------------------------------------


def test_a_viewer_is_shown_what_it_sees_and_a_text_shows_all() -> None:
    games = placed([(0, 0, 1), (7, 7, 2)], [(2, 2, 1), (5, 5, 3)], sight=2)
    assert len(games.scene(1)["things"]) == 4
    assert {thing["name"] for thing in games.scene(1, "agent_1")["things"]} == {"agent_1", "food of level 3"}
    lines = games.render(1).splitlines()
    assert (lines[0][0], lines[7][7], lines[2][2], lines[5][5]) == ("A", "B", "1", "3")
    assert lines[-1] == "A agent_0 level 1, B agent_1 level 2"


@pytest.mark.slow
@pytest.mark.parametrize("env_config", [{"id": ID}, {"sight": 1, "players": 3}], ids=str)
def test_the_checker_passes(env_config: dict[str, Any]) -> None:
    assert marl.check_env("fast:lbf", env_config=env_config) == []


@pytest.mark.parametrize("algo", ["ppo", "qmix"])
def test_training_runs(algo: str) -> None:
    keys: dict[str, Any] = {"num_envs_per_worker": 8, "fcnet_hiddens": [16], "env_config": {"id": ID}}
    keys |= {"train_batch_size": 800} if algo == "ppo" else {"learning_starts": 50, "timesteps_per_iteration": 400}
    with Trainer(algo, env="fast:lbf", config=keys) as trainer:
        result = [trainer.train() for _ in range(2)][-1]
    assert result["training_iteration"] == 2
    assert 0 <= result["episode_reward_mean"] <= 1
