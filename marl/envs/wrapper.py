"""The base of all wrappers: an env around another one that changes a part of it and leaves the rest as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from marl.data.task import AgentID, AnySpace, Array
from marl.envs.base import Action, Info, MultiAgentEnv, Obs, StepResult
from marl.envs.batched import State
from marl.envs.chance import METHOD as CHANCE_METHOD
from marl.envs.tasks import VERBS, method_behind


class EnvWrapper(MultiAgentEnv):
    """An env that plays ``env`` and by itself changes nothing. Override what your wrapper changes.

    ``get_state``, ``set_state``, ``set_task``, ``set_phase`` and ``chance_outcomes`` are there if the env has them. A
    wrapper that remembers something from step to step overrides ``pack_state`` and ``unpack_state``, so that a run resumes
    in the middle of an episode.
    """

    def __init__(self, env: MultiAgentEnv) -> None:
        self.env = env
        self.possible_agents = env.possible_agents
        self.max_agents = dict(env.max_agents)  # the default of an env cannot be copied with the wrapper
        self._offer_what_the_env_can()

    def observation_space(self, agent: AgentID) -> AnySpace:
        return self.env.observation_space(agent)

    def action_space(self, agent: AgentID) -> AnySpace:
        return self.env.action_space(agent)

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        return self.env.step(actions)

    def state(self) -> Array | None:
        return self.env.state()

    def render(self) -> Array | str | None:
        return self.env.render()

    def close(self) -> None:
        self.env.close()

    def pack_state(self, inside: State) -> State:
        """What ``get_state`` returns, made of the state of the env inside."""
        return inside

    def unpack_state(self, state: State) -> State:
        """Take back what ``pack_state`` added, and return the state of the env inside."""
        return state

    def _offer_what_the_env_can(self) -> None:
        """Others ask whether an env has the optional methods, so a wrapper has only those that the env inside has, too."""
        # By __getattr__ this would be shorter, but a class that has one finds all its attributes more slowly: a hierarchy's
        # step took 8 % longer.
        offers: dict[str, Callable[..., Any]] = {}
        for name in (*VERBS, CHANCE_METHOD):
            if method_behind(self.env, name) is not None:
                offers[name] = partial(self._call_inside, name)
        # Not behind the env inside: what lies further in knows nothing of the memory of those around it.
        if callable(getattr(self.env, "get_state", None)):
            offers["get_state"] = self._get_state
        if callable(getattr(self.env, "set_state", None)):
            offers["set_state"] = self._set_state
        for name, method in offers.items():
            if not hasattr(type(self), name):  # a wrapper may have its own
                setattr(self, name, method)

    def _call_inside(self, name: str, *given: Any) -> Any:
        method = method_behind(self.env, name)
        assert method is not None
        return method(*given)

    def _get_state(self) -> State:
        return self.pack_state(self.env.get_state())  # type: ignore[attr-defined]

    def _set_state(self, state: State) -> None:
        self.env.set_state(self.unpack_state(state))  # type: ignore[attr-defined]


def innermost(env: object) -> object:
    """The env inside of all wrappers of ours."""
    while isinstance(env, EnvWrapper):
        env = env.env
    return env
