"""Small runs whose checkpoints meet in the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from marl import Trainer

SMALL: dict[str, Any] = {"fcnet_hiddens": [8], "evaluation": {"interval": 0}}
TINY: dict[str, dict[str, Any]] = {
    "ppo": {**SMALL, "train_batch_size": 64, "sgd_minibatch_size": 64, "num_sgd_iter": 2},
    "dqn": {**SMALL, "train_batch_size": 32, "timesteps_per_iteration": 64},
}
DILEMMA: dict[str, Any] = {"env": "matrix_game", "env_config": {"game": "prisoners_dilemma"}}
RPS: dict[str, Any] = {"env": "matrix_game", "env_config": {"game": "rock_paper_scissors"}}


def checkpoint(folder: Path, env: dict[str, Any], algo: str = "ppo", **keys: Any) -> Path:
    """One iteration of training, saved."""
    with Trainer(algo, config={**TINY[algo], **env, **keys}) as trainer:
        trainer.train()
        return Path(trainer.save(folder))


def with_fixed(folder: Path, env: dict[str, Any], actions: int, **keys: Any) -> Path:
    """A checkpoint whose policies ``fixed_0``, ``fixed_1``, ... always play their number."""
    scripted = {f"fixed_{a}": {"scripted": {"name": "fixed", "action": a}} for a in range(actions)}
    multiagent = {
        "policies": {"learner": {}, **scripted},
        "policy_mapping_fn": {"player_0": "learner", "*": list(scripted)},
    }
    return checkpoint(folder, env, multiagent=multiagent, **keys)
