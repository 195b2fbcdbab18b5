"""A curriculum by hand: whenever the walkers reach the end, the corridor becomes longer, on all workers at once.

python examples/curriculum_by_callback.py [iterations] [num_workers]
"""

from __future__ import annotations

import sys
from typing import Any

import marl
from examples.corridor import LEARNING, LENGTHS, Corridor


class Lengthen(marl.Callbacks):
    """Looks at each result, and changes the env where it is good enough."""

    phase = 0

    def on_train_result(self, *, trainer: Any, result: Any, **kwargs: Any) -> None:
        result["phase"] = self.phase
        reward = result["episode_reward_mean"]  # 2: both walkers arrive
        if reward is not None and reward > 1.8 and self.phase + 1 < len(LENGTHS):
            self.phase += 1
            phase = self.phase
            trainer.workers.foreach_env(lambda env: env.set_phase(phase))

    def get_state(self) -> dict[str, Any]:  # a resumed run goes on in its phase
        return {"phase": self.phase}

    def set_state(self, state: dict[str, Any]) -> None:
        self.phase = state["phase"]


def main(iterations: int = 15, num_workers: int = 0) -> tuple[list[int], list[list[int]]]:
    """Gives the phase of each iteration, and the length that every copy in every worker has at the end."""
    config = {**LEARNING, "env_config": {"length": LENGTHS[0]}, "callbacks": Lengthen, "num_workers": num_workers}
    phases = []
    with marl.Trainer("ppo", env=Corridor, config=config) as trainer:
        for _ in range(iterations):
            result = trainer.train()
            phases.append(result["phase"])
            print(
                f"phase {result['phase']}: reward {result['episode_reward_mean']}, length {result['episode_len_mean']}"
            )
        lengths = trainer.workers.foreach_env(lambda env: env.next_length)
    print(f"lengths of all copies: {lengths}")
    return phases, lengths


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
