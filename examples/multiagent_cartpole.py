"""Several CartPoles, several policies that share their first layer, and a policy drawn for each agent and episode.

python examples/multiagent_cartpole.py            # 4 agents, 2 policies
python examples/multiagent_cartpole.py 6 3
"""

from __future__ import annotations

import sys

import marl


def main(num_agents: int = 4, num_policies: int = 2, iterations: int = 30, goal: float = 200.0) -> marl.Trainer:
    """Trains until every agent reaches the goal in an evaluation; gives the trainer."""
    marl.register_env("cartpoles", marl.make_multi_agent("CartPole-v1"))
    policies = [f"policy_{i}" for i in range(num_policies)]
    config = {
        "env_config": {"num_agents": num_agents},
        "policies": policies,
        "policy_mapping_fn": lambda agent, episode: policies[episode.rng.integers(num_policies)],
        "fcnet_hiddens": [64],
        "post_fcnet_hiddens": [64],
        "shared": {"encoder": "trunk"},  # the layers of fcnet_hiddens are the same tensors in all policies
        "lr": 1e-3,
        "train_batch_size": 2048,
        "sgd_minibatch_size": 512,
        "num_envs_per_worker": 4,
        "evaluation": {"interval": 5, "episodes": 10},
    }
    with marl.Trainer("ppo", env="cartpoles", config=config) as trainer:
        for _ in range(iterations):
            result = trainer.train()
            rewards = result["evaluation"]["agent_reward_mean"] if "evaluation" in result else {}
            print(f"iteration {result['training_iteration']}: {rewards or result['agent_reward_mean']}")
            if rewards and min(rewards.values()) >= goal:
                break
    return trainer


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
