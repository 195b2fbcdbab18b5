"""Several agents that each play a copy of the same Gymnasium env, side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from pydantic import Field, PositiveInt

from marl.config import Config
from marl.data.task import AgentID, AnySpace, Array
from marl.envs.adapters.drawing import RENDER_MODE, build
from marl.envs.adapters.masks import beside_mask, mask_size, with_mask
from marl.envs.adapters.permits import check_gymnasium, check_places
from marl.envs.base import Action, EnvContext, Info, MultiAgentEnv, Obs, StepResult


class CopiesConfig(Config):
    """Keys of ``env_config``."""

    env: str = Field("CartPole-v1", description="Gymnasium id of the env that each agent plays.")
    num_agents: PositiveInt = Field(2, description="Copies, one per agent.")
    env_config: dict[str, Any] = Field({}, description="Keywords of the Gymnasium env.")


class GymnasiumCopies(MultiAgentEnv):
    """Agents ``agent_0``, ``agent_1``, ... who do not meet. Each ends by itself; the episode ends with the last one."""

    config_class = CopiesConfig

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        keys = CopiesConfig(**(config or {}))
        check_gymnasium(keys.env)
        check_places(keys.env, keys.env_config, "env_config.env_config")
        inner = EnvContext(keys.env_config, render_mode=getattr(config, RENDER_MODE, None))
        make = partial(gym.make, keys.env)
        self.envs: dict[AgentID, gym.Env[Any, Any]] = {}
        for i in range(keys.num_agents):
            self.envs[f"agent_{i}"] = build(make, inner)
        self.possible_agents = tuple(self.envs)
        self.mask_size = mask_size(self.envs[self.possible_agents[0]])

    def observation_space(self, agent: AgentID) -> AnySpace:
        space = self.envs[agent].observation_space
        if not self.mask_size:
            return space
        return with_mask(space, self.mask_size)

    def action_space(self, agent: AgentID) -> AnySpace:
        return self.envs[agent].action_space

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        seeds: list[int | None] = [None] * len(self.envs)
        if seed is not None:  # one for each: with the same one, all agents would play the same episode
            seeds = np.random.SeedSequence(seed).generate_state(len(self.envs)).tolist()
        given = dict(options) if options else None
        obs: dict[AgentID, Obs] = {}
        infos: dict[AgentID, Info] = {}
        for (agent, env), own_seed in zip(self.envs.items(), seeds, strict=True):
            obs[agent], infos[agent] = env.reset(seed=own_seed, options=given)
        return self._seen(obs, infos), infos

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        obs, rewards, terminated, truncated, infos = StepResult({}, {}, {}, {}, {})
        for agent, action in actions.items():
            obs[agent], reward, terminated[agent], truncated[agent], infos[agent] = self.envs[agent].step(action)
            rewards[agent] = float(reward)
        return StepResult(self._seen(obs, infos), rewards, terminated, truncated, infos)

    def _seen(self, obs: dict[AgentID, Obs], infos: Mapping[AgentID, Info]) -> dict[AgentID, Obs]:
        if not self.mask_size:
            return obs
        seen: dict[AgentID, Obs] = {}
        for agent, value in obs.items():
            seen[agent] = beside_mask(value, infos[agent], self.mask_size)
        return seen

    def render(self) -> Array | None:
        """The copies side by side; None where the env draws no pictures."""
        pictures = [env.render() for env in self.envs.values()]
        arrays = [picture for picture in pictures if isinstance(picture, np.ndarray)]
        if len(arrays) < len(pictures):
            return None
        return np.concatenate(arrays, axis=1)

    def close(self) -> None:
        for env in self.envs.values():
            env.close()


def make_multi_agent(env: str) -> Callable[[Mapping[str, Any]], GymnasiumCopies]:
    """A creator for ``register_env``: ``env_config`` has ``num_agents``, everything else goes to the Gymnasium env."""

    def create(config: Mapping[str, Any]) -> GymnasiumCopies:
        rest = {key: value for key, value in config.items() if key != "num_agents"}
        keys = {"env": env, "num_agents": config.get("num_agents", 2), "env_config": rest}
        return GymnasiumCopies(EnvContext(keys, render_mode=getattr(config, RENDER_MODE, None)))

    return create
