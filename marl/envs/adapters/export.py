"""Our envs as PettingZoo envs, parallel and turn-based.

PettingZoo fixes three things that our envs leave open, and the exports settle them like this:

* Every agent in ``agents`` has an observation at every parallel step. An agent that the env does not ask gets its
  latest one again (zeros before its first), marked by ``info["marl_stale"]``, and its action is ignored. The turn-based
  export asks only those whom the env asks; the env is stepped when all of them have chosen.
* An agent that ended never comes back in the episode, and all ids are known in advance. Where agents come and go under
  ids that are not known (``max_agents``), every life gets the next id of its pattern, and ``info["agent"]`` tells the
  env's own id. There are ``lives`` ids for each pattern; more agents than that in one episode are an error.
* ``agents`` is empty only when the episode is over. Steps in which nobody is alive are played at once.

A reward for an agent that ended in an earlier step is paid under its id by the parallel export. Turn-based envs must
not pay agents that left: there it is added up in ``late_rewards``, with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv

from marl.data.task import AgentID, AnySpace, Array
from marl.envs.adapters.adapt import as_env
from marl.envs.adapters.pettingzoo import is_pettingzoo
from marl.envs.adapters.pettingzoo_episode import Outcome, Stage
from marl.envs.adapters.pettingzoo_spaces import as_played
from marl.envs.base import Action, Flags, Info, MultiAgentEnv, Obs, Rewards
from marl.envs.chance import hand_on_chance
from marl.envs.registry import EnvCreator, make_env
from marl.envs.tasks import users_env
from marl.errors import ConfigError, EnvError, did_you_mean

RENDER_MODES = {"ansi": str, "rgb_array": np.ndarray}


def to_pettingzoo(
    env: str | EnvCreator | MultiAgentEnv,
    turns: bool = False,
    *,
    env_config: Mapping[str, Any] | None = None,
    lives: int | None = None,
    render_mode: str | None = None,
) -> ParallelExport | TurnBasedExport:
    """Any env as a PettingZoo ``ParallelEnv``, or with ``turns`` as an ``AECEnv``.

    ``env`` is everything that ``env:`` in a scenario may be, or an env that is built already. ``lives`` says how many
    lives each agent, or each pattern of ``max_agents``, can have in an episode: 1 where agents are known in advance, else
    200. ``render_mode`` is ``ansi`` (a text) or ``rgb_array`` (a picture); without it ``render`` gives what the env
    draws.
    """
    if render_mode is not None and render_mode not in RENDER_MODES:
        raise ConfigError(
            f"render_mode is {render_mode!r}.{did_you_mean(render_mode, RENDER_MODES)} Expected ansi, rgb_array or None."
        )
    batched_env, name = _env(env, env_config)
    stage = Stage(batched_env, name, turns, lives)
    if turns:
        return TurnBasedExport(stage, render_mode)
    return ParallelExport(stage, render_mode)


def _env(env: object, env_config: Mapping[str, Any] | None) -> tuple[MultiAgentEnv, str]:
    if isinstance(env, str):
        return make_env(env, env_config), env
    name = type(env).__name__
    if callable(env) and not isinstance(env, MultiAgentEnv):
        return make_env(env, env_config), getattr(env, "__name__", name)
    if not isinstance(env, MultiAgentEnv | gym.Env) and not is_pettingzoo(env):
        raise ConfigError(
            f"to_pettingzoo got an object of type {name}: {env!r:.80}. Expected the name of an env, a marl.MultiAgentEnv, or "
            "a class or function that makes one."
        )
    if env_config:
        raise ConfigError(
            f"to_pettingzoo got a {name} that is built already together with env_config {dict(env_config)}. Build it with "
            "this config, or give its class or name."
        )
    return as_env(env, name), name


class Export:
    """What both exports share: spaces, state, pictures, seeds."""

    def __init__(self, stage: Stage, render_mode: str | None) -> None:
        self.stage = stage
        self.exported = stage.env  # a name that no other env has: see tasks.method_behind
        self.possible_agents = list(stage.action_spaces)
        self.agents: list[AgentID] = []
        self.render_mode = render_mode
        self.metadata: dict[str, Any] = {"name": stage.name, "render_modes": list(RENDER_MODES)}
        self.np_random = np.random.default_rng()
        self._started = False
        hand_on_chance(self, "exported")
        state = self._first_state()
        if state is not None:
            self.state_space = spaces.Box(-np.inf, np.inf, state.shape, np.float32)

    @property
    def users_env(self) -> Any:
        """The env that is exported."""
        return users_env(self.exported)

    def _first_state(self) -> Array | None:
        """An env may need a reset before it can tell its state."""
        if type(self.exported).state is MultiAgentEnv.state:
            return None
        try:
            state = self.exported.state()
        except Exception:
            state = None
        if state is None:
            self.stage.start(0, None)
            state = self.exported.state()
        if state is None:
            return None
        return np.asarray(state)

    def observation_space(self, agent: AgentID) -> AnySpace:
        return self.stage.observation_spaces[agent]

    def action_space(self, agent: AgentID) -> AnySpace:
        return self.stage.action_spaces[agent]

    def state(self) -> Array:
        """The env's global state; an error where it has none."""
        state = self.exported.state()
        if state is None:
            raise NotImplementedError(f"{self.stage.name} has no global state")
        return np.array(state, np.float32)

    def render(self) -> Array | str | None:
        picture = self.exported.render()
        if self.render_mode is None:
            return picture
        if not isinstance(picture, RENDER_MODES[self.render_mode]):
            drawn = "nothing" if picture is None else f"a {type(picture).__name__}"
            raise EnvError(
                f"env {self.stage.name!r} was exported with render_mode {self.render_mode!r}, but it draws {drawn}. Leave "
                "render_mode out."
            )
        return picture

    def close(self) -> None:
        self.exported.close()

    def _start(self, seed: int | None, options: Mapping[str, Any] | None) -> Outcome:
        """Begin an episode; without a seed the last one given decides this episode as well."""
        self._started = True
        if seed is None:
            drawn = int(self.np_random.integers(2**31))
            return self.stage.start(drawn, options)
        self.np_random = np.random.default_rng(seed)
        outcome = self.stage.start(seed, options)
        # PettingZoo's tools seed the spaces of env.agents, and sample from those of agents that come later as well.
        self.stage.seed_spaces_of_latecomers(seed)
        return outcome

    def _checked(self, agent: AgentID, action: Action) -> Action:
        return as_played(self.stage.action_spaces[agent], action, agent)

    def _check_started(self) -> None:
        if not self._started:
            raise EnvError(f"env {self.stage.name!r}: step was called before reset. Call reset first.")


