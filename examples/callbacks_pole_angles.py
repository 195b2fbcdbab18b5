"""Callbacks: numbers of your own in the results, how far CartPole's pole leans while it is balanced.

python examples/callbacks_pole_angles.py [ITERATIONS] [NUM_WORKERS]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import marl


class PoleAngles(marl.Callbacks):
    """Each hook takes those of its keywords that it wants. The class is built once in every worker."""

    def on_episode_start(self, *, episode: marl.RunningEpisode, **_: Any) -> None:
        episode.user_data["angles"] = []

    def on_episode_step(self, *, episode: marl.RunningEpisode, **_: Any) -> None:
        episode.user_data["angles"].append(abs(episode.last_observation_for()[2]))

    def on_episode_end(self, *, episode: marl.RunningEpisode, **_: Any) -> None:
        episode.custom_metrics["pole_angle"] = np.mean(episode.user_data["angles"])  # mean, min and max over episodes
        episode.hist_data["pole_angles"] = episode.user_data["angles"]  # a histogram over all steps

    def on_sample_end(self, *, worker: Any, samples: Any, **_: Any) -> None:
        assert samples.count == worker.env.num_envs * len(samples.t[samples.context :])

    def on_learn_on_batch(self, *, train_batch: Any, result: dict[str, Any], **_: Any) -> None:
        result["mean_action"] = np.mean(train_batch["actions"])  # stands among the learner_stats

    def on_train_result(self, *, result: dict[str, Any], **_: Any) -> None:
        result["callback_ok"] = True


def main(iterations: int = 10, num_workers: int = 0) -> dict[str, Any]:
    config = {
        "callbacks": PoleAngles,
        "num_workers": num_workers,
        "num_envs_per_worker": 4,
        "train_batch_size": 800,
        "sgd_minibatch_size": 200,
        "lr": 0.003,
        "fcnet_hiddens": [32],
        "evaluation": {"interval": iterations, "episodes": 5},
    }
    with marl.Trainer("ppo", env="CartPole-v1", config=config) as trainer:
        for _ in range(iterations):
            result = trainer.train()
            angles = {name: round(value, 4) for name, value in result["custom_metrics"].items()}
            print(f"{result['timesteps_total']:6d} steps, reward {result['episode_reward_mean']:6.1f}, {angles}")
    return result


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
