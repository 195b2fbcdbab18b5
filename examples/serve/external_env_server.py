"""The server script of RLlib's documents with our imports: an ExternalEnv that serves. In two shells:

python examples/serve/external_env_server.py
python examples/serve/cartpole_client.py
"""

import os

from gymnasium import spaces
from numpy import inf

from marl import ExternalEnv, PolicyServer, Trainer, pretty_print, register_env

SERVER_ADDRESS = "localhost"
SERVER_PORT = 9900
CHECKPOINT_FILE = "last_checkpoint.out"


class CartpoleServing(ExternalEnv):
    def __init__(self) -> None:
        ExternalEnv.__init__(self, spaces.Discrete(2), spaces.Box(low=-inf, high=inf, shape=(4,)))

    def run(self) -> None:
        print(f"Starting policy server at {SERVER_ADDRESS}:{SERVER_PORT}", flush=True)
        server = PolicyServer(self, SERVER_ADDRESS, SERVER_PORT)
        server.serve_forever()


if __name__ == "__main__":
    register_env("srv", lambda _: CartpoleServing())

    # DQN also learns from actions that clients chose themselves (cartpole_client.py --off-policy).
    dqn = Trainer(
        "dqn",
        env="srv",
        config={
            "num_workers": 0,
            "learning_starts": 100,
            "timesteps_per_iteration": 200,
        },
    )

    # Go on where the last server was.
    if os.path.exists(CHECKPOINT_FILE):
        with open(CHECKPOINT_FILE) as file:
            checkpoint_path = file.read()
        print("Restoring from checkpoint path", checkpoint_path)
        dqn.restore(checkpoint_path)

    # Serve and train.
    while True:
        print(pretty_print(dqn.train()))
        checkpoint_path = str(dqn.save())
        print("Last checkpoint", checkpoint_path, flush=True)
        with open(CHECKPOINT_FILE, "w") as file:
            file.write(checkpoint_path)
