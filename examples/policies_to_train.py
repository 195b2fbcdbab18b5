"""Freeze and thaw policies while training: rock-paper-scissors players that learn in turns.

python examples/policies_to_train.py
"""

from __future__ import annotations

import sys

import numpy as np

import marl


def main(rounds: int = 4) -> list[tuple[str, bool, bool]]:
    """Gives, for each round, who learned and whether the weights of player_0 and player_1 changed."""
    config = {
        "env_config": {"game": "rock_paper_scissors"},
        "policy_mapping_fn": "per_agent",
        "train_batch_size": 400,
        "sgd_minibatch_size": 100,
        "fcnet_hiddens": [8],
        "num_envs_per_worker": 20,
        "evaluation": {"interval": 0},
    }
    history = []
    with marl.Trainer("ppo", env="matrix_game", config=config) as trainer:
        for i in range(rounds):
            learner = f"player_{i % 2}"
            trainer.set_policies_to_train([learner])
            before = trainer.get_weights()
            result = trainer.train()
            after = trainer.get_weights()
            changed = [
                any(not np.array_equal(before[name][key], after[name][key]) for key in before[name])
                for name in ("player_0", "player_1")
            ]
            print(f"round {i}: {learner} learns, changed: {changed}, rewards {result['policy_reward_mean']}")
            history.append((learner, changed[0], changed[1]))
    return history


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
