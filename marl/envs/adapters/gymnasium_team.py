"""A Gymnasium env of several agents: Tuple spaces with one part per agent and a reward for each, as in rware.

Gymnasium has no word for such envs, so a Tuple may also be the spaces of one agent. An env is one of several agents where both
spaces are Tuples of the same length, and either it says so (``n_agents``) or a step pays a list of that length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from gymnasium.wrappers import PassiveEnvChecker

from marl.data.task import AgentID, AnySpace, Array
from marl.envs.base import ALL, Action, Info, MultiAgentEnv, Obs, StepResult
from marl.envs.chance import hand_on_chance
from marl.envs.tasks import hand_on_tasks, users_env
from marl.errors import EnvError

COUNTS = ("n_agents", "num_agents")  # attributes by which such envs say how many agents they have


class GymnasiumTeamEnv(MultiAgentEnv):
    """Agents ``agent_0``, ``agent_1``, ... who act at once."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        self.env = _without_checker(env)
        parts = _parts(env.observation_space)
        self.possible_agents = tuple(f"agent_{i}" for i in range(len(parts)))
        self._observation_spaces: dict[AgentID, AnySpace] = self._by_agent(parts)
        self._action_spaces: dict[AgentID, AnySpace] = self._by_agent(_parts(env.action_space))
        hand_on_tasks(self, "env")
        hand_on_chance(self, "env")

    @property
    def users_env(self) -> Any:
        """The env without its wrappers: what ``foreach_env`` reaches."""
        return users_env(self.env.unwrapped)

    def observation_space(self, agent: AgentID) -> AnySpace:
        return self._observation_spaces[agent]

    def action_space(self, agent: AgentID) -> AnySpace:
        return self._action_spaces[agent]

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        given = None
        if options:
            given = dict(options)
        obs, info = self.env.reset(seed=seed, options=given)
        return self._by_agent(obs), self._infos(info)

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        joint = tuple(actions[agent] for agent in self.possible_agents)
        obs, rewards, terminated, truncated, info = self.env.step(joint)
        paid = {}
        for agent, reward in self._by_agent(rewards).items():
            paid[agent] = float(reward)
        ended, cut = self._over(terminated, truncated)
        return StepResult(self._by_agent(obs), paid, {ALL: ended}, {ALL: cut}, self._infos(info))

    def _by_agent(self, values: Any) -> dict[AgentID, Any]:
        number = _length(values)
        if number != len(self.possible_agents):
            raise EnvError(
                f"env {type(self.env.unwrapped).__name__} gave {values!r} for {len(self.possible_agents)} agents. Its spaces "
                "are Tuples with one part per agent, so give a list with one entry per agent, rewards too."
            )
        return dict(zip(self.possible_agents, values, strict=True))

    def _over(self, terminated: Any, truncated: Any) -> tuple[bool, bool]:
        """Whether the episode has ended or was cut. Flags may be one for all or one per agent: then it is over with the last
        of them, because every part of the action is played in every step, so nobody leaves before the others."""
        ended, cut = self._flags(terminated), self._flags(truncated)
        if all(ended):
            return True, False
        for has_ended, was_cut in zip(ended, cut, strict=True):
            if not has_ended and not was_cut:
                return False, False
        return False, True

    def _flags(self, given: Any) -> list[bool]:
        """One per agent."""
        if _length(given) is None:
            return [bool(given)] * len(self.possible_agents)
        return [bool(flag) for flag in self._by_agent(given).values()]

    def _infos(self, info: Any) -> dict[AgentID, Info]:
        if isinstance(info, Mapping):
            return {agent: dict(info) for agent in self.possible_agents}
        return self._by_agent(info)

    def render(self) -> Array | str | None:
        return self.env.render()  # type: ignore[return-value]

    def close(self) -> None:
        self.env.close()


def is_team(env: gym.Env[Any, Any]) -> bool:
    """Whether a Gymnasium env has several agents; where only its rewards can tell, one step is played to see them."""
    seen, acts = _parts(env.observation_space), _parts(env.action_space)
    if not seen or len(seen) != len(acts):
        return False
    for name in COUNTS:
        number = getattr(env.unwrapped, name, None)
        if isinstance(number, int | np.integer):
            return int(number) == len(seen)
    return _length(_first_reward(env)) == len(seen)


def _first_reward(env: gym.Env[Any, Any]) -> Any:
    """What a step pays. It leaves no seed behind; None where the env fails, which the caller's own step will tell."""
    actions = deepcopy(env.action_space)  # its own generator stays as it was
    actions.seed(0)
    try:
        env.reset(seed=0)
        _, reward, *_ = _without_checker(env).step(actions.sample())
        env.unwrapped.np_random, _ = seeding.np_random()
    except Exception:
        return None
    return reward


def _parts(space: AnySpace) -> Sequence[AnySpace]:
    if isinstance(space, spaces.Tuple):
        return space.spaces
    return ()


def _length(values: Any) -> int | None:
    """Of a list, a tuple or an array with an axis; None of everything else."""
    if isinstance(values, list | tuple):
        return len(values)
    if isinstance(values, np.ndarray) and values.ndim:
        return len(values)
    return None


def _without_checker(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    """Without the wrapper of ``gymnasium.make`` that warns of every reward which is not a single number."""
    if isinstance(env, PassiveEnvChecker):
        return _without_checker(env.env)
    outer: Any = env
    while isinstance(outer, gym.Wrapper):
        if isinstance(outer.env, PassiveEnvChecker):
            outer.env = outer.env.env
        outer = outer.env
    return env
