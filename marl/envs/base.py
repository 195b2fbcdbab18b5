"""The dict API: what a user writes to describe an env with several agents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from marl.config import Config
from marl.data.task import AgentID, AnySpace, Array
from marl.errors import EnvError

# A single agent's observation, action or info is whatever its space says: the one place where Any is honest.
Obs: TypeAlias = Any
Action: TypeAlias = Any
Info: TypeAlias = dict[str, Any]
Rewards: TypeAlias = dict[AgentID, float]
Flags: TypeAlias = dict[AgentID, bool]

ALL = "__all__"
"""Key of the two flag dicts that ends the episode for everybody."""

ENV_STATE = "state"
"""Key of the global state in a dict observation."""


class StepResult(NamedTuple):
    """What a step led to. A plain five-tuple is fine as well."""

    obs: dict[AgentID, Obs]
    rewards: Rewards
    terminated: Flags
    truncated: Flags
    infos: dict[AgentID, Info]


class EnvContext(dict[str, Any]):
    """The ``env_config`` of one copy of an env, which also knows where this copy lives.

    ``seed`` follows from the run's seed and differs from copy to copy: for what an env draws once, when it is built (episodes
    get seeds of their own by ``reset``). ``remote``: it lives in a Ray actor.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        worker_index: int = 0,
        vector_index: int = 0,
        num_workers: int = 0,
        render_mode: str | None = None,
        run_seed: int = 0,
        remote: bool = False,
    ) -> None:
        super().__init__(config or {})
        drawn = np.random.SeedSequence([run_seed, worker_index, vector_index, 4]).generate_state(1)
        self.seed, self.remote = int(drawn[0] >> 1), remote
        self.worker_index = worker_index
        self.vector_index = vector_index
        self.num_workers = num_workers
        self.render_mode = render_mode  # rgb_array: somebody will ask for pictures; None: nobody will


class MultiAgentEnv(ABC):
    """An env of several agents that speaks dicts.

    * An agent is asked to act next if and only if it is a key of ``obs`` and neither its own flag nor ``"__all__"``
      ended it in this step. ``step`` gets actions of exactly these agents.
    * The observation of an agent that has just ended is its last one. An agent that is truncated without one has no
      value to bootstrap from: its open decision is left out of training and counted.
    * ``"__all__"`` in either flag dict ends the episode. Where an env never uses ``"__all__"``, the episode ends when
      nobody is alive. An agent that is both terminated and truncated, by its own flags or by ``"__all__"``, is terminated.
    * A reward for an agent that did not just act belongs to its last decision; one that arrives after its own end
      counts in its return, not in training.
    * Agents known in advance are listed in ``possible_agents``. Otherwise ``max_agents`` says how many agents of each
      id pattern can be there at once (``{"car_*": 50}``), counting those that end in a step together with those that
      appear in it; spaces are asked for with ``*`` replaced by ``0``.

    Optional: ``state()`` for centralised training, ``render()``, ``close()``, ``set_task(task)`` and ``set_phase(phase)``
    (what to play; told again after a restart), and ``get_state()``/``set_state(state)`` (nested dicts and lists of numbers,
    strings and numpy arrays), with which a run resumes in the middle of an episode; without them the episode's actions are
    replayed from its reset seed. ``chance_outcomes()`` lists everything that chance can do in an episode, as pairs ``(outcome,
    probability)``, and ``reset(options={"chance": outcome})`` plays one of them: then game trees, and NashConv, are exact.
    ``reseed(seed)`` draws what chance has not shown yet anew, for `marl why`; ``action_names(agent)`` names Discrete actions;
    ``scene(viewer=None)`` says how a page draws the env (``marl.envs.scenes``).
    """

    config_class: ClassVar[type[Config] | None] = None
    """The keys of its ``env_config``, which ``marl config ENV`` lists; without one it lists what ``__init__`` takes."""
    possible_agents: tuple[AgentID, ...] = ()
    max_agents: Mapping[str, int] = MappingProxyType({})

    def observation_space(self, agent: AgentID) -> AnySpace:
        """Space of the agent's observations: the same object each time. An attribute will do: one space for all agents, or
        a dict from agents to spaces."""
        raise _without_space(self, "observation_space", agent)

    def action_space(self, agent: AgentID) -> AnySpace:
        """Space of the agent's actions: the same object each time; an attribute will do as well."""
        raise _without_space(self, "action_space", agent)

    @abstractmethod
    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        """Start an episode: observations of the agents that act first, and infos."""

    @abstractmethod
    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        """Play the actions of the agents that were asked."""

    def state(self) -> Array | None:
        """Global state for centralised training, or None."""
        return None

    def render(self) -> Array | str | None:
        """A picture (height x width x 3, uint8), a text, or None."""
        return None

    def close(self) -> None:
        """Free what the env holds."""

    def with_agent_groups(
        self,
        groups: Mapping[str, Sequence[AgentID]],
        obs_space: AnySpace | None = None,
        act_space: AnySpace | None = None,
    ) -> MultiAgentEnv:
        """This env with each group as one agent that plays all its members.

        Its Tuple spaces are inferred; given ones are compared. Algorithms that mix a group's values or show a critic more
        than one agent see the members all the same.
        """
        from marl.envs.wrappers.joint import GroupedEnv  # a MultiAgentEnv itself

        return GroupedEnv(self, groups, obs_space, act_space)


def _without_space(env: MultiAgentEnv, name: str, agent: AgentID) -> EnvError:
    return EnvError(
        f"{type(env).__name__} tells no {name} of agent {agent!r}. Write it as a method, def {name}(self, agent): return "
        f"spaces.Discrete(2), or in __init__: self.{name} = spaces.Discrete(2)."
    )


def ending(agent: AgentID, terminated: Flags, truncated: Flags) -> tuple[bool, bool]:
    """Whether a step terminated and whether it truncated the agent, by its own flags or those of all: never both.

    Terminated wins, whoever said it: where the game is over for all, an agent's own time limit hides nothing any more.
    """
    if terminated.get(agent) or terminated.get(ALL):
        return True, False
    if truncated.get(agent) or truncated.get(ALL):
        return False, True
    return False, False


def state_vector(env: MultiAgentEnv) -> Array:
    """The env's global state as a flat float32 vector; width 0 where it has none."""
    state = env.state()
    if state is None:
        return np.zeros(0, np.float32)
    return np.asarray(state, np.float32).reshape(-1)
