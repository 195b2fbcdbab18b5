"""A critic that sees more than its actor: MAPPO's critic looks at both agents of the two-step game.

The critic is part of the learner alone. Actors decide by their own observation, so they can be exported and played apart.

python examples/centralized_critic.py
"""

from __future__ import annotations

import sys

import marl


def main(iterations: int = 20) -> tuple[float, int, int]:
    """Gives the greedy team reward, and how many numbers the actor and the critic look at."""
    config = {
        "critic_sees": "group",
        "share_reward": True,
        "groups": {"team": ["agent_0", "agent_1"]},
        "policies": {"team": {}},
        "policy_mapping_fn": "by_group",
        "lr": 0.001,
        "train_batch_size": 1_024,
        "sgd_minibatch_size": 256,
        "num_sgd_iter": 8,
        "entropy_coeff_schedule": [[0, 0.3], [15_000, 0.0]],
        "num_envs_per_worker": 16,
        "fcnet_hiddens": [32, 32],
        "evaluation": {"interval": 0, "episodes": 20},
    }
    with marl.Trainer("mappo", env="two_step_game", config=config) as trainer:
        for _ in range(iterations):
            result = trainer.train()
            print(f"{result['timesteps_total']:6d} steps, team reward {result['episode_reward_mean']:.2f}")
        actor = next(trainer.get_policy("team").parameters()).shape[-1]
        critic = next(trainer.learners[0].critics["team"].parameters()).shape[-1]
        reward = float(trainer.evaluate()["episode_reward_mean"])
    print(f"team reward {reward}; the actor sees {actor} numbers, the critic {critic}")
    return reward, actor, critic


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
