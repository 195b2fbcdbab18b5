"""Level-based foraging: equal to the bare env, endings, seeds, resuming, pictures, training."""

from __future__ import annotations

import sys
from typing import Any

import gymnasium as gym
import lbforaging  # noqa: F401  (registers the envs)
import numpy as np
import pytest

import marl
from marl.envs.adapters.lbforaging import ForagingEnv
from marl.envs.registry import make_batched_env
from marl.errors import ConfigError, UnknownNameError
from marl.training.trainer import Trainer

ID = "Foraging-8x8-2p-2f-v3"


def new_env(env_id: str = ID, **env_config: Any) -> ForagingEnv:
    env = marl.make_env(f"lbforaging:{env_id}", env_config)
    assert isinstance(env, ForagingEnv)
    return env


def alone_with_food(**env_config: Any) -> ForagingEnv:
    """Two agents, of levels 1 and 2, on both sides of the only food, of level 3."""
    env = new_env("Foraging-8x8-2p-1f-v3", **env_config)
    env.reset(seed=0)
    env.env.field[:] = 0
    env.env.field[4, 4] = 3
    for player, position, level in zip(env.env.players, [(4, 3), (4, 5)], [1, 2], strict=True):
        player.position, player.level = position, level
    env.env._food_spawned = 3
    env.env._gen_valid_moves()
    return env


@pytest.mark.parametrize(
    ("env_id", "env_config"),
    [
        (ID, {}),
        ("Foraging-2s-8x8-3p-2f-v3", {}),
        ("Foraging-5x5-2p-1f-coop-v3", {"penalty": 0.1, "normalize_reward": False}),
    ],
)
def test_stepping_the_env_is_stepping_the_env(env_id: str, env_config: dict[str, Any]) -> None:
    env, rng = new_env(env_id, **env_config), np.random.default_rng(0)
    paid = 0.0
    for seed in range(8):
        raw = gym.make(env_id, disable_env_checker=True, **env_config)
        wanted, _ = raw.reset(seed=seed)
        obs, _ = env.reset(seed=seed)
        over = False
        while not over:
            assert list(obs) == [f"agent_{i}" for i in range(len(wanted))]
            assert all(np.array_equal(seen, want) for seen, want in zip(obs.values(), wanted, strict=True))
            moves = rng.choice(6, size=len(obs), p=[0.1, 0.1, 0.1, 0.1, 0.1, 0.5])
            wanted, rewards, over, _, _ = raw.step(moves.tolist())
            obs, own, terminated, truncated, _ = env.step(dict(zip(obs, moves.tolist(), strict=True)))
            assert list(own.values()) == rewards
            assert (terminated["__all__"] or truncated["__all__"]) == over
            paid += sum(map(abs, rewards))
    assert paid > 0


def test_food_takes_all_levels_it_has_and_pays_by_level() -> None:
    env = alone_with_food()
    assert env.step({"agent_0": 5, "agent_1": 0}).rewards == {"agent_0": 0.0, "agent_1": 0.0}
    result = env.step({"agent_0": 5, "agent_1": 5})
    assert result.rewards == pytest.approx({"agent_0": 1 / 3, "agent_1": 2 / 3})


def test_eaten_food_terminates_and_running_out_of_time_truncates() -> None:
    result = alone_with_food().step({"agent_0": 5, "agent_1": 5})
    assert (result.terminated, result.truncated) == ({"__all__": True}, {"__all__": False})
    result = alone_with_food(max_episode_steps=1).step({"agent_0": 5, "agent_1": 0})
    assert (result.terminated, result.truncated) == ({"__all__": False}, {"__all__": True})
    assert set(result.obs) == {"agent_0", "agent_1"}


def test_a_start_follows_from_its_seed_alone_whatever_was_played_before() -> None:
    env, starts = new_env("Foraging-5x5-3p-1f-v3"), []
    for before in range(40):  # in the bare env, a cell where somebody stood at the end is not taken
        env.reset(seed=before)
        starts.append(np.concatenate(list(env.reset(seed=7)[0].values())))
    assert all(np.array_equal(start, starts[0]) for start in starts)
    assert not np.array_equal(np.concatenate(list(env.reset(seed=8)[0].values())), starts[0])


def test_the_state_shows_the_whole_grid_also_to_agents_that_see_little() -> None:
    env = new_env("Foraging-2s-8x8-2p-2f-v3")
    env.reset(seed=1)
    state = env.state()
    assert np.array_equal(state[:64].reshape(8, 8), env.env.field)
    assert state[64:].tolist() == [float(x) for p in env.env.players for x in (*p.position, p.level)]


def test_keys_of_the_config_override_the_id() -> None:
    env = new_env(players=3, max_num_food=1, sight=1)
    assert env.possible_agents == ("agent_0", "agent_1", "agent_2")
    assert env.env.sight == 1
    longer = new_env(max_episode_steps=60)
    longer.reset(seed=0)
    ends = [longer.step({"agent_0": 0, "agent_1": 0}).truncated["__all__"] for _ in range(60)]
    assert ends == [False] * 59 + [True]
    with pytest.raises(ConfigError, match=r"does not take env_config \{'player': 3\}"):
        new_env(player=3)


def test_an_episode_taken_up_in_the_middle_has_the_same_future() -> None:
    rng = np.random.default_rng(0)
    plan = [np.array([rng.choice(6, size=(2, 2))]).reshape(2, 2) for _ in range(20)]
    games = make_batched_env(f"lbforaging:{ID}", 2, {})
    games.reset(np.arange(2), np.array([3, 4]))
    for moves in plan[:8]:
        games.step([moves])
    state = games.get_state()
    future = [games.step([moves]).obs[0].copy() for moves in plan[8:]]
    again = make_batched_env(f"lbforaging:{ID}", 2, {})
    again.set_state(state)
    assert np.array_equal([again.step([moves]).obs[0].copy() for moves in plan[8:]], future)


def test_a_picture_is_drawn_without_a_display() -> None:
    env = new_env()
    env.reset(seed=0)
    picture = env.render()
    assert picture.dtype == np.uint8
    assert picture.shape == (409, 409, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 10  # apples, agents, lines


def test_unknown_ids_are_told_with_the_nearest_name() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'Foraging-8x8-2p-2f-v3'"):
        new_env("Foraging-8x8-2p-2f-v9")


def test_a_missing_package_is_told_with_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lbforaging", None)
    with pytest.raises(ConfigError, match=r"pip install lbforaging"):
        marl.make_env(f"lbforaging:{ID}")


@pytest.mark.parametrize("env_id", [ID, "Foraging-2s-8x8-3p-2f-v3"])
@pytest.mark.slow
def test_the_checker_passes(env_id: str) -> None:
    assert marl.check_env(f"lbforaging:{env_id}") == []


@pytest.mark.parametrize("algo", ["ppo", "qmix"])
def test_training_runs(algo: str) -> None:
    keys: dict[str, Any] = {"num_envs_per_worker": 4, "fcnet_hiddens": [16], "env_config": {"max_episode_steps": 20}}
    keys |= {"train_batch_size": 120} if algo == "ppo" else {"learning_starts": 50, "timesteps_per_iteration": 120}
    with Trainer(algo, env=f"lbforaging:{ID}", config=keys) as trainer:
        results = [trainer.train() for _ in range(2)]
    assert results[-1]["training_iteration"] == 2
    assert 0 <= results[-1]["episode_reward_mean"] <= 1
