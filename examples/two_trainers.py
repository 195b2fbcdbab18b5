"""Two trainers for two policies of one env: PPO trains one, DQN the other, and each plays the other's newest weights.

One run does the same with less ado: see two_algorithms.py. Two trainers are for those who want a loop of their own.

python examples/two_trainers.py
"""

from __future__ import annotations

import sys
from typing import Any

import marl

ENV: dict[str, Any] = {
    "env_config": {"num_agents": 2},
    "policies": {
        "by_ppo": {"algo": "ppo"},
        "by_dqn": {"algo": "dqn", "exploration_config": {"type": "EpsilonGreedy", "epsilon_timesteps": 5_000}},
    },
    "policy_mapping_fn": {"agent_0": "by_ppo", "agent_1": "by_dqn"},
    "num_envs_per_worker": 8,
    "fcnet_hiddens": [64, 64],
    "lr": 0.001,
    "evaluation": {"interval": 0, "episodes": 10},
}


def main(iterations: int = 25) -> dict[str, float]:
    """Gives what each policy earns in a greedy evaluation at the end."""
    marl.register_env("two_cartpoles", marl.make_multi_agent("CartPole-v1"))
    batch = {"ppo": {"train_batch_size": 1_600, "sgd_minibatch_size": 200}, "dqn": {"timesteps_per_iteration": 1_600}}
    trainers = {}
    for algo in ("ppo", "dqn"):
        mine = {"policies_to_train": [f"by_{algo}"], **batch[algo]}
        trainers[algo] = marl.Trainer(algo, env="two_cartpoles", config={**ENV, **mine})
    try:
        for i in range(iterations):
            rewards = {}
            for algo, other in (("ppo", "dqn"), ("dqn", "ppo")):
                theirs = trainers[other].get_weights()[f"by_{other}"]
                trainers[algo].set_weights({f"by_{other}": theirs})
                rewards[algo] = trainers[algo].train()["policy_reward_mean"].get(f"by_{algo}", float("nan"))
            print(f"iteration {i}: {rewards}")
        trainers["ppo"].set_weights({"by_dqn": trainers["dqn"].get_weights()["by_dqn"]})
        final: dict[str, float] = trainers["ppo"].evaluate()["policy_reward_mean"]
    finally:
        for trainer in trainers.values():
            trainer.stop()
    print("evaluated:", final)
    return final


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
