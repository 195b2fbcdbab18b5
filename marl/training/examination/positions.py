"""The distinct positions of a run's game, for the methods that work with them; refused early where it would take long."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from marl.data.task import AgentType
from marl.envs.adapters.openspiel import OpenSpielEnv
from marl.envs.batched import BatchedEnv, NativeEnv, StepOutput
from marl.envs.chance import listed_chance
from marl.envs.games.cards.dealt import DealtEnv
from marl.envs.registry import EnvCreator, make_batched_env
from marl.envs.vector.env_errors import close_all
from marl.envs.vector.vector_env import DictVector
from marl.errors import ConfigError
from marl.gametheory.merged.positions import Positions, positions_of
from marl.populations.exploit_config import ExploitabilityConfig

NATIVE_POSITIONS, OTHER_POSITIONS = 2_000_000, 5_000  # looked through without being asked
MOST_BYTES = 400_000_000  # of all states together
MOST_JOINT_ACTIONS = 1_000  # at the start, of all players together


def positions_for(
    env: str | EnvCreator, env_config: Mapping[str, Any] | None, config: ExploitabilityConfig
) -> Positions:
    """All positions of the game that a run plays."""
    copy = make_env(env, env_config, 1)
    try:
        _check_choices(copy.kinds)
        most = config.max_positions or NATIVE_POSITIONS
        if config.method == "auto":
            most = min(most, _worth_looking(copy, config))
    finally:
        close_all([copy], copy.name)
    return positions_of(env, env_config, chance_samples=config.chance_samples, max_positions=most)


def make_env(env: str | EnvCreator, env_config: Mapping[str, Any] | None, num_envs: int) -> BatchedEnv:
    return make_batched_env(env, num_envs, dict(env_config or {}), with_state=False)


def _check_choices(kinds: Sequence[AgentType]) -> None:
    for kind in kinds:
        if kind.columns.numbers or kind.action_shape:
            raise ConfigError("some actions are not a choice among a few, so positions cannot be counted.")


def _worth_looking(env: BatchedEnv, config: ExploitabilityConfig) -> int:
    """How many positions ``method: auto`` looks through; refuses games of which it is clear that there are too many."""
    frame = env.reset(np.zeros(1, np.int64), np.zeros(1, np.int64))
    if not _lists_chance(env) and config.chance_samples is None:
        raise ConfigError("the env does not list its chance, so its positions are not looked through.")
    joint = _joint_actions(env.kinds, frame)
    if joint > MOST_JOINT_ACTIONS:
        raise ConfigError(f"the start alone has {joint:,.0f} joint actions, so its positions are not looked through.")
    if config.max_positions:
        return config.max_positions  # the user knows how much memory there is
    if not isinstance(env, NativeEnv):
        return OTHER_POSITIONS
    width: int = sum(array.nbytes for array in env.get_state().values())
    return max(1, MOST_BYTES // max(1, width))


def _lists_chance(env: BatchedEnv) -> bool:
    if isinstance(env, NativeEnv):
        return isinstance(env, DealtEnv) or env.deterministic
    if not isinstance(env, DictVector):
        return False
    inner = env.envs[0]
    return isinstance(inner, OpenSpielEnv) or listed_chance(inner, env.name) is not None


def _joint_actions(kinds: Sequence[AgentType], frame: StepOutput) -> float:
    """Of those who are asked first; as a float, because it may be larger than any number of an array."""
    found = 1.0
    for number, kind in enumerate(kinds):
        for place in np.flatnonzero(frame.present[0, kind.seats]).tolist():
            count = kind.columns.options
            if kind.masked:
                count = int(frame.legal[number][0, place].sum())
            found *= max(1, count)
    return found if math.isfinite(found) else math.inf
