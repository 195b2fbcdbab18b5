"""An env of which agents see a part only: the wrapper ``keep_entries``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.data.task import AgentID, AnySpace
from marl.envs.base import Action, Info, MultiAgentEnv, Obs, StepResult
from marl.envs.wrapper import EnvWrapper
from marl.errors import ConfigError


class KeepEntries(EnvWrapper):
    """Of every Box observation with one axis only these ``entries`` are shown, in this order: a test of memory."""

    def __init__(self, env: MultiAgentEnv, entries: Sequence[int]) -> None:
        super().__init__(env)
        self.entries = list(entries)
        self._spaces: dict[AgentID, AnySpace] = {}
        for name in (*env.possible_agents, *env.max_agents):
            example = name.replace("*", "0")
            self.observation_space(example)  # what does not fit shows at once

    def observation_space(self, agent: AgentID) -> AnySpace:
        if agent not in self._spaces:
            self._spaces[agent] = self._smaller(agent, self.env.observation_space(agent))
        return self._spaces[agent]

    def _smaller(self, agent: AgentID, space: AnySpace) -> AnySpace:
        if not isinstance(space, spaces.Box) or len(space.shape) != 1:
            raise ConfigError(f"keep_entries needs Box observations with one axis, but agent {agent!r} has {space}.")
        (width,) = space.shape
        fits = len(self.entries) > 0
        for entry in self.entries:
            # A negative place would count from the end, which in YAML is rather a slip than a wish.
            if not isinstance(entry, int) or not 0 <= entry < width:
                fits = False
        if not fits:
            raise ConfigError(
                f"keep_entries: entries {self.entries} do not fit observations of {width} numbers (agent "
                f"{agent!r}). Expected places from 0 to {width - 1}."
            )
        low = space.low[self.entries]
        high = space.high[self.entries]
        return spaces.Box(low, high, dtype=space.dtype.type)

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        obs, infos = self.env.reset(seed=seed, options=options)
        return self._shown(obs), infos

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        obs, rewards, terminated, truncated, infos = self.env.step(actions)
        return StepResult(self._shown(obs), rewards, terminated, truncated, infos)

    def _shown(self, obs: Mapping[AgentID, Obs]) -> dict[AgentID, Obs]:
        shown: dict[AgentID, Obs] = {}
        for agent, seen in obs.items():
            shown[agent] = np.asarray(seen)[self.entries]
        return shown
