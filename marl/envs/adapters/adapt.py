"""Envs of other libraries as envs of ours, and back."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from marl.envs.adapters.gymnasium import GymnasiumEnv
from marl.envs.adapters.pettingzoo import PettingZooEnv, from_pettingzoo, is_pettingzoo
from marl.envs.base import MultiAgentEnv
from marl.errors import ConfigError


def as_env(env: object, name: str) -> MultiAgentEnv:
    """A ``MultiAgentEnv`` as it is, or the fitting wrapper around an env of another library."""
    if isinstance(env, MultiAgentEnv):
        return env
    if isinstance(env, gym.Env):
        return GymnasiumEnv(env)
    if is_pettingzoo(env):
        return from_pettingzoo(env)
    raise ConfigError(
        f"env {name!r} gave an object of type {type(env).__name__}. Expected a marl.MultiAgentEnv, a marl.BatchedEnv "
        "class, a gymnasium.Env or a PettingZoo env."
    )


def as_foreign(env: object) -> Any:
    """The PettingZoo or Gymnasium env inside an env; our own envs are exported as PettingZoo envs."""
    if isinstance(env, PettingZooEnv | GymnasiumEnv):
        return env.env
    if isinstance(env, MultiAgentEnv):
        from marl.envs.adapters.export import (
            to_pettingzoo,  # which builds envs by name, so it imports what imports this
        )

        return to_pettingzoo(env)
    return env
