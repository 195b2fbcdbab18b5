"""Dict envs in other dialects: spaces that are attributes, agents that are numbers, masks under other names.

Whoever comes from RLlib has envs of this kind. ``plain`` puts a ``PlainEnv`` around them, so that everybody behind it meets
one dialect; an env that speaks it already is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from gymnasium import spaces

from marl.data.agent_ids import text_id
from marl.data.task import AgentID, AnySpace
from marl.envs.adapters.envelopes import Envelope, envelope_of
from marl.envs.base import Action, Info, MultiAgentEnv, Obs, StepResult
from marl.envs.branching import scene_inside
from marl.envs.tasks import users_env
from marl.envs.vector.env_errors import env_failure
from marl.envs.vector.layout import pattern_of
from marl.envs.wrapper import EnvWrapper
from marl.errors import EnvError

Value = TypeVar("Value")


def plain(env: MultiAgentEnv) -> MultiAgentEnv:
    """The env itself, or a ``PlainEnv`` around one that speaks another dialect."""
    if isinstance(env, PlainEnv):
        return env
    try:
        translated = PlainEnv(env)
    except EnvError:
        raise
    except Exception:  # the user's own code: it is asked again where an error is told with its line
        return env
    if translated.changes:
        return translated
    return env


class PlainEnv(EnvWrapper):
    """The env with ids that are texts, spaces that are methods, and masks beside ``observation``."""

    def __init__(self, env: MultiAgentEnv) -> None:
        super().__init__(env)
        own_ids = _ids(env)
        self.possible_agents = tuple(text_id(agent) for agent in own_ids)
        self._own = dict(zip(self.possible_agents, own_ids, strict=True))
        self._text = dict(zip(own_ids, self.possible_agents, strict=True))
        if len(self._own) < len(own_ids):
            raise EnvError(
                f"{type(env).__name__}: its agents {own_ids} become {', '.join(self.possible_agents)}, and two of them are "
                "the same then. Write texts as ids."
            )
        self._observation_spaces: dict[AgentID, AnySpace] = {}
        self._action_spaces: dict[AgentID, AnySpace] = {}
        self._envelopes: dict[AgentID, Envelope | None] = {}
        for name in self.possible_agents or self.max_agents:
            self._ask_spaces(name)

    def _ask_spaces(self, name: AgentID) -> None:
        """The spaces of an agent, or of all agents of a pattern."""
        agent = self._own.get(name, name)
        if isinstance(agent, str):
            agent = agent.replace("*", "0")
        seen = _space(self.env, "observation_space", agent)
        acts = _space(self.env, "action_space", agent)
        envelope = envelope_of(seen, acts)
        self._envelopes[name] = envelope
        if envelope is not None:
            seen = envelope.space
        self._observation_spaces[name] = seen
        self._action_spaces[name] = acts

    @property
    def changes(self) -> bool:
        """Whether anything is different from the env itself."""
        env = self.env
        other_ids = tuple(env.possible_agents) != self.possible_agents
        attributes = not callable(env.observation_space) or not callable(env.action_space)
        if other_ids or attributes:
            return True
        return any(self._envelopes.values())

    @property
    def users_env(self) -> Any:
        """The env that the user wrote: what ``foreach_env`` reaches."""
        return users_env(self.env)

    def _known(self, agent: AgentID) -> AgentID:
        """The agent, or the pattern that it belongs to."""
        if agent in self._action_spaces:
            return agent
        return pattern_of(agent, list(self.max_agents)) or agent

    def observation_space(self, agent: AgentID) -> AnySpace:
        return self._observation_spaces[self._known(agent)]

    def action_space(self, agent: AgentID) -> AnySpace:
        return self._action_spaces[self._known(agent)]

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        given: dict[str, Any] = {}
        if options:  # an env may take no options at all
            given["options"] = options
        answer = self.env.reset(seed=seed, **given)
        if not _dicts(answer, 2):
            return answer  # whoever asked says what is wrong with it, and where
        obs, infos = answer
        return self._opened(obs), self._renamed(infos)

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        played = {self._own.get(agent, agent): action for agent, action in actions.items()}
        answer = self.env.step(played)
        if not _dicts(answer, 5):
            return answer
        obs, rewards, terminated, truncated, infos = answer
        return StepResult(
            self._opened(obs),
            self._renamed(rewards),
            self._renamed(terminated),
            self._renamed(truncated),
            self._renamed(infos),
        )

    def scene(self, viewer: AgentID | None = None) -> Mapping[str, Any] | None:
        """The env's own, asked with the id that the env knows."""
        return scene_inside(self.env, None if viewer is None else self._own.get(viewer, viewer))

    def _renamed(self, values: Mapping[Any, Value]) -> dict[AgentID, Value]:
        return {self._text.get(agent, agent): value for agent, value in values.items()}

    def _opened(self, obs: Mapping[Any, Obs]) -> dict[AgentID, Obs]:
        shown = self._renamed(obs)
        for agent, value in shown.items():
            envelope = self._envelopes.get(self._known(agent))
            if envelope is not None:
                shown[agent] = envelope.opened(agent, value)
        return shown


def _dicts(answer: object, number: int) -> bool:
    """Whether an env answered with so many dicts, each from agents to something."""
    if not isinstance(answer, tuple):
        return False
    if len(answer) != number:
        return False
    return all(isinstance(part, Mapping) for part in answer)


def _ids(env: Any) -> Sequence[Any]:
    """The agents as the env calls them; RLlib's envs say ``_agent_ids`` or ``agents``."""
    if env.possible_agents or env.max_agents:
        return tuple(env.possible_agents)
    for name in ("_agent_ids", "agents"):
        given = getattr(env, name, None)
        if isinstance(given, set | frozenset):
            return sorted(given, key=str)
        if isinstance(given, list | tuple) and given:
            return tuple(given)
    return ()


def _space(env: Any, name: str, agent: Any) -> AnySpace:
    """What the env's method says, or its attribute: one space for all, or a dict from agents to spaces."""
    given = getattr(env, name)
    if callable(given):
        try:
            return given(agent)  # type: ignore[no-any-return]
        except Exception:
            raise  # whoever builds the env says where that was
        except BaseException as error:  # sys.exit() in an env must not end a run without a word
            raise env_failure(error, name, lambda: f"env {type(env).__name__!r}") from error
    by_agent = _by_agent(env, given)
    for key in (agent, str(agent), text_id(agent)):
        if key in by_agent:
            return by_agent[key]
    if isinstance(given, spaces.Space):
        return given
    raise EnvError(
        f"{type(env).__name__}: {name} is {given!r}, which tells no space of agent {agent!r}. Write it as a space, as a dict "
        f"from agents to spaces, or as a method: def {name}(self, agent): return ..."
    )


def _by_agent(env: Any, given: object) -> Mapping[Any, AnySpace]:
    """Spaces by agent. A Dict space is one for all, unless its keys are the agents and nothing else."""
    if isinstance(given, spaces.Dict):
        agents = {str(agent) for agent in _ids(env)}
        if given.spaces.keys() == agents:
            return given.spaces
        return {}
    if isinstance(given, Mapping):
        return given
    return {}
