"""One run of BenchMARL with its own defaults; prints its curve as JSON.

    python benchmarl_curve.py '{"task": "balance", "algorithm": "mappo", "seed": 0, "frames": 3000000}'

The defaults of experiment, algorithm, model and task are BenchMARL's; what is changed is said here: frames and seed, the CPU,
no loggers, no videos, and 32 episodes per evaluation instead of 10.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import Any

import torch
from benchmarl.algorithms import IppoConfig, MaddpgConfig, MappoConfig, MasacConfig
from benchmarl.environments import VmasTask
from benchmarl.experiment import Callback, Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig

ALGORITHMS = {"ippo": IppoConfig, "mappo": MappoConfig, "maddpg": MaddpgConfig, "masac": MasacConfig}
EPISODES = 32


class Returns(Callback):
    """Keeps what every evaluation has earned: rewards added up over agents and steps."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[int] = []
        self.values: list[float] = []

    def on_evaluation_end(self, rollouts: list[Any]) -> None:
        returns = []
        for whole in rollouts:
            rollout = first_episode(whole)
            total = 0.0
            for group in self.experiment.group_map:
                total += float(rollout["next", group, "reward"].sum())
            returns.append(total)
        self.steps.append(int(self.experiment.total_frames))
        self.values.append(sum(returns) / len(returns))


def first_episode(rollout: Any) -> Any:
    """Envs that step together play on after an end, with a new episode."""
    ends = rollout["next", "done"].reshape(len(rollout), -1).any(dim=1).nonzero()
    if not len(ends):
        return rollout
    return rollout[: int(ends[0]) + 1]


def experiment(work: dict[str, Any], folder: str, returns: Returns) -> Experiment:
    config = ExperimentConfig.get_from_yaml()
    config.sampling_device = config.train_device = config.buffer_device = "cpu"
    config.max_n_frames, config.max_n_iters = work["frames"], None
    config.evaluation, config.evaluation_episodes, config.render = True, EPISODES, False
    config.evaluation_interval = min(config.evaluation_interval, work["frames"])
    config.loggers, config.create_json = [], True  # without any of them BenchMARL does not evaluate
    config.checkpoint_interval, config.checkpoint_at_end = 0, False
    config.save_folder = folder
    return Experiment(
        task=VmasTask[work["task"].upper()].get_from_yaml(),
        algorithm_config=ALGORITHMS[work["algorithm"]].get_from_yaml(),
        model_config=MlpConfig.get_from_yaml(),
        critic_model_config=MlpConfig.get_from_yaml(),
        seed=work["seed"],
        config=config,
        callbacks=[returns],
    )


def main() -> None:
    torch.set_num_threads(1)
    work, returns = json.loads(sys.argv[1]), Returns()
    with tempfile.TemporaryDirectory() as folder:
        experiment(work, folder, returns).run()
    used = os.times()
    told = {
        "steps": returns.steps,
        "values": returns.values,
        "frames": work["frames"],
        "cpu_s": used.user + used.system,
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
