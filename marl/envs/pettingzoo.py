"""PettingZoo's parallel envs as worlds: the dialect is nearly ours, so little is left to do."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from marl.data.task import AgentID, AnySpace, Array
from marl.envs.base import Action, Info, MultiAgentEnv, Obs, StepResult
from marl.errors import ConfigError


class ParallelWorld(MultiAgentEnv):
    """Wraps a PettingZoo ``ParallelEnv``."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.possible_agents = tuple(env.possible_agents)
        self._observation_spaces: dict[AgentID, AnySpace] = {
            agent: env.observation_space(agent) for agent in self.possible_agents
        }
        self._action_spaces: dict[AgentID, AnySpace] = {
            agent: env.action_space(agent) for agent in self.possible_agents
        }

    def observation_space(self, agent: AgentID) -> AnySpace:
        return self._observation_spaces[agent]

    def action_space(self, agent: AgentID) -> AnySpace:
        return self._action_spaces[agent]

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        obs, infos = self.env.reset(seed=seed, options=options)
        return obs, infos

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        return StepResult(*self.env.step(actions))

    def render(self) -> Array | str | None:
        return self.env.render()  # type: ignore[no-any-return]

    def close(self) -> None:
        self.env.close()


def make_pettingzoo(path: str, env_config: Mapping[str, Any]) -> MultiAgentEnv:
    """The world behind ``pettingzoo:family/name_vN``; MPE games live in the package ``mpe2``."""
    module = _module(path)
    if not hasattr(module, "parallel_env"):
        raise ConfigError(
            f"pettingzoo:{path} has no parallel_env: it is turn-based (AEC) only, which is not supported yet."
        )
    return ParallelWorld(module.parallel_env(**env_config))


def _module(path: str) -> ModuleType:
    family, _, name = path.partition("/")
    package = family if family in ("mpe2",) else f"pettingzoo.{family}"
    try:
        return importlib.import_module(f"{package}.{name}")
    except Exception as error:
        raise ConfigError(
            f"pettingzoo:{path} cannot be loaded ({type(error).__name__}: {error}). Expected "
            "pettingzoo:FAMILY/NAME_vN, for instance pettingzoo:mpe2/simple_spread_v3; the family's own packages "
            "must be installed (pip install 'pettingzoo[FAMILY]', or mpe2 for the MPE games)."
        ) from error
