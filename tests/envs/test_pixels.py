"""Grey frames: sizes, means over areas, stacking, and the key that asks for them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from marl.envs.adapters.adapt import as_env
from marl.envs.wrappers.pixels import GreyFrames
from marl.errors import ConfigError
from marl.scenario.load import compose
from marl.scenario.resolve import resolve


class Screen(gym.Env[Any, Any]):
    """Shows its step number as brightness: step t is an image of (10 t, 20 t, 30 t)."""

    def __init__(self, height: int = 168, width: int = 126, floats: bool = False) -> None:
        high, kind = (1, np.float32) if floats else (255, np.uint8)
        self.observation_space = spaces.Box(0, high, (height, width, 3), kind)
        self.action_space = spaces.Discrete(2)
        self.floats = floats

    def _image(self) -> Any:
        image = np.ones(self.observation_space.shape) * [10 * self.t, 20 * self.t, 30 * self.t]
        return (image / 255).astype(np.float32) if self.floats else image.astype(np.uint8)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 1
        return self._image(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        return self._image(), 0.0, self.t == 8, False, {}


def frames(env: gym.Env[Any, Any], **keys: Any) -> GreyFrames:
    return GreyFrames(as_env(env, "screen"), **keys)


@pytest.mark.parametrize("floats", [False, True])
def test_the_last_four_grey_frames_are_stacked_the_newest_last(floats: bool) -> None:
    env = frames(Screen(floats=floats))
    (agent,) = env.possible_agents
    obs, _ = env.reset(seed=0)
    seen = [obs[agent]]
    for _ in range(4):
        seen.append(env.step({agent: 0}).obs[agent])
    assert {(image.shape, image.dtype.name) for image in seen} == {((84, 84, 4), "uint8")}
    # The mean of (10 t, 20 t, 30 t) is 20 t; before the first frame stands the first frame.
    brightness = [image[40, 40].tolist() for image in seen]
    assert brightness == [[20] * 4, [20, 20, 20, 40], [20, 20, 40, 60], [20, 40, 60, 80], [40, 60, 80, 100]]
    again, _ = env.reset(seed=1)
    assert again[agent][0, 0].tolist() == [20] * 4


def test_a_small_pixel_is_the_mean_over_the_area_that_it_covers() -> None:
    env = frames(Screen(), size=2, frames=1)
    image = np.arange(12, dtype=np.uint8).reshape(3, 4) * 20
    # Rows of 3 pixels in halves: the middle row belongs to both with weight 1/2. Columns of 4 in pairs.
    by_hand = [
        [(1.0 * (0 + 20) + 0.5 * (80 + 100)) / 3, (1.0 * (40 + 60) + 0.5 * (120 + 140)) / 3],
        [(0.5 * (80 + 100) + 1.0 * (160 + 180)) / 3, (0.5 * (120 + 140) + 1.0 * (200 + 220)) / 3],
    ]
    assert env._small(image, spaces.Box(0, 255, (3, 4), np.uint8)).tolist() == np.rint(by_hand).astype(int).tolist()


def test_the_key_deepmind_gives_84_x_84_x_4_and_a_vision_net() -> None:
    setup = resolve(compose({"env": Screen, "preprocessor_pref": "deepmind", "algo": "dqn"}))
    assert setup.task.kinds[0].observation_space == spaces.Box(0, 255, (84, 84, 4), np.uint8)
    assert resolve(compose({"env": Screen, "algo": "dqn"})).task.kinds[0].observation_space.shape == (168, 126, 3)


def test_envs_without_images_refuse_it() -> None:
    with pytest.raises(ConfigError, match="needs images, but agent 'agent_0' sees Box"):
        resolve(compose({"env": "CartPole-v1", "preprocessor_pref": "deepmind"}))
    with pytest.raises(ConfigError, match="1 or more"):
        frames(Screen(), size=0)
