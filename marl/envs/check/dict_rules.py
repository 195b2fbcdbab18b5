"""The contract of a dict env, rule by rule: looks at one answer of ``reset`` or ``step``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.data.task import AgentID, AgentType, AnySpace, Array
from marl.envs.base import ALL, MultiAgentEnv, Obs, StepResult
from marl.envs.check.findings import Findings
from marl.envs.check.space_rules import mismatches, not_finite
from marl.envs.check.traces import arrays_in
from marl.envs.vector.encoding import can_act
from marl.envs.vector.layout import MASK, obs_key, pattern_of
from marl.errors import did_you_mean


class DictRules:
    """What holds for all copies of one dict env."""

    def __init__(self, env: MultiAgentEnv, kinds: Sequence[AgentType], findings: Findings) -> None:
        self.findings = findings
        self.kinds = tuple(kinds)
        self.fixed = bool(env.possible_agents)
        self.names: list[AgentID] = list(env.possible_agents) or list(env.max_agents)
        self.max_agents = dict(env.max_agents)
        self._kind: dict[str, AgentType] = {}  # by agent, or by pattern
        for kind in kinds:
            for name in kind.agents:
                if not self.fixed:
                    name = name.split("[")[0]  # the seats of car_* are called car_*[0], car_*[1], ...
                self._kind[name] = kind
        self._spaces: dict[tuple[str, AgentID], list[AnySpace]] = {}
        self.asked_ever: set[AgentID] = set()

    # -- who -------------------------------------------------------------------------------------------------------

    def seat(self, agent: AgentID) -> str | None:
        """The entry of possible_agents or max_agents that the agent belongs to."""
        if not self.fixed:
            return pattern_of(agent, self.names)
        if agent not in self._kind:
            return None
        return agent

    def kind_of(self, agent: AgentID) -> AgentType:
        return self._kind[self.seat(agent) or agent]

    def known(self, agent: AgentID, part: str, step: int) -> bool:
        if self.seat(agent) is not None:
            return True
        listed = "possible_agents" if self.fixed else "the patterns of max_agents"
        self.findings.add(
            "unknown-agent",
            f"step {step}: {part} name agent {agent!r}, but agent {agent!r} is not in {listed} "
            f"({', '.join(map(str, self.names))}).{did_you_mean(agent, self.names)}",
        )
        return False

    def crowd(self, there: set[AgentID], step: int) -> None:
        """Never more agents of a pattern than it has seats."""
        if self.fixed:
            return
        counts = Counter(self.seat(agent) for agent in there)
        for pattern, seats in self.max_agents.items():
            if counts[pattern] > seats:
                self.findings.add(
                    "too-many-agents",
                    f"step {step}: {counts[pattern]} agents of {pattern!r} are there at once, max_agents says {seats}.",
                )

    # -- observations ----------------------------------------------------------------------------------------------

    def spaces_of(self, env: MultiAgentEnv, agent: AgentID) -> AnySpace:
        """The agent's observation space, after a look at whether it stays the same."""
        for name in ("observation_space", "action_space"):
            space_of = getattr(env, name)
            space = space_of(agent)
            again = space_of(agent)
            known = self._spaces.setdefault((name, agent), [space])  # of one copy each; comparing images takes long
            seen_before = any(space is one for one in known)
            if space is again and seen_before:
                continue
            first = known[0]
            if space != again or space != first:
                self.findings.add("space-changed", f"{name}({agent!r}) changes: {first}, later {again}.")
            elif space is not again:
                self.findings.add("space-new", f"{name}({agent!r}) gives a new object each time.")
            else:
                known.append(space)
        return self._spaces["observation_space", agent][0]

    def observation(self, env: MultiAgentEnv, agent: AgentID, value: Obs, step: int) -> None:
        space = self.spaces_of(env, agent)
        broken: set[str] = set()
        for code, words in mismatches(space, self._without_mask(space, value)):
            broken.add(code)
            said = f"step {step}: the observation of agent {agent!r} is not in its space {space}: {words}."
            self.findings.add(code, said)
        holds_numbers = broken.isdisjoint(("obs-shape", "obs-type"))
        if holds_numbers and not_finite(value):
            self.findings.add("obs-nan", f"step {step}: the observation of agent {agent!r} holds NaN or infinity.")

    def _without_mask(self, space: AnySpace, value: Obs) -> Obs:
        """Masks have rules of their own: a legal one takes its place."""
        if not isinstance(space, spaces.Dict) or obs_key(space) is None:
            return value
        if not isinstance(value, Mapping):
            return value
        mask = space.spaces.get(MASK)
        if mask is None or MASK not in value:
            return value
        everything = np.ones(mask.shape or (), mask.dtype)
        return {**value, MASK: everything}

    def mask(self, env: MultiAgentEnv, agent: AgentID, value: Obs, info: Mapping[str, Any], step: int) -> Array | None:
        """The legal-action mask of an agent, or None."""
        kind = self.kind_of(agent)
        mask = info.get(MASK)
        is_envelope = obs_key(env.observation_space(agent)) is not None
        if is_envelope and isinstance(value, Mapping):
            mask = value.get(MASK, mask)
        if mask is None:
            return None
        if not kind.masked:
            text = f"step {step}: the info of agent {agent!r} holds an action_mask, which its space does not announce."
            self.findings.add("mask-unannounced", text)
            return None
        flat = np.asarray(mask).reshape(-1).astype(bool)
        expected = kind.legal_width
        if flat.size != expected:
            text = f"step {step}: the action_mask of agent {agent!r} has {flat.size} entries, expected {expected}."
            self.findings.add("mask-shape", text)
            return None
        return flat

    def choice(self, agent: AgentID, legal: Array | None, step: int) -> None:
        """An agent that is asked can do something."""
        self.asked_ever.add(agent)
        if legal is None:
            return
        one_row = legal.reshape(1, -1)
        if not can_act(self.kind_of(agent), one_row)[0]:
            self.findings.add("mask-empty", f"step {step}: agent {agent!r} is asked, but its action_mask is empty.")

    def sharing(self, obs: Mapping[AgentID, Obs], step: int) -> None:
        """Whether two agents got one and the same array: what one of them writes, the other would read."""
        owner: dict[int, AgentID] = {}
        for agent, value in obs.items():
            for array in arrays_in(value):
                other = owner.setdefault(id(array), agent)
                if other != agent:
                    text = f"step {step}: agents {other!r} and {agent!r} get the same array object as observation."
                    self.findings.add("obs-shared", text)

    # -- the rest of an answer -------------------------------------------------------------------------------------

    def reward(self, agent: AgentID, reward: Any, step: int) -> float:
        """The reward as a number; 0 where it is none."""
        try:
            amount = float(reward)
        except (TypeError, ValueError):
            self.findings.add("reward-type", f"step {step}: the reward of agent {agent!r} is {reward!r}.")
            return 0.0
        if not np.isfinite(amount):
            self.findings.add("reward-nan", f"step {step}: the reward of agent {agent!r} is {amount}.")
            return 0.0
        return amount

    def flags(self, result: StepResult, step: int) -> None:
        self._flags_of_one_sort("terminated", result.terminated, step)
        self._flags_of_one_sort("truncated", result.truncated, step)
        all_end = truth(result.terminated.get(ALL, False))
        for agent, flag in result.truncated.items():
            ends = all_end or truth(result.terminated.get(agent, False))
            both = ends and truth(flag)
            if not both:
                continue
            who = "the episode" if agent == ALL else f"agent {agent!r}"
            self.findings.add("both-flags", f"step {step}: {who} is terminated and truncated at once.")

    def _flags_of_one_sort(self, name: str, flags: Mapping[AgentID, Any], step: int) -> None:
        for agent, flag in flags.items():
            if agent != ALL:
                self.known(agent, f"{name} flags", step)
            if not isinstance(flag, bool | np.bool_):
                text = f"step {step}: {name}[{agent!r}] is {flag!r} of type {type(flag).__name__}."
                self.findings.add("flag-type", text)

    def infos(self, infos: Mapping[AgentID, Any], step: int) -> None:
        for agent, info in infos.items():
            if not isinstance(info, Mapping | None):
                self.findings.add("info-not-dict", f"step {step}: the info of agent {agent!r} is {info!r}.")


def truth(flag: Any) -> bool:
    """A flag as a bool, also where it is not one."""
    return bool(np.any(flag))  # an array of several has no truth value of its own