class ParallelExport(Export, ParallelEnv):  # type: ignore[misc]
    """An env as a ``ParallelEnv``: one step is one step of the env, as long as anybody is alive.

    Actions of agents that the env does not ask, or that have ended, may be given and are ignored.
    """

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        self._start(seed, options)
        self.agents = self.stage.agents
        return {a: self.stage.look(a) for a in self.agents}, {a: self.stage.infos[a] for a in self.agents}

    def step(
        self, actions: Mapping[AgentID, Action]
    ) -> tuple[dict[AgentID, Obs], Rewards, Flags, Flags, dict[AgentID, Info]]:
        stage = self.stage
        self._check_started()
        if not self.agents:  # as PettingZoo's own envs do after the end
            return {}, {}, {}, {}, {}
        wrong = self._wrong_actions(actions)
        if wrong:
            raise EnvError(
                f"env {stage.name!r}, step {stage.steps}: got {wrong}. Expected one of each of env.agents: "
                f"{', '.join(self.agents)}."
            )
        outcome = stage.play({a: self._checked(a, actions[a]) for a in stage.asked})
        self.agents = stage.agents
        there = list(outcome.rewards)
        return (
            {a: stage.look(a) for a in there},
            {**outcome.rewards, **outcome.late},
            {a: outcome.terminated[a] for a in there},
            {a: outcome.truncated[a] for a in there},
            {a: stage.infos[a] for a in there},
        )

    def _wrong_actions(self, actions: Mapping[AgentID, Action]) -> str:
        """The first action too many or else the first that is missing; empty: all are there."""
        for agent in actions:
            if agent not in self.stage.action_spaces:
                return f"an action of {agent!r}, which is no agent of it"
        for agent in self.stage.asked:
            if agent not in actions:
                return f"no action of {agent!r}"
        return ""


