"""An env that costs next to nothing: what is left of the time is marl's own. Any number of agents, any size of observation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.data.task import AgentType, Array, Bools, Floats, Ints, number_seats
from marl.envs.batched import NativeEnv

LENGTH = 25  # steps of an episode, as in the particle games
ACTIONS = 5


class Crowd(NativeEnv):
    """Everybody sees noise, is paid noise and acts in every step. Episodes of the copies end at different times."""

    name = "crowd"
    state_arrays = ("steps",)

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        agents, width = int(env_config["agents"]), int(env_config["obs_size"])
        self.num_envs = num_envs
        names = tuple(f"agent_{i}" for i in range(agents))
        space = spaces.Box(-10, 10, (width,), np.float32)
        self.kinds = number_seats([AgentType("agent", names, space, spaces.Discrete(ACTIONS))])
        rng = np.random.default_rng(0)
        self.noise = [rng.standard_normal((num_envs, agents, width), np.float32) for _ in range(2)]
        self.paid = rng.standard_normal((num_envs, agents), np.float32)
        self.nobody = np.zeros((num_envs, agents), bool)
        self.legal = np.ones((num_envs, agents, 0), bool)
        self.steps = np.full(num_envs, -1, np.int64)  # -1: never reset

    def _start(self, env_ids: Ints, seeds: Ints) -> None:
        del seeds
        never = self.steps[env_ids] < 0
        self.steps[env_ids] = np.where(never, env_ids % LENGTH, 0)

    def _play(self, actions: Sequence[Array]) -> tuple[Floats, Bools, Bools, Bools]:
        del actions
        self.steps += 1
        over = self.steps >= LENGTH
        ended = np.repeat(over[:, None], self.nobody.shape[1], axis=1)
        return self.paid, ended, self.nobody, over

    def _view(self) -> tuple[Sequence[Array], Sequence[Bools], Bools, Floats]:
        seen = self.noise[int(self.steps[0]) % 2]
        return [seen], [self.legal], ~self.nobody, np.zeros((self.num_envs, 0), np.float32)
