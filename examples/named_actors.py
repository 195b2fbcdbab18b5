"""One shared mind for the envs of all workers: a Ray actor with a name, which every copy of the env asks.

Here it counts how many walkers arrived anywhere, and says how long the corridors should be now.

python examples/named_actors.py [iterations]
"""

from __future__ import annotations

import sys
from typing import Any

import marl
from examples.corridor import LEARNING, LENGTHS, Corridor

NAME = "corridors"


class Coordinator:
    """Lives in one process of its own. Plain Python: Ray makes an actor of it."""

    def __init__(self) -> None:
        self.episodes = self.arrived = 0

    def report(self, arrived: int) -> int:
        """Called by an env at the end of an episode; gives the length of its next corridor."""
        self.episodes += 1
        self.arrived += arrived
        return LENGTHS[min(self.arrived // 500, len(LENGTHS) - 1)]

    def counts(self) -> tuple[int, int]:
        return self.episodes, self.arrived


class CoordinatedCorridor(Corridor):
    """Asks the actor after each episode. The actor is looked up by its name, in whatever process this copy lives."""

    def __init__(self, config: marl.EnvContext) -> None:
        super().__init__(config)
        self.arrived = self.walking = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.arrived, self.walking = 0, len(self.possible_agents)
        return super().reset(seed=seed, options=options)

    def step(self, actions: dict[str, int]) -> Any:
        obs, rewards, terminated, truncated, infos = super().step(actions)
        self.arrived += sum(terminated.values())
        self.walking -= sum(terminated.values()) + sum(truncated.values())
        if not self.walking:
            import ray

            self.set_task(ray.get(ray.get_actor(NAME).report.remote(self.arrived)))
        return obs, rewards, terminated, truncated, infos


def main(iterations: int = 5, num_workers: int = 2) -> tuple[int, int]:
    """Gives the finished episodes as the result and as the shared actor count them."""
    import ray

    if not ray.is_initialized():
        ray.init(address="local", num_cpus=num_workers + 1, include_dashboard=False, log_to_driver=False)
    actor: Any = ray.remote(Coordinator).options(name=NAME, num_cpus=0).remote()
    config = {**LEARNING, "env_config": {"length": LENGTHS[0]}, "num_workers": num_workers}
    with marl.Trainer("ppo", env=CoordinatedCorridor, config=config) as trainer:
        for _ in range(iterations):
            result = trainer.train()
            episodes, arrived = ray.get(actor.counts.remote())
            print(
                f"{result['episodes_total']} episodes; the actor counted {episodes}, in which {arrived} walkers arrived"
            )
    ray.kill(actor)
    return result["episodes_total"], episodes


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
