"""Back-dated rewards: a shop pays for the answers of a day at closing time; a callback moves the pay to where it was earned.

The env says in its last ``info`` which answers were right. Learners are shown these rewards instead of the one at the end,
so they know at once which answer to repeat. What the env paid, and results report, stays as it is.

    python examples/backdated_rewards.py
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from gymnasium import spaces

import marl

QUESTIONS, ANSWERS, DAY = 6, 4, 20


class Shop(marl.MultiAgentEnv):
    """Each of six questions has one right answer of four. 20 questions are asked a day; pay comes at its end."""

    possible_agents = ("clerk",)
    asked = spaces.Discrete(QUESTIONS)
    said = spaces.Discrete(ANSWERS)

    def __init__(self, config: dict[str, Any]) -> None:
        self.right = np.random.default_rng(7).integers(ANSWERS, size=QUESTIONS)

    def observation_space(self, agent: str) -> Any:
        return self.asked

    def action_space(self, agent: str) -> Any:
        return self.said

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.rng, self.earned = np.random.default_rng(seed), []
        self.question = int(self.rng.integers(QUESTIONS))
        return {"clerk": self.question}, {}

    def step(self, actions: dict[str, Any]) -> Any:
        self.earned.append(float(actions["clerk"] == self.right[self.question]))
        self.question = int(self.rng.integers(QUESTIONS))
        closing = len(self.earned) == DAY
        paid = sum(self.earned) if closing else 0.0
        infos = {"clerk": {"earned": list(self.earned)}} if closing else {}
        return {"clerk": self.question}, {"clerk": paid}, {"clerk": closing}, {}, infos


class BackDated(marl.Callbacks):
    """``pg`` learns from whole episodes, so every trajectory is shown when its day is over."""

    def on_episode_end(self, *, episode: marl.RunningEpisode, **_: Any) -> None:
        episode.user_data["earned"] = np.array(episode.last_info_for()["earned"])

    def on_postprocess_trajectory(self, *, episode: marl.RunningEpisode, postprocessed_batch: Any, **_: Any) -> None:
        postprocessed_batch["rewards"] = episode.user_data["earned"][postprocessed_batch["t"]]


def right_answers(iterations: int, callbacks: type[marl.Callbacks] | None) -> float:
    """Of 20, in the last 100 days of training."""
    config = {
        "callbacks": callbacks,
        "num_envs_per_worker": 10,
        "train_batch_size": 400,
        "lr": 0.02,
        "gamma": 0.9,
        "fcnet_hiddens": [16],
        "evaluation": {"interval": 0},
    }
    with marl.Trainer("pg", env=Shop, config=config) as trainer:
        for _ in range(iterations):
            result = trainer.train()
    reward: float = result["episode_reward_mean"]
    return reward


def main(iterations: int = 20) -> dict[str, float]:
    found = {name: right_answers(iterations, hook) for name, hook in (("late", None), ("back-dated", BackDated))}
    for name, right in found.items():
        print(f"{name:>10} rewards: {right:.1f} of {DAY} answers are right")
    return found


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
