"""Look inside of policies: weights on all workers, the action distribution, the value, action values and their distributions.

python examples/look_inside.py      # with two Ray workers: python examples/look_inside.py 2
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import marl

SMALL = {"env": "CartPole-v1", "fcnet_hiddens": [16], "evaluation": {"interval": 0}}


def size_of_weights(worker: marl.RolloutWorker) -> float:
    """Runs where the worker is."""
    weights = worker.policy_map["default_policy"].get_weights()
    return sum(float(np.abs(array).sum()) for array in weights.values())


def stochastic(num_workers: int = 0) -> dict[str, Any]:
    """A ppo policy: what every worker holds, which actions it would take, and what its critic expects."""
    with marl.Trainer("ppo", config={**SMALL, "num_workers": num_workers, "train_batch_size": 200}) as trainer:
        trainer.train()
        print(trainer.get_policy().model.summary())
        sizes = trainer.workers.foreach_worker(size_of_weights)
        print("weights on every worker:", sizes)
        batch = trainer.workers.collect(1).batch
        rows = batch.for_policy("default_policy")
        chances = trainer.get_policy().action_distribution(rows)
        action = chances.sample()
        value = trainer.value_function("default_policy", batch)
        print(
            "action:", action, "log-probability:", chances.logp(action), "entropy:", chances.entropy(), "value:", value
        )
    return {"sizes": sizes, "rows": len(rows["obs"]), "logp": chances.logp(action), "value": value}


def values(num_atoms: int = 1) -> dict[str, tuple[int, ...]]:
    """A dqn policy: the value of each action, and with several atoms how it is distributed. Gives their shapes."""
    keys = {**SMALL, "train_batch_size": 32, "timesteps_per_iteration": 200, "learning_starts": 100}
    with marl.Trainer("dqn", config={**keys, "num_atoms": num_atoms}) as trainer:
        trainer.train()
        rows = trainer.workers.collect(1).batch.for_policy("default_policy")
        policy = trainer.get_policy()
        found = {"q_values": policy.q_values(rows), "state_value": policy.state_value(rows)}
        if num_atoms > 1:
            found["distributions"] = policy.q_value_distributions(rows)
    print(found)
    return {name: tuple(tensor.shape) for name, tensor in found.items()}


if __name__ == "__main__":
    stochastic(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    values()
    values(num_atoms=11)
