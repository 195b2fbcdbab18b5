"""Several agents, each with a Gymnasium env of its own."""

import gymnasium as gym
import numpy as np
import pytest

import marl
from marl.envs.adapters.copies import GymnasiumCopies
from marl.errors import ConfigError


def test_each_agent_plays_its_own_copy():
    batched_env = GymnasiumCopies({"num_agents": 3})
    alone = [gym.make("CartPole-v1") for _ in range(3)]
    obs, _ = batched_env.reset(seed=5)
    seeds = np.random.SeedSequence(5).generate_state(3)
    for agent, env, seed in zip(batched_env.possible_agents, alone, seeds, strict=True):
        np.testing.assert_array_equal(obs[agent], env.reset(seed=int(seed))[0])
    rng = np.random.default_rng(0)
    alive = list(batched_env.possible_agents)
    while alive:
        actions = {agent: int(rng.integers(2)) for agent in alive}
        result = batched_env.step(actions)
        for agent, action in actions.items():
            shown, reward, terminated, truncated, _ = alone[batched_env.possible_agents.index(agent)].step(action)
            np.testing.assert_array_equal(result.obs[agent], shown)
            assert (result.rewards[agent], result.terminated[agent], result.truncated[agent]) == (
                reward,
                terminated,
                truncated,
            )
        alive = [a for a in alive if not (result.terminated[a] or result.truncated[a])]
    batched_env.close()


def test_the_copies_pass_the_check_and_train_by_name():
    assert [str(p) for p in marl.check_env("copies", {"num_agents": 3}) if getattr(p, "severe", False)] == []
    config = {
        "env": "copies", "env_config": {"num_agents": 3, "env_config": {"max_episode_steps": 20}}, "train_batch_size": 64,
        "sgd_minibatch_size": 64, "fcnet_hiddens": [8], "evaluation": {"interval": 0},
    }  # fmt: skip
    with marl.Trainer("ppo", config=config) as trainer:
        assert trainer.train()["episode_len_mean"] <= 20


def test_a_registered_creator_hands_keywords_to_the_env():
    marl.register_env("short_poles", marl.make_multi_agent("CartPole-v1"))
    batched_env = marl.make_env("short_poles", {"num_agents": 4, "max_episode_steps": 7})
    batched_env.reset(seed=0)
    assert batched_env.possible_agents == ("agent_0", "agent_1", "agent_2", "agent_3")
    assert batched_env.envs["agent_0"].spec.max_episode_steps == 7


def test_wrong_keys_are_named():
    with pytest.raises(ConfigError, match=r"num_agnts.*Did you mean 'num_agents'"):
        marl.make_env("copies", {"num_agnts": 3})
