"""Envs of other libraries as envs of ours, and back."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from marl.envs.adapters.gymnasium import GymnasiumEnv
from marl.envs.adapters.gymnasium_team import GymnasiumTeamEnv, is_team
from marl.envs.adapters.pettingzoo import PettingZooEnv, from_pettingzoo, is_pettingzoo
from marl.envs.adapters.plain import PlainEnv, plain
from marl.envs.base import MultiAgentEnv
from marl.errors import ConfigError


def as_env(env: object, name: str) -> MultiAgentEnv:
    """A ``MultiAgentEnv`` as it is, or the fitting wrapper around an env of another library."""
    if isinstance(env, MultiAgentEnv):
        return plain(env)
    if isinstance(env, gym.Env):
        return plain(GymnasiumTeamEnv(env) if is_team(env) else GymnasiumEnv(env))
    if is_pettingzoo(env):
        return plain(from_pettingzoo(env))
    raise ConfigError(
        f"env {name!r} gave an object of type {type(env).__name__}. Expected a marl.MultiAgentEnv, a marl.BatchedEnv "
        "class, a gymnasium.Env or a PettingZoo env."
    )


def as_foreign(env: object) -> Any:
    """The PettingZoo or Gymnasium env inside an env; our own envs are exported as PettingZoo envs."""
    if isinstance(env, PlainEnv) and isinstance(env.env, PettingZooEnv | GymnasiumEnv):
        env = env.env
    if isinstance(env, PettingZooEnv | GymnasiumEnv):
        return env.env
    if isinstance(env, MultiAgentEnv):
        from marl.envs.adapters.export import (
            to_pettingzoo,  # which builds envs by name, so it imports what imports this
        )

        return to_pettingzoo(env)
    return env


def wraps_foreign(wrapper: object) -> bool:
    """Whether a wrapper is a class of Gymnasium's or PettingZoo's kind, which wants an env of that library."""
    if not isinstance(wrapper, type) or issubclass(wrapper, MultiAgentEnv):
        return False
    packages = {base.__module__.partition(".")[0] for base in wrapper.__mro__}
    return bool(packages & {"gymnasium", "pettingzoo"})
