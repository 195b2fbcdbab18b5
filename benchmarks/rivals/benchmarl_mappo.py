"""MAPPO by BenchMARL on VMAS's balance.

    python benchmarl_mappo.py '{"envs": 64, "agents": 4, "batch": 6400, "minibatch": 1600, "epochs": 4, "iterations": 1}'

``minibatch`` counts env steps, as BenchMARL does: each holds the rows of all agents.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from benchmarl.algorithms import MappoConfig
from benchmarl.environments import VmasTask
from benchmarl.experiment import Callback, Experiment, ExperimentConfig
from benchmarl.models.mlp import MlpConfig
from clock import Clock

AGENTS = ("agents", "reward")
"""Where VMAS's rewards are in a batch."""


class Rounds(Callback):
    """BenchMARL keeps its loop to itself: a round ends with the training of its last iteration."""

    def __init__(self, work: dict[str, Any], clock: Clock) -> None:
        super().__init__()
        self.work, self.clock = work, clock
        self.iterations, self.warm, self.reward = 0, False, 0.0

    def on_batch_collected(self, batch: Any) -> None:
        # All agents of balance are paid alike; an episode of 100 steps at most, told as a mean step times that.
        self.reward = float(batch["next", *AGENTS].mean()) * 100 * self.work["agents"]

    def on_train_end(self, training_td: Any, group: str) -> None:
        del training_td, group
        self.iterations += 1
        if self.iterations % self.work["iterations"]:
            return
        told = {"count": self.work["iterations"] * self.work["batch"], "reward": self.reward}
        if self.warm:
            self.clock.stopped(told)
        else:
            self.clock.ready(told)
        self.warm = True
        if not self.clock.started():
            raise SystemExit


def experiment(work: dict[str, Any], clock: Clock) -> Experiment:
    config = ExperimentConfig.get_from_yaml()
    config.sampling_device = config.train_device = config.buffer_device = "cpu"
    config.on_policy_collected_frames_per_batch = work["batch"]
    config.on_policy_n_envs_per_worker = work["envs"]
    config.on_policy_n_minibatch_iters = work["epochs"]
    config.on_policy_minibatch_size = work["minibatch"]
    config.max_n_iters, config.max_n_frames = 1_000_000, None
    config.lr, config.gamma, config.clip_grad_val = 3e-4, 0.99, 0.5
    config.evaluation, config.loggers, config.create_json, config.checkpoint_at_end = False, [], False, False
    config.render, config.checkpoint_interval = False, 0
    task = VmasTask.BALANCE.get_from_yaml()
    task.config |= {"max_steps": 100, "n_agents": work["agents"]}
    algorithm = MappoConfig.get_from_yaml()
    algorithm.clip_epsilon, algorithm.critic_coef, algorithm.lmbda, algorithm.entropy_coef = 0.2, 0.5, 0.95, 0.0
    networks = [MlpConfig.get_from_yaml() for _ in range(2)]
    for network in networks:
        network.num_cells, network.activation_class = [64, 64], torch.nn.Tanh
    return Experiment(
        task=task, algorithm_config=algorithm, model_config=networks[0], critic_model_config=networks[1], seed=0,
        config=config, callbacks=[Rounds(work, clock)],
    )  # fmt: skip


def main() -> None:
    torch.set_num_threads(1)
    clock = Clock("benchmarl", "torchrl", "vmas", "torch")
    experiment(json.loads(sys.argv[1]), clock).run()


if __name__ == "__main__":
    main()
