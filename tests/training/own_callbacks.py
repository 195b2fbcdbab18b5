"""Callbacks that scenarios of the tests name."""

from __future__ import annotations

import logging
import signal
from typing import Any

import numpy as np

import marl


class Angles(marl.Callbacks):
    """Pole angles of CartPole in every form, rewards with a bonus that fades, and a count that has to be remembered."""

    def __init__(self) -> None:
        self.trajectories = 0

    def on_episode_start(self, *, episode: marl.RunningEpisode, **_: Any) -> None:
        episode.user_data["angles"] = []

    def on_episode_step(self, *, episode: marl.RunningEpisode, **_: Any) -> None:
        angle = abs(episode.last_observation_for()[2])
        assert angle == abs(episode.last_raw_obs_for()[2])
        episode.user_data["angles"].append(angle)

    def on_episode_end(self, *, episode: marl.RunningEpisode, **_: Any) -> None:
        episode.custom_metrics["angle"] = np.mean(episode.user_data["angles"])
        episode.custom_metrics["trajectories"] = self.trajectories
        episode.hist_data["angles"] = episode.user_data["angles"]

    def on_postprocess_trajectory(self, *, postprocessed_batch: Any, **_: Any) -> None:
        self.trajectories += 1
        postprocessed_batch["rewards"] = postprocessed_batch["rewards"] + 1.0 / self.trajectories

    def on_learn_on_batch(self, *, train_batch: Any, result: dict[str, Any], **_: Any) -> None:
        result["sum_actions"] = np.sum(train_batch["actions"])

    def get_state(self) -> Any:
        return self.trajectories

    def set_state(self, state: Any) -> None:
        self.trajectories = state


class FailsLater(marl.Callbacks):
    """Divides by zero in the third iteration."""

    def on_train_result(self, *, trainer: Any, result: dict[str, Any], **_: Any) -> None:
        result["callback_ok"] = 1 / (3 - trainer.iteration)


class StopsAtTwo(marl.Callbacks):
    """Presses Ctrl-C in the second iteration of seed 1, once: where a file of that name is."""

    def on_train_result(self, *, trainer: Any, result: dict[str, Any], **_: Any) -> None:
        armed = trainer.store.directory.parent.parent / "armed"
        if trainer.scenario.seed == 1 and result["training_iteration"] == 2 and armed.exists():
            armed.unlink()
            signal.raise_signal(signal.SIGINT)


class FailsForSeedOne(marl.Callbacks):
    """Divides by zero in the second iteration of seed 1, after a warning."""

    def on_train_result(self, *, trainer: Any, result: dict[str, Any], **_: Any) -> None:
        if trainer.scenario.seed == 1:
            logging.getLogger("marl.test").warning("seed 1 is unlucky")
            result["ok"] = 1 / (2 - trainer.iteration)


class StopsInEvaluation(marl.Callbacks):
    """Presses Ctrl-C in the first episode of an evaluation, once, and notes the seeds whose evaluations have begun."""

    armed = False
    begun: tuple[int, ...] = ()

    def on_episode_start(self, *, worker: Any, episode: marl.RunningEpisode, **_: Any) -> None:
        cls = StopsInEvaluation
        if not episode.evaluating:
            return
        cls.begun += (worker.spec.seed,)
        if cls.armed:
            cls.armed = False
            signal.raise_signal(signal.SIGINT)
