"""A Gymnasium env is a world with one agent, called ``agent_0``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from marl.data.task import AgentID, AnySpace, Array
from marl.envs.base import Action, Info, MultiAgentEnv, Obs, StepResult

AGENT = "agent_0"


class GymnasiumWorld(MultiAgentEnv):
    """Wraps a single-agent env; nothing of it changes."""

    possible_agents = (AGENT,)

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self.env = env

    def observation_space(self, agent: AgentID) -> AnySpace:
        del agent
        return self.env.observation_space

    def action_space(self, agent: AgentID) -> AnySpace:
        del agent
        return self.env.action_space

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        obs, info = self.env.reset(seed=seed, options=dict(options) if options else None)
        return {AGENT: obs}, {AGENT: info}

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        obs, reward, terminated, truncated, info = self.env.step(actions[AGENT])
        return StepResult({AGENT: obs}, {AGENT: float(reward)}, {AGENT: terminated}, {AGENT: truncated}, {AGENT: info})

    def render(self) -> Array | str | None:
        return self.env.render()  # type: ignore[return-value]

    def close(self) -> None:
        self.env.close()

    def set_task(self, task: object) -> None:
        """Handed on to the env's own ``set_task``."""
        self.env.get_wrapper_attr("set_task")(task)
