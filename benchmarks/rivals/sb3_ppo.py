"""PPO by Stable-Baselines3 on CartPole, from start to end; prints the mean return of the last episodes.

python sb3_ppo.py '{"envs": 8, "steps": 150000, "batch": 1024, "minibatch": 256, "epochs": 10}'
"""

from __future__ import annotations

import json
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.utils import safe_mean


def main() -> None:
    work = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    model = PPO(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=work["envs"], seed=0),
        n_steps=work["batch"] // work["envs"],
        batch_size=work["minibatch"],
        n_epochs=work["epochs"],
        learning_rate=lambda left: 1e-3 * left,
        gamma=0.99,
        device="cpu",
        seed=0,
    )
    model.learn(work["steps"])
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.zip")
    reward = safe_mean([episode["r"] for episode in model.ep_info_buffer])
    versions = {name: version(name) for name in ("stable-baselines3", "torch", "gymnasium")}
    print(json.dumps({"count": model.num_timesteps, "reward": float(reward), "versions": versions}))


if __name__ == "__main__":
    main()
