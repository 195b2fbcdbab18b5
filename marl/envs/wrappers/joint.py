"""A group played as one agent: one policy sees what all members see and acts for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.data.actions import columns_of
from marl.data.task import AgentID, AnySpace, Array, GroupID
from marl.envs.base import ALL, ENV_STATE, Action, Flags, Info, MultiAgentEnv, Obs, Rewards, StepResult, ending
from marl.envs.chance import hand_on_chance
from marl.envs.tasks import hand_on_tasks
from marl.envs.vector.layout import MASK, inner_space, obs_key
from marl.errors import ConfigError, SpaceMismatchError, did_you_mean


class GroupedEnv(MultiAgentEnv):
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
        self.env = env
        self.groups = {group: _expanded(env, members) for group, members in groups.items()}
        self.group_of = _who_is_where(env, self.groups)
        names = [self.group_of.get(agent, agent) for agent in env.possible_agents]
        self.possible_agents = tuple(dict.fromkeys(names))
        patterns = {self.group_of.get(p, p): 1 if p in self.group_of else n for p, n in env.max_agents.items()}
        self.max_agents = {} if self.possible_agents else patterns
        self._parts = {group: [_part(env, member) for member in members] for group, members in self.groups.items()}
        self._spaces = {group: self._joined_spaces(group) for group in self.groups}
        self._alive: set[AgentID] = set()
        for what, given, own in (("obs_space", obs_space, 0), ("act_space", act_space, 1)):
            for group in self.groups if given is not None else ():
                if given != self._spaces[group][own]:
                    raise SpaceMismatchError(
                        f"with_agent_groups: {what} = {given}, but the members of group {group!r} have "
                        f"{self._spaces[group][own]}. Leave {what} out: it is inferred."
                    )
        if hasattr(env, "get_state"):  # offered only where the env itself does
            self.get_state = self._get_state
        if hasattr(env, "set_state"):
            self.set_state = self._set_state
        hand_on_tasks(self, "env")
        hand_on_chance(self, "env")

    # -- spaces ----------------------------------------------------------------------------------------------------

    def _joined_spaces(self, group: GroupID) -> tuple[AnySpace, AnySpace]:
        shown = [self.env.observation_space(member) for member in self.groups[group]]
        actions: AnySpace = spaces.Tuple([self.env.action_space(member) for member in self.groups[group]])
        observation: AnySpace = spaces.Tuple([inner_space(space)[0] for space in shown])
        parts: dict[str, AnySpace] = {}
        if any(inner_space(space)[1] for space in shown):
            parts[MASK] = spaces.MultiBinary(columns_of(actions).options)
        for space in shown:
            if obs_key(space) is not None and isinstance(space, spaces.Dict) and ENV_STATE in space.spaces:
                parts[ENV_STATE] = space.spaces[ENV_STATE]
        return (spaces.Dict({"observation": observation, **parts}) if parts else observation), actions

    def observation_space(self, agent: AgentID) -> AnySpace:
        return self._spaces[agent][0] if agent in self.groups else self.env.observation_space(agent)

    def action_space(self, agent: AgentID) -> AnySpace:
        return self._spaces[agent][1] if agent in self.groups else self.env.action_space(agent)

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
        over = bool(terminated.get(ALL, False) or truncated.get(ALL, False))
        self._alive |= {agent for agent in obs if agent in self.group_of}
        ended = {a for a in self._alive if over or terminated.get(a, False) or truncated.get(a, False)}
        blind = {self.group_of[a] for a in ended if a not in obs and not ending(a, terminated, truncated)[0]}
        self._alive -= ended
        self._asked = {agent for agent in obs if agent in self._alive}
        flags = self._join_flags(ended, terminated, truncated)
        gone = {group for group in self.groups if flags[0].get(group, False) or flags[1].get(group, False)}
        # A group is shown when it is asked, and a last time when it ends (unless the env itself shows no last observation).
        asked = {self.group_of[agent] for agent in self._asked}
        shown = {
            a: o for a, o in obs.items() if self.group_of.get(a, a) in asked | (gone - blind) or a not in self.group_of
        }
        return StepResult(self._join_obs(obs, shown), self._join_rewards(rewards), *flags, self._join_infos(infos))

    def _split(self, actions: Mapping[AgentID, Action]) -> dict[AgentID, Action]:
        """Each asked member's part of its group's action."""
        split: dict[AgentID, Action] = {}
        for agent, action in actions.items():
            if agent in self.groups:
                parts = zip(self.groups[agent], action, strict=True)
                split.update({member: part for member, part in parts if member in self._asked})
            else:
                split[agent] = action
        return split

    def _join_obs(self, obs: Mapping[AgentID, Obs], shown: Mapping[AgentID, Obs]) -> dict[AgentID, Obs]:
        joined: dict[AgentID, Obs] = {a: o for a, o in shown.items() if a not in self.group_of}
        for group in dict.fromkeys(self.group_of[a] for a in shown if a in self.group_of):
            joined[group] = self._team_view(group, obs)
        return joined

    def _team_view(self, group: GroupID, obs: Mapping[AgentID, Obs]) -> Obs:
        views, masks, state = [], [], None
        for part in self._parts[group]:
            masks.append(part.everything)
            if part.member not in obs:
                views.append(part.nothing)
                continue
            value = obs[part.member]
            if part.masked and part.member in self._asked:  # the mask of somebody who just ended may allow nothing
                masks[-1] = np.asarray(value[MASK], np.int8)
            if part.key is not None:
                state = value.get(ENV_STATE, state)
                value = value[part.key]
            views.append(value)
        own = self._spaces[group][0]
        if not isinstance(own, spaces.Dict):
            return tuple(views)
        extra: dict[str, Obs] = {MASK: np.concatenate(masks)} if MASK in own.spaces else {}
        return {"observation": tuple(views), **extra, **({ENV_STATE: state} if ENV_STATE in own.spaces else {})}

    def _join_rewards(self, rewards: Rewards) -> Rewards:
        joined: Rewards = {}
        for agent, reward in rewards.items():
            name = self.group_of.get(agent, agent)
            joined[name] = joined.get(name, 0.0) + float(reward)
        return joined

    def _join_flags(self, ended: set[AgentID], terminated: Flags, truncated: Flags) -> tuple[Flags, Flags]:
        ends: Flags = {a: flag for a, flag in terminated.items() if a not in self.group_of}
        cuts: Flags = {a: flag for a, flag in truncated.items() if a not in self.group_of}
        for group, members in self.groups.items():
            leaving = [a for a in members if a in ended]
            last = bool(leaving) and not any(a in self._alive for a in members)
            cut = not all(ending(a, terminated, truncated)[0] for a in leaving)
            ends[group], cuts[group] = last and not cut, last and cut
        return ends, cuts

    def _join_infos(self, infos: Mapping[AgentID, Info]) -> dict[AgentID, Info]:
        joined: dict[AgentID, Info] = {}
        for agent, info in infos.items():
            if agent in self.group_of:
                joined.setdefault(self.group_of[agent], {})[agent] = info
            else:
                joined[agent] = info
        return joined

    # -- the env below -------------------------------------------------------------------------------------------

    def state(self) -> Array | None:
        return self.env.state()

    def render(self) -> Array | str | None:
        return self.env.render()

    def close(self) -> None:
        self.env.close()

    def _get_state(self) -> Any:
        inner: Any = self.env
        return {"env": inner.get_state(), "alive": sorted(self._alive), "asked": sorted(self._asked)}

    def _set_state(self, state: Any) -> None:
        inner: Any = self.env
        inner.set_state(state["env"])
        self._alive, self._asked = set(state["alive"]), set(state["asked"])


def _known(env: MultiAgentEnv) -> list[AgentID]:
    return [*env.possible_agents, *(p for p in env.max_agents if "*" not in p and not env.possible_agents)]


def _expanded(env: MultiAgentEnv, members: Sequence[AgentID]) -> tuple[AgentID, ...]:
    """Patterns such as ``agent_*`` replaced by the agents that they match."""
    found: list[AgentID] = []
    for member in members:
        found += [a for a in _known(env) if fnmatchcase(a, member)] or [member]
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
    """What stands for the observation of somebody who is not there."""
    if isinstance(space, spaces.Tuple):
        return tuple(_nothing(part) for part in space.spaces)
    if isinstance(space, spaces.Dict):
        return {name: _nothing(part) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Discrete):
        return int(space.start)
    if isinstance(space, spaces.MultiDiscrete):
        return space.start
    nothing = np.zeros(space.shape or (), space.dtype)
    return np.clip(nothing, space.low, space.high) if isinstance(space, spaces.Box) else nothing


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
