"""Scenarios whose parts do not fit together are refused before anything starts."""

from __future__ import annotations

from typing import Any

import pytest

from marl.errors import UserError
from marl.training.trainer import Trainer


@pytest.mark.parametrize(
    ("algo", "config", "text"),
    [
        ("qmix", {"env": "CartPole-v1", "vf_share_layers": True, "critic_sees": "own"}, "qmix has no key 'critic_sees'"),
        ("mappo", {"env": "two_step_game", "vf_share_layers": True}, "vf_share_layers"),
        ("pg", {"env": "CartPole-v1", "batch_mode": "truncate_episodes"}, "pg, which needs whole episodes"),
        ("dqn", {"env": "Pendulum-v1"}, "need Discrete actions"),
        ("dqn", {"env": "CartPole-v1", "exploration_config": {"type": "StochasticSampling"}}, "does not fit dqn"),
        ("ppo", {"env": "CartPole-v1", "device": "cuda"}, "torch finds no GPU"),
        ("ppo", {"env": "CartPole-v1", "num_gpus": 0.2}, "num_gpus: 0.2 needs device: cuda or auto, but device is cpu"),
        ("ppo", {"env": "CartPole-v1", "num_gpus": 0.2, "device": "auto"}, "num_gpus is 0.2, but .* without a GPU"),
        ("ppo", {"env": "CartPole-v1", "pool": "ray"}, "pool: ray needs num_workers above 0, but num_workers is 0"),
        ("ppo", {"env": "CartPole-v1", "goal": {"evaluation.episode_rewrd_mean": 1}}, "Did you mean 'evaluation.episode_reward_mean'"),
        ("ppo", {"env": "CartPole-v1", "stop": {"timestep_total": 1}}, "Did you mean 'timesteps_total'"),
        ("ppo", {"env": "CartPole-v1", "stop": {"policy_reward_mean.x": 1}}, "policy_reward_mean.default_policy"),
        ("ppo", {"env": "CartPole-v1", "evaluation": {"metric": "reward"}}, "evaluation.metric"),
        ("ppo", {"env": "CartPole-v1", "stop": {"goal": True}}, "needs a goal"),
        ("ppo", {"env": "CartPole-v1", "goal": {"evaluation.episode_reward_mean": 1}, "evaluation": {"interval": 0}}, "needs evaluation.interval above 0, but evaluation.interval is 0. Set evaluation.interval"),
        ("qmix", {"env": "two_step_game", "policies": {"agent_0": {"gamma": 0.5}, "agent_1": {}}}, "differ in gamma"),
        ("qmix", {"env": "two_step_game", "policies": {"agent_0": {}, "agent_1": {"scripted": "random"}}, "groups": {"g": ["agent_*"]}}, "scripted policy"),
        ("qmix", {"env": "two_step_game", "policies": {"agent_0": {}, "agent_1": {"algo": "mappo"}}, "groups": {"g": ["agent_*"]}}, "One group takes one algorithm"),
    ],
)  # fmt: skip
def test_combinations_that_cannot_work_are_refused_before_the_start(
    algo: str, config: dict[str, Any], text: str
) -> None:
    with pytest.raises(UserError, match=text):
        Trainer(algo, config=config)
