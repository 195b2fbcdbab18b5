"""Several agents that each play a copy of the same Gymnasium env, side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from pydantic import Field, PositiveInt

from marl.config import Config
from marl.data.task import AgentID, AnySpace
from marl.envs.base import Action, Info, MultiAgentEnv, Obs, StepResult


class CopiesConfig(Config):
    """Keys of ``env_config``."""

    env: str = Field("CartPole-v1", description="Gymnasium id of the env that each agent plays.")
    num_agents: PositiveInt = Field(2, description="Copies, one per agent.")
    env_config: dict[str, Any] = Field({}, description="Keywords of the Gymnasium env.")


class GymnasiumCopies(MultiAgentEnv):
    """Agents ``agent_0``, ``agent_1``, ... who do not meet. Each ends by itself; the episode ends with the last one."""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        keys = CopiesConfig(**(config or {}))
        self.envs: dict[AgentID, gym.Env[Any, Any]] = {
            f"agent_{i}": gym.make(keys.env, **keys.env_config) for i in range(keys.num_agents)
        }
        self.possible_agents = tuple(self.envs)

    def observation_space(self, agent: AgentID) -> AnySpace:
        return self.envs[agent].observation_space

    def action_space(self, agent: AgentID) -> AnySpace:
        return self.envs[agent].action_space

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        seeds = [None] * len(self.envs) if seed is None else np.random.SeedSequence(seed).generate_state(len(self.envs))
        given = dict(options) if options else None
        pairs = {
            agent: env.reset(seed=None if s is None else int(s), options=given)
            for (agent, env), s in zip(self.envs.items(), seeds, strict=True)
        }
        return {agent: obs for agent, (obs, _) in pairs.items()}, {agent: info for agent, (_, info) in pairs.items()}

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        obs, rewards, terminated, truncated, infos = StepResult({}, {}, {}, {}, {})
        for agent, action in actions.items():
            obs[agent], reward, terminated[agent], truncated[agent], infos[agent] = self.envs[agent].step(action)
            rewards[agent] = float(reward)
        return StepResult(obs, rewards, terminated, truncated, infos)

    def close(self) -> None:
        for env in self.envs.values():
            env.close()


def make_multi_agent(env: str) -> Callable[[Mapping[str, Any]], GymnasiumCopies]:
    """A creator for ``register_env``: ``env_config`` has ``num_agents``, everything else goes to the Gymnasium env."""

    def create(config: Mapping[str, Any]) -> GymnasiumCopies:
        rest = {key: value for key, value in config.items() if key != "num_agents"}
        return GymnasiumCopies({"env": env, "num_agents": config.get("num_agents", 2), "env_config": rest})

    return create
