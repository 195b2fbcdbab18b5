"""Images made small, grey and stacked, as the papers on Atari games do it: the wrapper ``grey_frames``.

Every observation that is an image becomes ``size`` x ``size`` bytes of brightness (the mean over the colours), and the agent
sees its last ``frames`` of them side by side as channels, the newest last. Where an agent has seen fewer, its first one stands
for those before. A pixel of the small image is the mean over the area that it covers:

    small = rows @ image @ columns.T,   rows[i, j] = share of pixel row i that lies in image row j

Doing this in the env keeps what is stored and sent small: 28 kB per observation instead of 100 kB per frame.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from marl.data.task import AgentID, AnySpace, Array
from marl.envs.base import Action, Info, MultiAgentEnv, Obs, StepResult
from marl.envs.batched import State
from marl.envs.wrapper import EnvWrapper
from marl.errors import ConfigError

Bytes = NDArray[np.uint8]


class GreyFrames(EnvWrapper):
    """An env of images, seen in ``frames`` grey pictures of ``size`` x ``size`` pixels."""

    def __init__(self, env: MultiAgentEnv, size: int = 84, frames: int = 4) -> None:
        if size < 1 or frames < 1:
            raise ConfigError(f"grey_frames: size {size} and frames {frames} have to be 1 or more.")
        super().__init__(env)
        self.size = size
        self.frames = frames
        self._space = spaces.Box(0, 255, (size, size, frames), np.uint8)
        self._seen: dict[AgentID, Bytes] = {}  # [size, size, frames]
        self._weights: dict[int, NDArray[np.float64]] = {}  # by the length of a side: images of one env are alike
        for name in (*env.possible_agents, *env.max_agents):
            example = name.replace("*", "0")
            _check_image(example, env.observation_space(example))

    def observation_space(self, agent: AgentID) -> AnySpace:  # noqa: ARG002
        return self._space

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        obs, infos = self.env.reset(seed=seed, options=options)
        self._seen = {}
        return self._shown(obs), infos

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        obs, rewards, terminated, truncated, infos = self.env.step(actions)
        shown = self._shown(obs)
        for agent in list(self._seen):
            if terminated.get(agent) or truncated.get(agent):
                del self._seen[agent]  # one that comes back begins anew
        return StepResult(shown, rewards, terminated, truncated, infos)

    def _shown(self, obs: Mapping[AgentID, Obs]) -> dict[AgentID, Obs]:
        for agent, image in obs.items():
            newest = self._small(np.asarray(image), self.env.observation_space(agent))
            before = self._seen.get(agent)
            if before is None:
                before = np.repeat(newest[:, :, None], self.frames, axis=2)
            self._seen[agent] = np.concatenate([before[:, :, 1:], newest[:, :, None]], axis=2)
        return {agent: self._seen[agent] for agent in obs}

    def _small(self, image: Array, space: AnySpace) -> Bytes:
        """``[size, size]`` bytes of brightness."""
        grey = image.astype(np.float64)
        if grey.ndim == 3:
            grey = grey.mean(axis=2)
        height, width = grey.shape
        small = self._areas(height) @ grey @ self._areas(width).T
        if space.dtype != np.uint8:  # floats of 0..1
            small = small * 255
        return np.clip(np.rint(small), 0, 255).astype(np.uint8)

    def _areas(self, length: int) -> NDArray[np.float64]:
        """``[size, length]``: the share of each small pixel that lies in each pixel of a side."""
        if length not in self._weights:
            edges = np.linspace(0, length, self.size + 1)
            first, last = edges[:-1, None], edges[1:, None]
            pixels = np.arange(length)[None]
            covered = np.minimum(last, pixels + 1) - np.maximum(first, pixels)
            self._weights[length] = np.clip(covered, 0, None) / (last - first)
        return self._weights[length]

    def pack_state(self, inside: State) -> State:
        return {"env": inside, "seen": dict(self._seen)}

    def unpack_state(self, state: State) -> State:
        self._seen = {}
        for agent, seen in state["seen"].items():
            self._seen[agent] = np.array(seen, np.uint8)
        return state["env"]


def _check_image(agent: AgentID, space: AnySpace) -> None:
    """Height, width and possibly colours, in bytes or in floats of 0..1."""
    if isinstance(space, spaces.Box) and len(space.shape) in (2, 3):
        if space.dtype == np.uint8:
            return
        if space.low.min() >= 0 and space.high.max() <= 1:
            return
    raise ConfigError(
        f"grey_frames (preprocessor_pref: deepmind) needs images, but agent {agent!r} sees {space}. Expected a Box of shape "
        "(height, width) or (height, width, colours) with bytes or floats of 0 to 1. Drop preprocessor_pref."
    )
