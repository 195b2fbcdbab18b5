"""A Gymnasium env is an env with one agent, called ``agent_0``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from marl.data.task import AgentID, AnySpace, Array
from marl.envs.adapters.masks import beside_mask, mask_size, with_mask
from marl.envs.base import Action, Info, MultiAgentEnv, Obs, StepResult
from marl.envs.chance import hand_on_chance
from marl.envs.tasks import hand_on_tasks, users_env

AGENT = "agent_0"


class GymnasiumEnv(MultiAgentEnv):
    """Wraps a single-agent env. A legal-action mask in its infos is put beside the observation; nothing else changes."""

    possible_agents = (AGENT,)

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self.env = env
        self.mask_size = mask_size(env)
        hand_on_tasks(self, "env")
        hand_on_chance(self, "env")

    @property
    def users_env(self) -> Any:
        """The env without its wrappers: what ``foreach_env`` reaches."""
        return users_env(self.env.unwrapped)

    def observation_space(self, agent: AgentID) -> AnySpace:
        del agent
        space = self.env.observation_space
        if not self.mask_size:
            return space
        return with_mask(space, self.mask_size)

    def action_space(self, agent: AgentID) -> AnySpace:
        del agent
        return self.env.action_space

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        given = dict(options) if options else None
        obs, info = self.env.reset(seed=seed, options=given)
        return {AGENT: self._seen(obs, info)}, {AGENT: info}

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        obs, reward, terminated, truncated, info = self.env.step(actions[AGENT])
        seen = {AGENT: self._seen(obs, info)}
        return StepResult(seen, {AGENT: float(reward)}, {AGENT: terminated}, {AGENT: truncated}, {AGENT: info})

    def _seen(self, obs: Obs, info: Info) -> Obs:
        if not self.mask_size:
            return obs
        return beside_mask(obs, info, self.mask_size)

    def render(self) -> Array | str | None:
        return self.env.render()  # type: ignore[return-value]

    def close(self) -> None:
        self.env.close()
