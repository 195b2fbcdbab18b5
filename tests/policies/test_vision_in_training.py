"""Images through the whole of a run: the vision net is chosen by the space, acts, learns and comes back."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import marl
from marl.policies.vision import ConvEncoder


class BrightHalf(gym.Env[np.ndarray[Any, Any], int]):
    """One step: say which half of a noisy picture is brighter."""

    observation_space = spaces.Box(0, 255, (12, 12, 1), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
        super().reset(seed=seed)
        self.side = int(self.np_random.integers(2))
        picture = self.np_random.integers(0, 120, (12, 12, 1))
        picture[:, 6 * self.side : 6 * self.side + 6] += 100
        return picture.astype(np.uint8), {}

    def step(self, action: int) -> tuple[np.ndarray[Any, Any], float, bool, bool, dict[str, Any]]:
        return np.zeros((12, 12, 1), np.uint8), float(action == self.side), True, False, {}


KEYS: dict[str, Any] = {
    "env": lambda _: BrightHalf(), "conv_filters": [[4, 4, 2], [8, 3, 2]], "fcnet_hiddens": [16], "num_envs_per_worker": 16,
    "evaluation": {"interval": 0, "episodes": 20},
}  # fmt: skip


@pytest.mark.parametrize(
    ("algo", "more"),
    [
        ("ppo", {"train_batch_size": 256, "sgd_minibatch_size": 64, "lr": 0.003}),
        ("dqn", {"learning_starts": 64, "lr": 0.003, "timesteps_per_iteration": 256, "epsilon_timesteps": 1}),
    ],
)
@pytest.mark.slow
def test_a_policy_learns_to_tell_pictures_apart(algo: str, more: dict[str, Any]) -> None:
    more = dict(more)
    if more.pop("epsilon_timesteps", None):
        more["exploration_config"] = {"type": "EpsilonGreedy", "initial_epsilon": 0.3, "final_epsilon": 0.1}
    with marl.Trainer(algo, config={**KEYS, **more}) as trainer:
        policy: Any = trainer.get_policy()
        assert isinstance(policy.model.vision, ConvEncoder)
        for _ in range(6):
            trainer.train()
        assert trainer.evaluate()["episode_reward_mean"] >= 0.9


def test_without_filters_of_its_own_a_small_picture_gets_a_net_that_fits_it() -> None:
    with marl.Trainer("ppo", config={k: v for k, v in KEYS.items() if k != "conv_filters"}) as trainer:
        policy: Any = trainer.get_policy()
        assert isinstance(policy.model.vision, ConvEncoder)
    with marl.Trainer("ppo", config={**KEYS, "conv_filters": []}) as flat:
        plain: Any = flat.get_policy()
        assert plain.model.vision is None
        assert plain.model.network.weights[0].shape == (16, 144)
