"""Our env and PettingZoo's own env, side by side with the same seeds and moves: what they show and pay is the same."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import marl
from marl.envs.adapters.pettingzoo import PettingZooParallelEnv, PettingZooTurnBasedEnv
from marl.errors import ConfigError
from marl.training.trainer import Trainer

IN_TURNS = {
    "chess_v6": 60,
    "connect_four_v3": 200,
    "go_v5": 60,
    "hanabi_v5": 200,
    "leduc_holdem_v4": 200,
    "texas_holdem_no_limit_v6": 200,
    "texas_holdem_v4": 200,
    "tictactoe_v3": 200,
}
"""Longest random game that is played of each; all but chess and Go end before."""
AT_ONCE = {
    "pettingzoo.butterfly.knights_archers_zombies_v11": 200,
    "pettingzoo.butterfly.cooperative_pong_v6": 20,
    "pettingzoo.classic.rps_v2": 20,
    "pettingzoo.sisl.multiwalker_v9": 100,
    "mpe2.simple_tag_v3": 25,
    "mpe2.simple_world_comm_v3": 25,
}


@pytest.mark.parametrize("name", IN_TURNS)
def test_a_turn_based_env_asks_shows_and_pays_like_pettingzoos_own_loop(name: str) -> None:
    """The reference is ``agent_iter`` with ``last``, which hands a reward over at the receiver's next turn."""
    env = importlib.import_module(f"pettingzoo.classic.{name}").env()
    batched_env = marl.make_env(f"pettingzoo:classic/{name}")
    assert isinstance(batched_env, PettingZooTurnBasedEnv)
    for seed in range(3):
        rng, moves = np.random.default_rng(seed), 0
        ours, theirs = (dict.fromkeys(batched_env.possible_agents, 0.0) for _ in range(2))
        env.reset(seed=seed)
        turn, _ = batched_env.reset(seed=seed)
        for agent in env.agent_iter():
            obs, reward, terminated, truncated, _ = env.last()
            theirs[agent] += float(reward)
            if terminated or truncated:
                env.step(None)
                continue
            assert list(turn) == [agent]
            np.testing.assert_equal(turn[agent], obs)
            if moves == IN_TURNS[name]:
                break
            moves += 1
            action = int(rng.choice(np.flatnonzero(obs["action_mask"])))
            env.step(action)
            result = batched_env.step({agent: action})
            for paid, amount in result.rewards.items():
                ours[paid] += float(amount)
            ended = {a for flags in (result.terminated, result.truncated) for a, flag in flags.items() if flag}
            turn = {a: value for a, value in result.obs.items() if a not in ended}
        assert turn == {} or moves == IN_TURNS[name]
        assert ours == pytest.approx(theirs)


@pytest.mark.parametrize("path", AT_ONCE)
def test_a_parallel_env_shows_and_pays_like_pettingzoos_own_env(path: str) -> None:
    family, name = path.split(".")[-2:]
    env = importlib.import_module(path).parallel_env()
    batched_env = marl.make_env(f"pettingzoo:{family}/{name}")
    assert isinstance(batched_env, PettingZooParallelEnv)
    obs, _ = env.reset(seed=3)
    np.testing.assert_equal(batched_env.reset(seed=3)[0], obs)
    rng = np.random.default_rng(0)
    for step in range(AT_ONCE[path]):
        actions = {}
        for agent in env.agents:
            space = env.action_space(agent)
            space.seed(int(rng.integers(2**31)))
            actions[agent] = space.sample()
        theirs, ours = env.step(actions), batched_env.step(actions)
        for part, (mine, other) in enumerate(zip(ours[:4], theirs[:4], strict=True)):
            np.testing.assert_equal(dict(mine), dict(other), f"part {part} in step {step}")
        if not env.agents:
            return


def test_a_mask_that_is_in_the_observation_and_in_the_info_is_taken_once() -> None:
    batched_env = marl.make_env("pettingzoo:classic/hanabi_v5")
    obs, infos = batched_env.reset(seed=0)
    (agent,) = obs
    assert set(obs[agent]) == {"observation", "action_mask"}
    assert "action_mask" in infos[agent]
    assert obs[agent]["observation"].shape == (658,)


def test_an_env_that_cannot_tell_its_state_after_the_end_keeps_the_last_one() -> None:
    batched_env = marl.make_env("pettingzoo:sisl/multiwalker_v9")
    batched_env.reset(seed=0)
    ended = False
    while not ended:
        before = batched_env.state()
        result = batched_env.step({agent: np.ones(4, np.float32) for agent in batched_env.possible_agents})
        ended = all(result.terminated.values())
    with pytest.raises(AttributeError):
        batched_env.env.state()  # type: ignore[attr-defined]
    np.testing.assert_array_equal(batched_env.state(), before)  # type: ignore[arg-type]
    batched_env.reset(seed=1)
    assert batched_env.state() is not before


def test_a_critic_that_sees_the_state_trains_on_multiwalker() -> None:
    keys = {"critic_sees": "state", "fcnet_hiddens": [8], "train_batch_size": 128, "sgd_minibatch_size": 128}
    with Trainer("mappo", env="pettingzoo:sisl/multiwalker_v9", config=keys) as trainer:
        assert trainer.train()["episodes_this_iter"] > 0


def test_a_near_miss_of_a_name_and_a_family_that_moved_are_told() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'tictactoe_v3'"):
        marl.make_env("pettingzoo:classic/tictactoe_v2")
    with pytest.raises(ConfigError, match="MPE has been moved"):
        marl.make_env("pettingzoo:mpe/simple_spread_v3")


def test_images_are_stored_as_bytes_from_the_env_to_the_learner() -> None:
    keys = {"fcnet_hiddens": [4], "train_batch_size": 4, "sgd_minibatch_size": 4, "num_sgd_iter": 1}
    with Trainer("ppo", env="pettingzoo:butterfly/cooperative_pong_v6", config=keys) as trainer:
        batch = trainer.workers.collect(4).batch
        learner = trainer.learners[0]
        rows = learner._with_advantages("default_policy", batch)  # type: ignore[attr-defined]
    assert batch.obs[0].dtype == np.uint8
    assert rows["obs"].dtype == np.uint8
    assert rows["critic_features"].shape[1] == 0  # nothing of it is there as floats
