"""``fast:lbf`` against lbforaging: the same start and the same actions lead to the same observations, rewards and ends."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import gymnasium as gym
import lbforaging  # noqa: F401  (registers the ids)
import numpy as np
import pytest
from lbforaging.foraging import ForagingEnv

from marl.data.task import Array
from marl.envs.batched import StepOutput
from marl.envs.games.foraging.config import ForagingConfig
from marl.envs.games.foraging.games import ForagingGames
from marl.envs.games.foraging.layout import draw_layouts

NUM_ENVS = 6
LOAD = 5
ORIGINALS_KEYS = {
    "players", "min_player_level", "max_player_level", "min_food_level", "max_food_level", "field_size", "max_num_food",
    "sight", "max_episode_steps", "force_coop", "normalize_reward", "observe_agent_levels", "penalty",
}  # fmt: skip


def original(config: dict[str, Any]) -> Any:
    """An env of lbforaging by its own arguments, from an id and overrides or from our keys with our defaults."""
    arguments: dict[str, Any] = ForagingConfig(**config).model_dump(include=ORIGINALS_KEYS)
    if "id" in config:
        arguments |= gym.spec(config["id"]).kwargs
        arguments |= {key: value for key, value in config.items() if key != "id"}
    arguments["sight"] = max(arguments["field_size"]) if arguments["sight"] is None else arguments["sight"]
    arguments.pop("grid_observation", None)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*precision lowered by casting to float32.*")
        env = ForagingEnv(**arguments)
    if (
        len(set(arguments["field_size"])) > 1
    ):  # its space has rows and columns mixed up, and refuses its own observations
        free = gym.spaces.Box(-np.inf, np.inf, env.observation_space[0].shape, np.float32)
        env.observation_space = gym.spaces.Tuple([free] * env.n_agents)
    return env


class Pair:
    """Copies of ``fast:lbf`` beside as many envs of lbforaging, started from the layouts of these."""

    def __init__(self, config: dict[str, Any], seed: int = 0) -> None:
        self.envs = [original(config) for _ in range(NUM_ENVS)]
        self.fast = ForagingGames(NUM_ENVS, config)
        self.fast.reset(np.arange(NUM_ENVS), np.arange(NUM_ENVS))
        self.rng = np.random.default_rng(seed)
        self.steps_taken = [0] * NUM_ENVS
        self.happened: Counter[str] = Counter()
        for env_id in range(NUM_ENVS):
            self.start(env_id)

    def start(self, env_id: int) -> None:
        env = self.envs[env_id]
        expected, _ = env.reset(seed=int(self.rng.integers(2**31)))
        self.steps_taken[env_id] = 0
        food = [(row, column, env.field[row, column]) for row, column in np.argwhere(env.field)]
        output = self.fast.place(env_id, [(*player.position, player.level) for player in env.players], food)
        self.compare_sights(output, env_id, expected)

    def step(self) -> None:
        shape = NUM_ENVS, len(self.envs[0].players)
        actions = self.rng.integers(6, size=shape)
        for env_id, env in enumerate(self.envs):
            for i, player in enumerate(env.players):  # by chance alone, food for two is hardly ever loaded
                if env.adjacent_food(*player.position) and self.rng.random() < 0.7:
                    actions[env_id, i] = LOAD
        output = self.fast.step([actions])
        ended: list[int] = []
        for env_id, env in enumerate(self.envs):
            before = [player.position for player in env.players]
            expected, rewards, over, _, _ = env.step(actions[env_id].tolist())
            self.steps_taken[env_id] += 1
            assert output.rewards[env_id].tolist() == np.array(rewards, np.float32).tolist()
            eaten = not env.field.any()
            assert output.terminated[env_id].tolist() == [over and eaten] * shape[1]
            assert output.truncated[env_id].tolist() == [over and not eaten] * shape[1]
            assert bool(output.over[env_id]) == over
            assert output.present[env_id].tolist() == [not over] * shape[1]
            self.compare_sights(output, env_id, expected)
            self.count(before, env, rewards, over and eaten)
            if over:
                ended.append(env_id)
        for env_id in ended:
            self.start(env_id)

    def compare_sights(self, output: StepOutput, env_id: int, expected: tuple[Array, ...]) -> None:
        wanted = np.stack(expected)
        assert np.array_equal(output.obs[0][env_id], wanted)
        assert np.array_equal(output.state[env_id], wanted.ravel())

    def count(self, before: list[Any], env: Any, rewards: list[float], all_eaten: bool) -> None:
        """What the run came across, for a comparison of idle walks proves little."""
        now = [player.position for player in env.players]
        self.happened["loaded"] += any(reward > 0 for reward in rewards)
        self.happened["loaded together"] += sum(reward > 0 for reward in rewards) > 1
        self.happened["failed"] += any(reward < 0 for reward in rewards)
        self.happened["all eaten"] += all_eaten
        self.happened["on one cell"] += len(set(now)) < len(now)
        swapped = [(i, j) for i in range(len(now)) for j in range(i) if (now[i], now[j]) == (before[j], before[i])]
        self.happened["swapped"] += any(before[i] != before[j] for i, j in swapped)


TABLES = [
    {"id": "Foraging-5x5-2p-1f-coop-v3"},
    {"id": "Foraging-8x8-2p-2f-coop-v3", "max_episode_steps": 25},
    {"id": "Foraging-10x10-3p-3f-v3"},
    {"id": "Foraging-15x15-4p-3f-v3", "max_episode_steps": 25},
    {"id": "Foraging-2s-8x8-2p-2f-coop-v3"},
    {"id": "Foraging-2s-10x10-3p-3f-v3"},
]
OTHERS = [
    {"field_size": (5, 5), "players": 6, "max_num_food": 1},
    {"field_size": (5, 5), "players": 3, "max_num_food": 4, "penalty": 0.1},
    {"field_size": (6, 6), "players": 4, "max_num_food": 2, "sight": 1, "penalty": 0.25, "normalize_reward": False},
    {"field_size": (6, 9), "players": 5, "max_num_food": 3, "sight": 3, "observe_agent_levels": False},
    {"field_size": (7, 5), "players": 3, "max_num_food": 2, "observe_agent_levels": False},
    {"field_size": (4, 4), "players": 1, "max_num_food": 1, "sight": 0, "max_episode_steps": 7},
    {"min_player_level": [1, 3], "max_player_level": [2, 3], "min_food_level": [1, 4], "max_food_level": [1, 5]},
    {"field_size": (5, 5), "max_player_level": 4, "max_food_level": 3, "force_coop": True, "players": 4},
    {"id": "Foraging-8x8-2p-2f-v3", "sight": 4, "players": 4, "max_num_food": 4},
]


@pytest.mark.parametrize(
    "config", [*TABLES, OTHERS[0], *(pytest.param(config, marks=pytest.mark.slow) for config in OTHERS[1:])], ids=str
)
def test_thousands_of_random_steps_agree_exactly(config: dict[str, Any]) -> None:
    pair = Pair(config)
    for _ in range(150):
        pair.step()
    assert pair.happened["loaded"] > 0


def test_these_steps_meet_every_rule() -> None:
    pair = Pair({"field_size": (5, 5), "players": 4, "max_num_food": 2, "sight": 1, "penalty": 0.5}, seed=1)
    for _ in range(300):
        pair.step()
    assert min(pair.happened[event] for event in ("loaded", "loaded together", "failed", "all eaten")) > 3
    assert min(pair.happened[event] for event in ("on one cell", "swapped")) > 3


@pytest.mark.parametrize("config", [*TABLES, OTHERS[2], OTHERS[6]], ids=str)
def test_agents_and_spaces_are_those_of_the_original(config: dict[str, Any]) -> None:
    fast, env = ForagingGames(1, config), original(config)
    assert len(fast.seat_names) == env.n_agents
    assert fast.kinds[0].observation_space == env.observation_space[0]
    assert fast.kinds[0].action_space == env.action_space[0]


# -- starts ----------------------------------------------------------------------------------------------------------


def starts_of_the_original(config: dict[str, Any], count: int) -> list[tuple[Array, Array]]:
    """Players (row, column, level) and the field, of so many seeds."""
    env, found = original(config), []
    for seed in range(count):
        for player in env.players:  # a start may not depend on the episode before
            player.position = None
        env.reset(seed=seed)
        found.append((np.array([(*player.position, player.level) for player in env.players]), env.field.copy()))
    return found


def own_starts(config: dict[str, Any], count: int) -> list[tuple[Array, Array]]:
    games, found = ForagingGames(count, config), []
    games.reset(np.arange(count), np.arange(count))
    for env_id in range(count):
        field = np.zeros(games.config.field_size, np.int64)
        for row, column, level in games.food_left(env_id):
            field[row, column] = level
        found.append((np.array([walker[1:] for walker in games.walkers(env_id)]), field))
    return found


def frequencies(starts: list[tuple[Array, Array]]) -> dict[str, Counter[Any]]:
    """How often what is at the start: places, levels, amounts, and how they hang together."""
    told: dict[str, Counter[Any]] = {
        name: Counter() for name in ("place", "level", "food", "food level", "sum", "amount")
    }
    for players, field in starts:
        told["place"].update((i, *row[:2]) for i, row in enumerate(players.tolist()))
        told["level"].update([tuple(players[:, 2].tolist())])
        told["food"].update(map(tuple, np.argwhere(field).tolist()))
        told["food level"].update([(tuple(sorted(players[:, 2].tolist())), tuple(sorted(field[field > 0].tolist())))])
        told["sum"].update([int(field.sum())])
        told["amount"].update([int((field > 0).sum())])
    return told


@pytest.mark.parametrize(
    ("config", "count"),
    [
        (TABLES[0], 1500),
        pytest.param(TABLES[2], 1500, marks=pytest.mark.slow),
        pytest.param(OTHERS[1], 200, marks=pytest.mark.slow),  # lbforaging tries 1,000 times where no more food fits in
        pytest.param(OTHERS[6], 1500, marks=pytest.mark.slow),
        pytest.param(OTHERS[7], 300, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_starts_have_the_frequencies_of_the_original(config: dict[str, Any], count: int) -> None:
    theirs, ours = (frequencies(starts(config, count)) for starts in (starts_of_the_original, own_starts))
    for name, counted in theirs.items():
        # Two samples of a multinomial: sum (a - b)^2 / (a + b) is chi-squared, with a degree less than there are cells.
        cells = set(counted) | set(ours[name])
        distance = sum((counted[cell] - ours[name][cell]) ** 2 / (counted[cell] + ours[name][cell]) for cell in cells)
        degrees = len(cells) - 1
        assert distance <= degrees + 5 * np.sqrt(2 * degrees) + 5, name


def test_starts_of_the_tables_keep_the_rules() -> None:
    layouts = draw_layouts(ForagingConfig(id="Foraging-8x8-2p-2f-coop-v3"), np.arange(5000))
    assert (layouts.cell[:, 0] != layouts.cell[:, 1]).all()
    row, column = np.divmod(layouts.food_cell, 8)
    assert ((row >= 1) & (row <= 6) & (column >= 1) & (column <= 6)).all()
    assert (np.abs(np.diff(row)) + np.abs(np.diff(column)) > 2).all()
    assert (layouts.food_level == layouts.level.sum(axis=1, keepdims=True)).all()
    assert not (layouts.food_cell[:, :, None] == layouts.cell[:, None]).any()
