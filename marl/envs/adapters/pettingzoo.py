"""PettingZoo envs as envs, parallel and turn-based: the dialect is nearly ours."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from marl.data.task import AgentID, AnySpace, Array
from marl.envs.adapters.board_scenes import board_scene
from marl.envs.adapters.card_scenes import card_scene
from marl.envs.adapters.envelopes import has_mask
from marl.envs.adapters.masks import beside_mask, with_mask
from marl.envs.adapters.pettingzoo_episode import STALE
from marl.envs.adapters.pettingzoo_rounds import looks_twice, play_round
from marl.envs.adapters.pettingzoo_spaces import blank
from marl.envs.base import Action, Info, MultiAgentEnv, Obs, StepResult
from marl.envs.chance import hand_on_chance, lists_chance, nothing_random
from marl.envs.tasks import hand_on_tasks, users_env
from marl.envs.vector.layout import MASK
from marl.errors import EnvError

NOT_RANDOM = tuple(f"pettingzoo.classic.{game}." for game in ("chess", "connect_four", "go", "rps", "tictactoe"))


class PettingZooEnv(MultiAgentEnv):
    """What both kinds share: spaces, masks, the global state, rendering.

    Some envs give legal-action masks in ``info["action_mask"]`` instead of the observation. They are found by one reset and
    put beside the observation, where every algorithm sees them. Agents with equal spaces are treated alike, also where only
    the one whose turn it is has a mask.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self.possible_agents = tuple(env.possible_agents)
        self._action_spaces: dict[AgentID, AnySpace] = {}
        self._observation_spaces: dict[AgentID, AnySpace] = {}
        for agent in self.possible_agents:
            self._action_spaces[agent] = env.action_space(agent)
            self._observation_spaces[agent] = env.observation_space(agent)
        self.mask_sizes = self._masks_in_infos(self._first_infos())
        for agent, size in self.mask_sizes.items():
            self._observation_spaces[agent] = with_mask(self._observation_spaces[agent], size)
        self._finished = False
        self._state: Array | None = self._first_state()
        hand_on_tasks(self, "env")
        hand_on_chance(self, "env")
        home = type(env.unwrapped).__module__
        if not lists_chance(self) and home.startswith(NOT_RANDOM):
            # Else solvers would take every seed for another outcome of chance, and grow the same tree over and over.
            self.chance_outcomes = nothing_random

    @property
    def users_env(self) -> Any:
        """The env without its wrappers: what ``foreach_env`` reaches."""
        return users_env(self.env.unwrapped)

    @abstractmethod
    def _first_infos(self) -> Mapping[AgentID, Info]:
        """Infos after a reset."""

    def _masks_in_infos(self, infos: Mapping[AgentID, Info]) -> dict[AgentID, int]:
        """Size of the mask of each agent whose mask comes in the infos, and not in the observation already."""
        both_spaces: dict[AgentID, tuple[AnySpace, AnySpace]] = {}
        for agent in self.possible_agents:
            both_spaces[agent] = (self._observation_spaces[agent], self._action_spaces[agent])
        found: list[tuple[tuple[AnySpace, AnySpace], int]] = []
        for agent, own in both_spaces.items():
            info = infos.get(agent) or {}
            mask = info.get(MASK)
            if mask is None:
                continue
            if not has_mask(*own):
                found.append((own, int(np.size(mask))))
        sizes: dict[AgentID, int] = {}
        for agent, own in both_spaces.items():
            for theirs, size in found:
                if own == theirs:
                    sizes[agent] = size
        return sizes

    def _first_state(self) -> Array | None:
        """The global state after the first reset; None where the env has none."""
        if getattr(self.env, "state_space", None) is None:  # state() itself may be inherited and only raise
            return None
        try:
            return np.asarray(self.env.state(), np.float32)
        except (NotImplementedError, AttributeError):
            return None

    def _all_terminated(self, truncated: Mapping[AgentID, bool]) -> bool:
        some_are_left = getattr(self.env, "agents", True)
        return not some_are_left and not any(truncated.values())

    def _seen(self, agent: AgentID, obs: Obs, info: Info | None) -> Obs:
        size = self.mask_sizes.get(agent)
        if size is None:
            return obs
        return beside_mask(obs, info or {}, size)

    def observation_space(self, agent: AgentID) -> AnySpace:
        return self._observation_spaces[agent]

    def action_space(self, agent: AgentID) -> AnySpace:
        return self._action_spaces[agent]

    def state(self) -> Array | None:
        """The env's own global state, where it has one.

        Some envs cannot tell it any more once everybody has terminated. Nothing is bootstrapped from there, so the state
        before is as good.
        """
        if self._state is not None:
            try:
                self._state = np.asarray(self.env.state(), np.float32)
            except Exception:
                if not self._finished:
                    raise
        return self._state

    def scene(self, viewer: AgentID | None = None) -> Mapping[str, Any] | None:
        """Boards and cards of classic games; None: as ``render`` shows it."""
        bare = self.env.unwrapped
        return board_scene(bare) or card_scene(bare, viewer)

    def render(self) -> Array | str | None:
        picture: Array | str | None = self.env.render()
        return picture

    def close(self) -> None:
        self.env.close()


