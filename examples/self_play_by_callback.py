"""Self-play written as a callback: whenever the learner wins often enough, a copy of it joins its opponents.

RLlib's self-play and league examples are made of the same calls: ``add_policy``, ``remove_policy`` and a new mapping. Where a
snapshot after so many steps is all that is wanted, ``population: {kind: self_play}`` does it without a line of code.

python examples/self_play_by_callback.py [iterations]
"""

from __future__ import annotations

import sys
from typing import Any

import marl

MOST_OPPONENTS = 2


class SelfPlay(marl.Callbacks):
    """``main`` plays against one of its opponents, drawn anew in each episode. The first one always plays rock."""

    def __init__(self) -> None:
        self.snapshots = 0

    def on_train_result(self, *, trainer: Any, result: Any, **_: Any) -> None:
        opponents = [name for name in trainer.policies if name != "main"]
        result["opponents"] = opponents
        if result["policy_reward_mean"]["main"] < 0.4:  # not yet better than those before
            return
        self.snapshots += 1
        newest = f"main_{self.snapshots}"
        opponents.append(newest)
        trainer.add_policy(newest, like="main", policy_mapping_fn=against(opponents), policies_to_train=["main"])
        if len(opponents) > MOST_OPPONENTS:
            oldest, *left = opponents
            trainer.remove_policy(oldest, policy_mapping_fn=against(left))

    def get_state(self) -> Any:
        return self.snapshots

    def set_state(self, state: Any) -> None:
        self.snapshots = state


def against(opponents: list[str]) -> dict[str, Any]:
    """Who plays whom: a list is drawn from in each episode. Patterns, not a lambda, so that a checkpoint can tell it."""
    return {"player_0": "main", "player_1": opponents}


CONFIG: dict[str, Any] = {
    "env_config": {"game": "rock_paper_scissors"},
    "policies": {"main": {}, "rock": {"scripted": {"name": "fixed", "action": 0}}},
    "policy_mapping_fn": against(["rock"]),
    "policies_to_train": ["main"],
    "callbacks": SelfPlay,
    "lr": 0.02,
    "train_batch_size": 256,
    "sgd_minibatch_size": 256,
    "num_envs_per_worker": 16,
    "fcnet_hiddens": [8],
    "evaluation": {"interval": 0},
}


def main(iterations: int = 12) -> marl.Trainer:
    """Gives the trainer."""
    with marl.Trainer("ppo", env="matrix_game", config=CONFIG) as trainer:
        for _ in range(iterations):
            result = trainer.train()
            print(f"iteration {result['training_iteration']}: {result['policy_reward_mean']}")
    return trainer


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
