"""Small runs that are attacked: each has something that a careless checkpoint would lose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

TWO_STEP: dict[str, Any] = {"env": "two_step_game", "num_envs_per_worker": 3}
CARTPOLE: dict[str, Any] = {"env": "CartPole-v1", "num_envs_per_worker": 3}
ROCK_PAPER_SCISSORS: dict[str, Any] = {
    "env": "matrix_game",
    "env_config": {"game": "rock_paper_scissors"},
    "num_envs_per_worker": 8,
}
ON_POLICY: dict[str, Any] = {"train_batch_size": 90, "sgd_minibatch_size": 32, "num_sgd_iter": 2}
OFF_POLICY: dict[str, Any] = {
    "learning_starts": 20,
    "train_batch_size": 16,
    "buffer_size": 150,
    "target_update_every": 7,
}
SHORT: dict[str, Any] = {
    "model": {"fcnet_hiddens": [8]},
    "evaluation": {"interval": 2, "episodes": 2},
    "checkpoint_freq": 2,
    "stop": {"training_iteration": 8},
    "seed": 3,
}
REPLAY: dict[str, Any] = {"rollout_fragment_length": 5, "timesteps_per_iteration": 40}

VICTIMS: dict[str, dict[str, Any]] = {
    "ppo": {**CARTPOLE, "algo": {"name": "ppo", **ON_POLICY, "kl_coeff": 0.2}, "rollout_fragment_length": 7},
    "mappo": {**TWO_STEP, "algo": {"name": "mappo", **ON_POLICY}, "rollout_fragment_length": 7},
    "dqn": {**CARTPOLE, **REPLAY, "algo": {"name": "dqn", **OFF_POLICY, "prioritized_replay": True, "n_step": 3}},
    "qmix": {**TWO_STEP, **REPLAY, "algo": {"name": "qmix", **OFF_POLICY}},
    "recurrent": {
        **CARTPOLE,
        "algo": {"name": "ppo", **ON_POLICY},
        "rollout_fragment_length": 7,
        "model": {"fcnet_hiddens": [8], "use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 5},
    },
    "complete_episodes": {
        **CARTPOLE,
        "algo": {"name": "pg", "train_batch_size": 80},
        "rollout_fragment_length": 9,
        "batch_mode": "complete_episodes",
    },
    "population": {
        **ROCK_PAPER_SCISSORS,
        "algo": {"name": "ppo", "train_batch_size": 32, "sgd_minibatch_size": 16, "num_sgd_iter": 2, "lr": 0.01},
        "population": {"kind": "psro", "round_timesteps": 96, "matches": 8},
        "exploitability": {"interval": 2},
    },
}  # fmt: skip


def write_victim(name: str, folder: Path, **changes: Any) -> Path:
    """The scenario as a file."""
    file = folder / f"{name}.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump({**SHORT, **VICTIMS[name], **changes, "name": "victim"}, sort_keys=False))
    return file
