"""A policy server that learns from what clients report. In two shells:

python examples/serve/cartpole_server.py
python examples/serve/cartpole_client.py
"""

from __future__ import annotations

import argparse
import os

import marl

SERVER_ADDRESS = "127.0.0.1"
SERVER_PORT = 9900
CHECKPOINT_FILE = "last_checkpoint.out"

parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, default=SERVER_PORT)
parser.add_argument("--folder", default=".", help="where checkpoints are kept")


def main(arguments: list[str] | None = None) -> None:
    args = parser.parse_args(arguments)
    # DQN also learns from actions that clients chose themselves (cartpole_client.py --off-policy).
    dqn = marl.Trainer(
        "dqn",
        env="external",
        config={
            "env_config": {
                "agents": {
                    "agent_0": {
                        "observation_space": {"type": "Box", "low": -10, "high": 10, "shape": [4], "dtype": "float32"},
                        "action_space": {"type": "Discrete", "n": 2, "start": 0},
                    }
                }
            },
            "external": {"host": SERVER_ADDRESS, "port": args.port},
            "evaluation": {"interval": 0},  # clients have the env, so there is none to evaluate on
            "num_envs_per_worker": 4,  # episodes that can be open at once
            "learning_starts": 100,
            "lr": 0.001,
            "fcnet_hiddens": [64, 64],
            "timesteps_per_iteration": 200,
        },
    )
    last_checkpoint = os.path.join(args.folder, CHECKPOINT_FILE)
    if os.path.exists(last_checkpoint):
        with open(last_checkpoint) as file:
            checkpoint_path = file.read()
        print("Restoring from checkpoint path", checkpoint_path)
        dqn.restore(checkpoint_path)

    print("Policy server at", dqn.workers.serve(), flush=True)
    while True:
        result = dqn.train()
        print(marl.pretty_print({name: result[name] for name in ("training_iteration", "episode_reward_mean")}))
        checkpoint_path = str(dqn.save(os.path.join(args.folder, "checkpoint")))
        print("Last checkpoint", checkpoint_path, flush=True)
        with open(last_checkpoint, "w") as file:
            file.write(checkpoint_path)


if __name__ == "__main__":
    main()
