"""PPO by RLlib on mpe2's own simple_spread, in one process.

python rllib_ppo.py '{"envs": 8, "fragment": 50, "batch": 4000, "minibatch": 400, "epochs": 10, "iterations": 1}'
"""

from __future__ import annotations

import json
import sys
from typing import Any

import ray
import torch
from clock import answer
from mpe2 import simple_spread_v3
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
from ray.tune.registry import register_env

NETWORKS = DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="tanh", vf_share_layers=False)


def algorithm(work: dict[str, Any]) -> Algorithm:
    register_env("spread", lambda _: ParallelPettingZooEnv(simple_spread_v3.parallel_env()))
    config = (
        PPOConfig()
        .environment("spread", disable_env_checking=True)
        .env_runners(
            num_env_runners=0,
            num_envs_per_env_runner=work["envs"],
            rollout_fragment_length=work["fragment"],
            batch_mode="truncate_episodes",
        )
        .learners(num_learners=0)
        .multi_agent(policies={"shared"}, policy_mapping_fn=lambda *_, **__: "shared")
        .rl_module(model_config=NETWORKS)
        .training(
            train_batch_size_per_learner=work["batch"],
            minibatch_size=work["minibatch"],
            num_epochs=work["epochs"],
            lr=1e-3,
            gamma=0.95,
            lambda_=0.95,
            clip_param=0.2,
            use_kl_loss=False,
            vf_clip_param=float("inf"),
            vf_loss_coeff=0.5,
            entropy_coeff=0.0,
            grad_clip=0.5,
        )
        .reporting(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=0)
        .debugging(seed=0, log_level="ERROR")
    )
    return config.build_algo()


def main() -> None:
    work = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    algo = algorithm(work)
    steps = 0

    def one_round() -> dict[str, float]:
        nonlocal steps
        before = steps
        for _ in range(work["iterations"]):
            result = algo.train()
        steps = result["num_env_steps_sampled_lifetime"]
        return {"count": steps - before, "reward": result["env_runners"]["episode_return_mean"]}

    answer(one_round, "ray", "torch", "mpe2")
    algo.stop()
    ray.shutdown()


if __name__ == "__main__":
    main()