class PettingZooParallelEnv(PettingZooEnv):
    """A PettingZoo ``ParallelEnv``: everybody acts at once."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._play: Callable[[dict[AgentID, Action]], Any] = env.step
        if looks_twice(env):
            self._play = partial(play_round, env)

    def _first_infos(self) -> Mapping[AgentID, Info]:
        infos: Mapping[AgentID, Info] = self.env.reset(seed=0)[1]
        return infos

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        obs, infos = self.env.reset(seed=seed, options=options)
        self._finished = False
        return self._asked(obs, infos), infos

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        if len(actions) < len(self.env.agents):  # seldom: only where some agents are not asked
            actions = self._completed(actions)
        try:
            obs, rewards, terminated, truncated, infos = self._play(actions)
        except KeyError as error:
            self._explain_latecomer(error, actions)
            raise
        self._finished = self._all_terminated(truncated)
        return StepResult(self._asked(obs, infos), rewards, terminated, truncated, infos)

    def _asked(self, obs: Mapping[AgentID, Obs], infos: Mapping[AgentID, Info]) -> dict[AgentID, Obs]:
        """Without those who are not asked and only see their latest observation again, as exported envs of ours do."""
        asked: dict[AgentID, Obs] = {}
        for agent, value in obs.items():
            info = infos.get(agent)
            is_stale = info and info.get(STALE) is True
            if not is_stale:
                asked[agent] = self._seen(agent, value, info)
        return asked

    def _explain_latecomer(self, error: KeyError, actions: Mapping[AgentID, Action]) -> None:
        """Some wrappers, such as ``black_death_v3``, want actions of agents that they never let anybody see."""
        for agent in self.possible_agents:
            is_missing = error.args == (agent,) and agent not in actions
            if is_missing:
                raise EnvError(
                    f"{type(self.env).__name__} wants an action of agent {agent!r}, who is not in its agents "
                    f"({', '.join(map(str, actions))}). It takes the agents of the reset for all there are, and does not fit "
                    "an env in which others appear later. Leave this wrapper out."
                ) from error

    def _completed(self, actions: dict[AgentID, Action]) -> dict[AgentID, Action]:
        """With blank actions for those who were not asked: wrappers want one of all agents, our export ignores these."""
        completed: dict[AgentID, Action] = {}
        for agent in self.env.agents:
            if agent in actions:
                completed[agent] = actions[agent]
            else:
                completed[agent] = blank(self._action_spaces[agent])
        return completed


class PettingZooTurnBasedEnv(PettingZooEnv):
    """A PettingZoo ``AECEnv``: one agent acts at a time, and all are paid for it.

    Each step plays the agent whose turn it is. Rewards are what this step paid to everybody; agents that ended in it get their
    last observation, and their empty turns are played at once, with what these pay and whom they end. An episode in which one
    terminates while another truncates simply ends.
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
        self._finished = False
        return self._turn(), self._infos()

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        (action,) = actions.values()
        self.env.step(action)
        rewards = dict(self.env.rewards)
        obs, (terminated, truncated) = self._skip_the_dead(rewards)
        self._finished = self._all_terminated(truncated)
        return StepResult({**obs, **self._turn()}, rewards, terminated, truncated, self._infos())

    def _turn(self) -> dict[AgentID, Obs]:
        """The observation of the agent whose turn it is."""
        if not self.env.agents:
            return {}
        agent = self.env.agent_selection
        return {agent: self._seen(agent, self.env.observe(agent), self._info(agent))}

    def _skip_the_dead(
        self, rewards: dict[AgentID, float]
    ) -> tuple[dict[AgentID, Obs], tuple[dict[AgentID, bool], dict[AgentID, bool]]]:
        """Last observations and flags of agents that ended, after playing the empty turns that PettingZoo wants of them.

        An env may end and pay others in such a turn, for instance the last one standing; this pay is added to ``rewards``.
        """
        obs: dict[AgentID, Obs] = {}
        terminated: dict[AgentID, bool] = {}
        truncated: dict[AgentID, bool] = {}
        self._note_the_dead(obs, terminated, truncated)
        while self.env.agents and self.env.agent_selection in self._ended:
            for agent, amount in self._empty_turn().items():
                rewards[agent] = rewards.get(agent, 0.0) + amount
            self._note_the_dead(obs, terminated, truncated)
        return obs, (terminated, truncated)

    def _note_the_dead(
        self, obs: dict[AgentID, Obs], terminated: dict[AgentID, bool], truncated: dict[AgentID, bool]
    ) -> None:
        for agent in self.env.agents:
            if agent in self._ended:
                continue
            is_terminated = bool(self.env.terminations[agent])
            is_truncated = bool(self.env.truncations[agent])
            if is_terminated or is_truncated:
                obs[agent] = self._seen(agent, self.env.observe(agent), self._info(agent))
                terminated[agent] = is_terminated
                truncated[agent] = is_truncated
                self._ended.add(agent)

    def _empty_turn(self) -> dict[AgentID, float]:
        """Play the turn of an agent that ended; what it paid to others.

        Some envs leave the rewards of the step before in ``rewards``. These are not new: they neither differ from what was
        there nor add to what PettingZoo will hand over.
        """
        shown = dict(self.env.rewards)
        owed = dict(self.env._cumulative_rewards)
        self.env.step(None)  # what PettingZoo wants as the action of an agent that has ended
        paid: dict[AgentID, float] = {}
        for agent in self.env.agents:
            reward = self.env.rewards.get(agent, 0.0)
            added = self.env._cumulative_rewards.get(agent, 0.0) - owed.get(agent, 0.0)
            is_new = added or reward != shown.get(agent, 0.0)
            if is_new:
                paid[agent] = added or reward
        return paid

    def _infos(self) -> dict[AgentID, Info]:
        return {agent: self._info(agent) for agent in self.env.agents}


def from_pettingzoo(env: Any) -> MultiAgentEnv:
    """The env around a PettingZoo env of either kind."""
    bare = _without_guards(env)
    if hasattr(bare, "agent_iter"):
        return PettingZooTurnBasedEnv(bare)
    return PettingZooParallelEnv(bare)


def _without_guards(env: Any) -> Any:
    """The env without PettingZoo's outer wrappers that only watch the caller.

    They look for steps before a reset and for actions outside of the space, which our callers never send, and hand every
    attribute through: without them the MPE games are 1.5 times as fast. Wrappers that change anything stay.
    """
    from pettingzoo.utils import wrappers
    from pettingzoo.utils.conversions import aec_to_parallel, aec_to_parallel_wrapper

    if type(env) is aec_to_parallel_wrapper:  # the guards stand inside of the conversion
        return aec_to_parallel(_without_guards(env.aec_env))
    # The very types: a class that inherits from a guard may change something.
    while type(env) in (wrappers.OrderEnforcingWrapper, wrappers.AssertOutOfBoundsWrapper):
        env = env.env
    return env


def is_pettingzoo(env: object) -> bool:
    return hasattr(env, "possible_agents") and hasattr(env, "step") and hasattr(env, "observation_space")
