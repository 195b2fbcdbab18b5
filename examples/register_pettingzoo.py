"""A PettingZoo env in one line: turn-based tic-tac-toe, trained by self-play with one shared policy.

python examples/register_pettingzoo.py
"""

from __future__ import annotations

import sys

from pettingzoo.classic import tictactoe_v3

import marl

marl.register_pettingzoo("ttt", tictactoe_v3.env)


def main(iterations: int = 20) -> dict[str, float]:
    """Trains, then plays the learned policy as the first player against random play; gives the mean rewards."""
    config = {
        "num_envs_per_worker": 16,
        "train_batch_size": 2_000,
        "sgd_minibatch_size": 250,
        "lr": 0.001,
        "fcnet_hiddens": [64, 64],
        "policies": {"learned": {}, "random": {"scripted": "random"}},
        "policy_mapping_fn": {"player_1": ["learned", "random"], "player_2": "learned"},
        "evaluation": {
            "interval": iterations,
            "episodes": 100,
            "policy_mapping_fn": {"player_1": "learned", "player_2": "random"},
        },
    }
    with marl.Trainer("ppo", env="ttt", config=config) as trainer:
        print("\n".join(trainer.setup.header))
        for _ in range(iterations):
            result = trainer.train()
            print(f"{result['timesteps_total']:6d} steps, mean game of {result['episode_len_mean']:.1f} moves")
    rewards: dict[str, float] = result["evaluation"]["policy_reward_mean"]
    print(f"mean result over 100 games (1 won, 0 drawn, -1 lost): {rewards}")
    return rewards


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
