"""A group played as one agent: one policy sees what all members see and acts for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import numpy as np
from gymnasium import spaces

from marl.data.actions import columns_of
from marl.data.agent_ids import text_id
from marl.data.task import AgentID, AnySpace, Array, GroupID
from marl.envs.adapters.plain import plain
from marl.envs.base import ENV_STATE, Action, Flags, Info, MultiAgentEnv, Obs, Rewards, StepResult, ending
from marl.envs.batched import State
from marl.envs.vector.layout import MASK, inner_space, obs_key
from marl.envs.wrapper import EnvWrapper
from marl.errors import ConfigError, SpaceMismatchError, did_you_mean

Value = TypeVar("Value")


class GroupedEnv(EnvWrapper):
    """An env in which each group is one agent of the group's name; agents outside of groups stay as they are.

    Its spaces are Tuples of the members' spaces, in their order. The group is asked when any member is asked; the part of
    a member that is not there is zeros (or what its space has nearest to them), and its part of the action is not
    played. The group's reward is the sum of its members' rewards. It ends when its last living member ends: truncated if
    anyone was truncated in that step.
    """

    def __init__(
        self, env: MultiAgentEnv, groups: Mapping[GroupID, Sequence[AgentID]],
        obs_space: AnySpace | None = None, act_space: AnySpace | None = None,
    ) -> None:  # fmt: skip
        env = plain(env)
        super().__init__(env)
        self.groups: dict[GroupID, tuple[AgentID, ...]] = {}
        for group, members in groups.items():
            self.groups[group] = _expanded(env, members)
        self.group_of = _who_is_where(env, self.groups)
        names = [self.group_of.get(agent, agent) for agent in env.possible_agents]
        self.possible_agents = tuple(dict.fromkeys(names))
        self.max_agents = {}
        if not self.possible_agents:
            self.max_agents = self._seats_of_patterns()
        self._parts: dict[GroupID, list[_Part]] = {}
        self._spaces: dict[GroupID, tuple[AnySpace, AnySpace]] = {}  # what is observed, what is done
        for group, members in self.groups.items():
            self._parts[group] = [_part(env, member) for member in members]
            self._spaces[group] = self._joined_spaces(group)
        self._alive: set[AgentID] = set()
        if obs_space is not None:
            self._check_given("obs_space", obs_space, self.observation_space)
        if act_space is not None:
            self._check_given("act_space", act_space, self.action_space)

    def _seats_of_patterns(self) -> dict[AgentID, int]:
        """How many there may be at once: of a group one, of the others as many as the env has."""
        seats: dict[AgentID, int] = {}
        for name, number in self.env.max_agents.items():
            if name in self.group_of:
                seats[self.group_of[name]] = 1
            else:
                seats[name] = number
        return seats

    # -- spaces ----------------------------------------------------------------------------------------------------

    def _joined_spaces(self, group: GroupID) -> tuple[AnySpace, AnySpace]:
        members = self.groups[group]
        actions = spaces.Tuple([self.env.action_space(member) for member in members])
        views: list[AnySpace] = []
        any_masked = False
        state_space: AnySpace | None = None
        for member in members:
            space = self.env.observation_space(member)
            view, masked = inner_space(space)
            views.append(view)
            any_masked = any_masked or masked
            if obs_key(space) is not None and isinstance(space, spaces.Dict):
                state_space = space.spaces.get(ENV_STATE, state_space)
        beside: dict[str, AnySpace] = {}
        if any_masked:
            beside[MASK] = spaces.MultiBinary(columns_of(actions).options)
        if state_space is not None:
            beside[ENV_STATE] = state_space
        observation = spaces.Tuple(views)
        if not beside:
            return observation, actions
        return spaces.Dict({"observation": observation, **beside}), actions

    def _check_given(self, what: str, given: AnySpace, space_of: Callable[[GroupID], AnySpace]) -> None:
        """A space that the user wrote down has to be the one that follows from the members."""
        for group in self.groups:
            own = space_of(group)
            if given != own:
                raise SpaceMismatchError(
                    f"with_agent_groups: {what} = {given}, but the members of group {group!r} have "
                    f"{own}. Leave {what} out: it is inferred."
                )

    def observation_space(self, agent: AgentID) -> AnySpace:
        if agent not in self.groups:
            return self.env.observation_space(agent)
        observation, _ = self._spaces[agent]
        return observation

    def action_space(self, agent: AgentID) -> AnySpace:
        if agent not in self.groups:
            return self.env.action_space(agent)
        _, actions = self._spaces[agent]
        return actions

    # -- playing ---------------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        obs, infos = self.env.reset(seed=seed, options=options)
        self._alive = {agent for agent in obs if agent in self.group_of}
        self._asked = set(self._alive)
        return self._join_obs(obs, obs), self._join_infos(infos)

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        obs, rewards, terminated, truncated, infos = self.env.step(self._split(actions))
        self._alive.update(set(obs).intersection(self.group_of))  # also those who appear only now
        ended, cut = self._leaving(terminated, truncated)
        self._alive -= ended
        self._asked = self._alive.intersection(obs)
        group_ended, group_cut = self._join_flags(ended, cut)
        gone: set[GroupID] = set()
        for group in self.groups:
            if group_ended[group] or group_cut[group]:
                gone.add(group)
        # Bootstrapping needs what all see after a truncation; with a part missing it would be a wrong value.
        blind = {self.group_of[agent] for agent in cut.difference(obs)}
        # A group is shown when it is asked, and a last time when it ends (unless the env itself shows no last observation).
        groups_shown = gone - blind
        for agent in self._asked:
            groups_shown.add(self.group_of[agent])
        return StepResult(
            self._join_obs(obs, self._visible(obs, groups_shown)),
            self._join_rewards(rewards),
            self._outside(terminated) | group_ended,
            self._outside(truncated) | group_cut,
            self._join_infos(infos),
        )

    def _leaving(self, terminated: Flags, truncated: Flags) -> tuple[set[AgentID], set[AgentID]]:
        """The members who end in this step, and those of them who are truncated."""
        ended: set[AgentID] = set()
        truncated_now: set[AgentID] = set()
        for agent in self._alive:
            ends, cut = ending(agent, terminated, truncated)
            if ends or cut:
                ended.add(agent)
            if cut:
                truncated_now.add(agent)
        return ended, truncated_now

    def _visible(self, obs: Mapping[AgentID, Obs], groups_shown: set[GroupID]) -> dict[AgentID, Obs]:
        """What those see who are in one of these groups or in none."""
        visible: dict[AgentID, Obs] = {}
        for agent, seen in obs.items():
            group = self.group_of.get(agent)
            if group is None or group in groups_shown:
                visible[agent] = seen
        return visible

    def _outside(self, values: Mapping[AgentID, Value]) -> dict[AgentID, Value]:
        """The entries of agents that are in no group."""
        return {agent: value for agent, value in values.items() if agent not in self.group_of}

    def _split(self, actions: Mapping[AgentID, Action]) -> dict[AgentID, Action]:
        """Each asked member's part of its group's action."""
        split: dict[AgentID, Action] = {}
        for agent, action in actions.items():
            if agent not in self.groups:
                split[agent] = action
                continue
            for member, part in zip(self.groups[agent], action, strict=True):
                if member in self._asked:
                    split[member] = part
        return split

    def _join_obs(self, obs: Mapping[AgentID, Obs], shown: Mapping[AgentID, Obs]) -> dict[AgentID, Obs]:
        views: dict[AgentID, Obs] = {}
        for agent in shown:
            group = self.group_of.get(agent)
            if group is not None and group not in views:
                views[group] = self._team_view(group, obs)
        return self._outside(shown) | views

    def _team_view(self, group: GroupID, obs: Mapping[AgentID, Obs]) -> Obs:
        views: list[Obs] = []
        masks: list[Array] = []
        state: Obs = None
        for part in self._parts[group]:
            view, mask = part.nothing, part.everything
            if part.member in obs:
                view = obs[part.member]
                if part.masked and part.member in self._asked:  # the mask of an agent that just ended may allow nothing
                    mask = np.asarray(view[MASK], np.int8)
                if part.key is not None:
                    state = view.get(ENV_STATE, state)
                    view = view[part.key]
            views.append(view)
            masks.append(mask)
        own = self.observation_space(group)
        if not isinstance(own, spaces.Dict):
            return tuple(views)
        joined: dict[str, Obs] = {"observation": tuple(views)}
        if MASK in own.spaces:
            joined[MASK] = np.concatenate(masks)
        if ENV_STATE in own.spaces:
            joined[ENV_STATE] = state
        return joined

    def _join_rewards(self, rewards: Rewards) -> Rewards:
        joined: Rewards = {}
        for agent, reward in rewards.items():
            name = self.group_of.get(agent, agent)
            joined[name] = joined.get(name, 0.0) + float(reward)
        return joined

    def _join_flags(self, ended: set[AgentID], cut: set[AgentID]) -> tuple[Flags, Flags]:
        """Whether each group terminates and whether it is truncated now, after its ``ended`` members were taken out."""
        group_ended: Flags = {}
        group_cut: Flags = {}
        for group, members in self.groups.items():
            group_ended[group] = False
            group_cut[group] = False
            if ended.isdisjoint(members):
                continue
            nobody_stays = self._alive.isdisjoint(members)
            if nobody_stays:
                any_cut = not cut.isdisjoint(members)
                group_ended[group] = not any_cut
                group_cut[group] = any_cut
        return group_ended, group_cut

    def _join_infos(self, infos: Mapping[AgentID, Info]) -> dict[AgentID, Info]:
        joined: dict[AgentID, Info] = {}
        for agent, info in infos.items():
            if agent in self.group_of:
                joined.setdefault(self.group_of[agent], {})[agent] = info
            else:
                joined[agent] = info
        return joined

    # -- resuming ----------------------------------------------------------------------------------------------------

    def pack_state(self, inside: State) -> State:
        return {"env": inside, "alive": sorted(self._alive), "asked": sorted(self._asked)}

    def unpack_state(self, state: State) -> State:
        self._alive = set(state["alive"])
        self._asked = set(state["asked"])
        return state["env"]


def _known(env: MultiAgentEnv) -> list[AgentID]:
    """Agents that are known in advance; an env without ``possible_agents`` may name some beside its patterns."""
    if env.possible_agents:
        return list(env.possible_agents)
    return [name for name in env.max_agents if "*" not in name]


def _expanded(env: MultiAgentEnv, members: Sequence[AgentID]) -> tuple[AgentID, ...]:
    """Patterns such as ``agent_*`` replaced by the agents that they match."""
    known = _known(env)
    found: list[AgentID] = []
    for member in map(text_id, members):
        matching = [agent for agent in known if fnmatchcase(agent, member)]
        if not matching:  # refused later, with the names that there are
            matching = [member]
        found += matching
    return tuple(found)


def _who_is_where(env: MultiAgentEnv, groups: Mapping[GroupID, Sequence[AgentID]]) -> dict[AgentID, GroupID]:
    """Agent to group; every member must be an agent that is known in advance, and in one group only."""
    known = _known(env)
    found: dict[AgentID, GroupID] = {}
    if not groups:
        raise ConfigError("with_agent_groups got no groups. Expected {group: [agent, ...]}.")
    for group, members in groups.items():
        if not members:
            raise ConfigError(
                f"with_agent_groups: group {group!r} has no members. Expected agents: {', '.join(known)}."
            )
        for member in members:
            if member not in known:
                raise ConfigError(
                    f"with_agent_groups: group {group!r} names {member!r}, but to be played as one agent a group needs agents "
                    f"that are known in advance: {', '.join(known) or 'this env has none'}.{did_you_mean(member, known)}"
                )
            if member in found:
                raise ConfigError(f"with_agent_groups: {member!r} is in the groups {found[member]!r} and {group!r}.")
            found[member] = group
        if group in known and group not in members:
            raise ConfigError(
                f"with_agent_groups: {group!r} is the name of an agent as well. Give the group another name."
            )
    return found


def _nothing(space: AnySpace) -> Obs:
    """What stands for the observation of an agent that is not there."""
    if isinstance(space, spaces.Tuple):
        parts = [_nothing(part) for part in space.spaces]
        return tuple(parts)
    if isinstance(space, spaces.Dict):
        named: dict[str, Obs] = {}
        for name, part in space.spaces.items():
            named[name] = _nothing(part)
        return named
    if isinstance(space, spaces.Discrete):
        return int(space.start)
    if isinstance(space, spaces.MultiDiscrete):
        return space.start
    zeros = np.zeros(space.shape or (), space.dtype)
    if isinstance(space, spaces.Box):
        return np.clip(zeros, space.low, space.high)  # 0 may lie outside of the bounds
    return zeros


@dataclass(frozen=True)
class _Part:
    """What has to be known of a member to show it in its group's view."""

    member: AgentID
    key: str | None
    masked: bool
    nothing: Obs
    everything: Array


def _part(env: MultiAgentEnv, member: AgentID) -> _Part:
    space = env.observation_space(member)
    inner, masked = inner_space(space)
    options = columns_of(env.action_space(member)).options
    return _Part(member, obs_key(space), masked, _nothing(inner), np.ones(options, np.int8))