class TurnBasedExport(Export, AECEnv):  # type: ignore[misc]
    """An env as an ``AECEnv``: those whom the env asks choose one after the other, then it is stepped.

    Agents that ended take their empty turn first, as PettingZoo wants it.
    """

    def __init__(self, stage: Stage, render_mode: str | None) -> None:
        super().__init__(stage, render_mode)
        self.metadata["is_parallelizable"] = False  # not everybody is asked; the parallel export is better anyway
        self.late_rewards: Rewards = {}  # of this episode
        self.rewards: Rewards = {}
        self.terminations: Flags = {}
        self.truncations: Flags = {}
        self.infos: dict[AgentID, Info] = {}
        self.agent_selection: AgentID = ""
        self._cumulative_rewards: Rewards = {}
        self._turns: list[AgentID] = []
        self._chosen: dict[AgentID, Action] = {}

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        self.late_rewards = {}
        self._cumulative_rewards = {}
        self._chosen = {}
        self._take(self._start(seed, options))
        self.agent_selection = self._turns[0]

    def observe(self, agent: AgentID) -> Obs:
        return self.stage.look(agent)

    def step(self, action: Action) -> None:
        self._check_started()
        agent = self.agent_selection
        if not self.agents:
            raise EnvError(f"env {self.stage.name!r}: the episode is over. Call reset.")
        if self.terminations[agent] or self.truncations[agent]:
            self._leave(agent, action)
        else:
            self._chosen[agent] = self._checked(agent, action)
            self._cumulative_rewards[agent] = 0.0
            self.rewards = dict.fromkeys(self.agents, 0.0)
            self._turns.remove(agent)
            if not self._turns:  # the last of those whom the env asks has chosen
                chosen, self._chosen = self._chosen, {}
                self._take(self.stage.play(chosen))
        if self._turns:
            self.agent_selection = self._turns[0]

    def _leave(self, agent: AgentID, action: Action) -> None:
        if action is not None:
            raise EnvError(f"agent {agent!r} has ended, but got the action {action!r}. Step it with None.")
        self.agents.remove(agent)
        self._turns.remove(agent)
        for column in (self.terminations, self.truncations, self.infos, self._cumulative_rewards):
            del column[agent]
        self.rewards = dict.fromkeys(self.agents, 0.0)

    def _take(self, outcome: Outcome) -> None:
        self.agents = list(outcome.rewards)
        self.rewards = dict(outcome.rewards)
        # PettingZoo pays an agent in its next turn all that it has earned since its last one.
        earned_before = self._cumulative_rewards
        self._cumulative_rewards = {}
        self.terminations = {}
        self.truncations = {}
        self.infos = {}
        self._turns = []
        for agent, reward in self.rewards.items():
            self._cumulative_rewards[agent] = earned_before.get(agent, 0.0) + reward
            self.terminations[agent] = outcome.terminated.get(agent, False)
            self.truncations[agent] = outcome.truncated.get(agent, False)
            self.infos[agent] = self.stage.infos[agent]
            if self.terminations[agent] or self.truncations[agent]:
                self._turns.append(agent)
        self._turns += self.stage.asked
        for agent, reward in outcome.late.items():
            warnings.warn(
                f"agent {agent!r} was paid {reward} after it had left; the turn-based export adds it to late_rewards.",
                stacklevel=3,
            )
            self.late_rewards[agent] = self.late_rewards.get(agent, 0.0) + reward
