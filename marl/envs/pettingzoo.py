"""PettingZoo envs as worlds, parallel and turn-based: the dialect is nearly ours."""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.data.task import AgentID, AnySpace, Array
from marl.envs.base import Action, Info, MultiAgentEnv, Obs, StepResult
from marl.envs.layout import MASK
from marl.errors import ConfigError

APART = ("mpe2",)  # families that are packages of their own


class PettingZooWorld(MultiAgentEnv):
    """What both kinds share: spaces, masks, rendering.

    Some envs give legal-action masks in ``info["action_mask"]`` instead of the observation. They are found by one reset and
    put beside the observation, where every algorithm sees them.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self.possible_agents = tuple(env.possible_agents)
        first_infos = self._first_infos()
        self.masks_in_info = {a for a in self.possible_agents if MASK in (first_infos.get(a) or {})}
        self._observation_spaces: dict[AgentID, AnySpace] = {a: self._space(a) for a in self.possible_agents}
        self._action_spaces: dict[AgentID, AnySpace] = {a: env.action_space(a) for a in self.possible_agents}

    @abstractmethod
    def _first_infos(self) -> Mapping[AgentID, Info]:
        """Infos after a reset."""

    def _space(self, agent: AgentID) -> AnySpace:
        space: AnySpace = self.env.observation_space(agent)
        if agent not in self.masks_in_info:
            return space
        mask = spaces.MultiBinary(int(self.env.action_space(agent).n))
        return spaces.Dict({"observation": space, MASK: mask})

    def _seen(self, agent: AgentID, obs: Obs, info: Info) -> Obs:
        if agent not in self.masks_in_info:
            return obs
        size = int(self.env.action_space(agent).n)
        return {"observation": obs, MASK: np.asarray(info.get(MASK, np.ones(size)), np.int8)}

    def observation_space(self, agent: AgentID) -> AnySpace:
        return self._observation_spaces[agent]

    def action_space(self, agent: AgentID) -> AnySpace:
        return self._action_spaces[agent]

    def state(self) -> Array | None:
        """The env's own global state, where it has one."""
        if getattr(self.env, "state_space", None) is None:
            return None
        try:
            return np.asarray(self.env.state(), np.float32)
        except (NotImplementedError, AttributeError):
            return None

    def render(self) -> Array | str | None:
        picture: Array | str | None = self.env.render()
        return picture

    def close(self) -> None:
        self.env.close()


class ParallelWorld(PettingZooWorld):
    """A PettingZoo ``ParallelEnv``: everybody acts at once."""

    def _first_infos(self) -> Mapping[AgentID, Info]:
        infos: Mapping[AgentID, Info] = self.env.reset(seed=0)[1]
        return infos

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        obs, infos = self.env.reset(seed=seed, options=options)
        return {a: self._seen(a, o, infos.get(a) or {}) for a, o in obs.items()}, infos

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        obs, rewards, terminated, truncated, infos = self.env.step(actions)
        seen = {a: self._seen(a, o, infos.get(a) or {}) for a, o in obs.items()}
        return StepResult(seen, rewards, terminated, truncated, infos)


class TurnBasedWorld(PettingZooWorld):
    """A PettingZoo ``AECEnv``: one agent acts at a time, and all are paid for it.

    Each step plays the agent whose turn it is. Rewards are what this step paid to everybody; agents that ended in it get their
    last observation, and their empty turns are played at once. An episode in which one terminates while another truncates
    simply ends.
    """

    def _first_infos(self) -> Mapping[AgentID, Info]:
        self.env.reset(seed=0)
        return self._infos()

    def _info(self, agent: AgentID) -> Info:
        info: Info = self.env.infos.get(agent) or {}
        return info

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        self.env.reset(seed=seed, options=options)
        self._ended: set[AgentID] = set()
        return self._turn(), self._infos()

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        (action,) = actions.values()
        self.env.step(action)
        rewards = {agent: float(reward) for agent, reward in self.env.rewards.items()}
        obs, (terminated, truncated) = self._skip_the_dead()
        return StepResult({**obs, **self._turn()}, rewards, terminated, truncated, self._infos())

    def _turn(self) -> dict[AgentID, Obs]:
        """The observation of the agent whose turn it is."""
        if not self.env.agents:
            return {}
        agent = self.env.agent_selection
        return {agent: self._seen(agent, self.env.observe(agent), self._info(agent))}

    def _skip_the_dead(self) -> tuple[dict[AgentID, Obs], tuple[dict[AgentID, bool], dict[AgentID, bool]]]:
        """Last observations and flags of agents that ended, after playing the empty turns that PettingZoo wants of them."""
        obs: dict[AgentID, Obs] = {}
        terminated: dict[AgentID, bool] = {}
        truncated: dict[AgentID, bool] = {}
        for agent in self.env.agents:
            if agent not in self._ended and (self.env.terminations[agent] or self.env.truncations[agent]):
                obs[agent] = self._seen(agent, self.env.observe(agent), self._info(agent))
                terminated[agent] = bool(self.env.terminations[agent])
                truncated[agent] = bool(self.env.truncations[agent])
                self._ended.add(agent)
        while self.env.agents and self.env.agent_selection in self._ended:
            self.env.step(None)
        return obs, (terminated, truncated)

    def _infos(self) -> dict[AgentID, Info]:
        return {agent: self._info(agent) for agent in self.env.agents}


def from_pettingzoo(env: Any) -> MultiAgentEnv:
    """The world around a PettingZoo env of either kind."""
    return TurnBasedWorld(env) if hasattr(env, "agent_iter") else ParallelWorld(env)


def is_pettingzoo(env: object) -> bool:
    return hasattr(env, "possible_agents") and hasattr(env, "step") and hasattr(env, "observation_space")


def make_pettingzoo(path: str, env_config: Mapping[str, Any]) -> MultiAgentEnv:
    """The world behind ``pettingzoo:family/name_vN``; MPE games live in the package ``mpe2``."""
    return from_pettingzoo(pettingzoo_creator(_module(path), f"pettingzoo:{path}")(**env_config))


def pettingzoo_creator(module: object, name: str) -> Callable[..., Any]:
    """``parallel_env`` of a module, or, where everybody takes turns, its ``env``."""
    for attribute in ("parallel_env", "env"):
        found = getattr(module, attribute, None)
        if callable(found):
            creator: Callable[..., Any] = found
            return creator
    raise ConfigError(f"{name} has neither parallel_env nor env, so it is no PettingZoo env.")


def _module(path: str) -> ModuleType:
    family, _, name = path.partition("/")
    package = family if family in APART else f"pettingzoo.{family}"
    try:
        return importlib.import_module(f"{package}.{name}")
    except Exception as error:
        raise ConfigError(
            f"pettingzoo:{path} cannot be loaded ({type(error).__name__}: {error}). Expected "
            "pettingzoo:FAMILY/NAME_vN, for instance pettingzoo:mpe2/simple_spread_v3; the family's own packages "
            "must be installed (pip install 'pettingzoo[FAMILY]', or mpe2 for the MPE games)."
        ) from error
