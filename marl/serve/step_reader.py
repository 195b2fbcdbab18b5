"""Steps that clients report, read against the spaces of their agents or refused by agent, t and key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.data.task import AgentID, Array
from marl.envs.base import ALL, Info
from marl.envs.external.contract import Contract
from marl.envs.external.steps import AgentReport, OwnAction
from marl.errors import did_you_mean
from marl.serve.messages import (
    DETAILS,
    KEYS_OF,
    LONGEST_NAME,
    MASK,
    REPORT_KEYS,
    Report,
    check_depth,
    check_keys,
    flag,
    whole,
)  # fmt: skip
from marl.serve.refused import Refused, bad_message, shortly
from marl.serve.space_codec import Codec, Unfit, codec

OBSERVATION = "observation"
LARGEST_NUMBER = float(np.finfo(np.float32).max)  # rewards are stored as float32


class AgentCodec:
    """How values of one agent, or of all agents of a pattern, are read and written."""

    def __init__(self, contract: Contract, name: str) -> None:
        seen, done = contract.observation_space(name), contract.action_space(name)
        self.action = codec(done)
        self.mask: Codec | None = None  # None: everything is allowed at all times
        self.options, self.first = 0, 0
        if contract.agents[name].action_mask and isinstance(done, spaces.Discrete):
            assert isinstance(seen, spaces.Dict)
            self.mask = codec(seen[MASK])
            self.options, self.first = int(done.n), int(done.start)
            seen = seen[OBSERVATION]
        self.obs = codec(seen)


class StepReader:
    """Reads act, log and end of a contract."""

    def __init__(self, contract: Contract, max_depth: int) -> None:
        self.contract, self.max_depth = contract, max_depth
        self._state = codec(spaces.Box(-np.inf, np.inf, (contract.state_size,), np.float32))
        self._codecs: dict[str | None, AgentCodec] = {}
        for name in contract.agents:
            self._codecs[name] = AgentCodec(contract, name)

    def read(self, kind: str, t: int, message: Mapping[str, Any]) -> Report:
        check_keys(kind, message, KEYS_OF[kind])
        agents = self._agents(kind, t, message.get("agents"))
        seen, ended = _seen(agents), _ended(agents)
        asked: tuple[AgentID, ...] = ()
        if kind != "end":
            asked = tuple(agent for agent in agents if agent in seen and agent not in ended)
        own, version = None, None
        if kind == "log":
            own = self._own(t, message, agents, asked)
            if message.get("version") is not None:
                version = whole(kind, message, "version", 0)
        state = self._read_state(t, message.get("state"))
        wanted = _wanted(t, message.get("want"))
        return Report(kind, t, agents, asked, seen, ended, state, own, version, wanted)

    def actions(self, chosen: Mapping[AgentID, Any], asked: Iterable[AgentID]) -> dict[AgentID, Any]:
        """What the asked agents do, as JSON."""
        written: dict[AgentID, Any] = {}
        for agent in asked:
            written[agent] = self._codec(agent).action.write(chosen[agent])
        return written

    def chosen(self, written: Mapping[AgentID, Any]) -> dict[AgentID, Any]:
        """The inverse of ``actions``."""
        chosen: dict[AgentID, Any] = {}
        for agent, action in written.items():
            chosen[agent] = self._codec(agent).action.read(action)
        return chosen

    def _codec(self, agent: AgentID) -> AgentCodec:
        """Of an agent that is known; raises ``KeyError`` for others."""
        found = self._codecs.get(agent)
        if found is None:
            found = self._codecs[self.contract.name_of(agent)]
        return found

    # -- parts of a message ----------------------------------------------------------------------------------------

    def _agents(self, kind: str, t: int, given: Any) -> dict[AgentID, AgentReport]:
        if given is None and kind == "end":
            return {}
        if not isinstance(given, dict):
            raise bad_message(
                f"agents of {kind} is {shortly(given)}; expected {{agent: {{obs, ...}}}}.", t=t, key="agents"
            )
        agents: dict[AgentID, AgentReport] = {}
        for agent, told in given.items():
            agents[agent] = self._agent(t, agent, told)
        return agents

    def _agent(self, t: int, agent: AgentID, told: Any) -> AgentReport:
        known = self._known(t, agent)
        if not isinstance(told, dict):
            raise bad_message(f"agent {agent!r} is {shortly(told)}; expected {{obs, reward, ...}}.", agent=agent, t=t)
        if not told.keys() <= REPORT_KEYS:
            _refuse_key(t, agent, told)
        reward = 0.0
        if told.get("reward") is not None:
            reward = _number(t, agent, told["reward"], "reward")
        terminated = flag(told.get("terminated"), False, agent=agent, t=t, key="terminated")
        truncated = flag(told.get("truncated"), False, agent=agent, t=t, key="truncated")
        ends = terminated or truncated
        if t == 0 and (reward or ends):
            raise bad_message(
                f"agent {agent!r} has a reward or a flag at t = 0; they come with the step after an action.",
                agent=agent,
                t=t,
            )
        obs = self._obs(t, agent, known, told, ends)
        return AgentReport(obs, reward, terminated, truncated, self._info(t, agent, told.get("info")))

    def _known(self, t: int, agent: AgentID) -> AgentCodec:
        try:
            if len(agent) <= LONGEST_NAME and agent != ALL and "*" not in agent:
                return self._codec(agent)
        except (KeyError, TypeError, AttributeError):  # a stranger, or not even a text
            pass
        known = list(self.contract.agents)
        named = agent[:LONGEST_NAME] if isinstance(agent, str) else shortly(agent)
        raise Refused(
            "unknown_agent",
            f"agent {shortly(agent)} is unknown at t = {t}. Known: {', '.join(known)}.{did_you_mean(agent, known)}",
            where={"agent": named, "t": t},
            expected=known,
        )

    def _obs(self, t: int, agent: AgentID, known: AgentCodec, told: Mapping[str, Any], ends: bool) -> Any:
        given, mask = told.get("obs"), told.get(MASK)
        if mask is not None and known.mask is None:
            raise bad_message(
                f"agent {agent!r} has an action_mask at t = {t}, which its entry does not announce. Leave it out, or say "
                "action_mask: true of this agent.",
                agent=agent, t=t, key=MASK,
            )  # fmt: skip
        if given is None:
            return None
        obs = _read(known.obs, given, t, agent, "obs")
        if known.mask is None:
            return obs
        if mask is None and ends:  # an agent that ended chooses nothing any more
            mask = [1] * known.options
        allowed = _read(known.mask, mask, t, agent, MASK)
        if not ends and not allowed.any():
            raise refused_value(
                Unfit("only zeros", "at least one allowed action, or the end of the agent"), t, agent, MASK
            )
        return {OBSERVATION: obs, MASK: allowed}

    def _info(self, t: int, agent: AgentID, info: Any) -> Info:
        if info is None:
            return {}
        if not isinstance(info, dict) or MASK in info:
            raise bad_message(
                f"info of agent {agent!r} is {shortly(info)} at t = {t}; expected an object without an action_mask, which "
                "stands beside obs.",
                agent=agent, t=t, key="info",
            )  # fmt: skip
        check_depth(info, self.max_depth, agent=agent, t=t, key="info")
        return info

    def _own(
        self, t: int, message: Mapping[str, Any], agents: Mapping[AgentID, AgentReport], asked: tuple[AgentID, ...]
    ) -> dict[AgentID, OwnAction]:
        """What a client did itself: exactly for the agents that are asked, within their space and mask."""
        actions, logp = message.get("actions"), message.get("logp")
        if logp is None:
            logp = {}
        if not isinstance(actions, dict) or actions.keys() != set(asked):
            raise bad_message(
                f"actions of log are {actions!s:.200} at t = {t}; expected one for each of {sorted(asked)}: those with an "
                "obs that have not ended.",
                t=t, key="actions",
            )  # fmt: skip
        if not isinstance(logp, dict) or not logp.keys() <= actions.keys():
            raise bad_message(f"logp of log is {shortly(logp)}; expected {{agent: number}}.", t=t, key="logp")
        own: dict[AgentID, OwnAction] = {}
        for agent in asked:
            action = self._own_action(t, agent, agents[agent], actions[agent])
            own[agent] = OwnAction(action)
            if agent in logp:
                own[agent] = OwnAction(action, _number(t, agent, logp[agent], "logp"))
        return own

    def _own_action(self, t: int, agent: AgentID, report: AgentReport, given: Any) -> Any:
        known = self._codec(agent)
        action = _read(known.action, given, t, agent, "actions")
        if known.mask is not None and not report.obs[MASK][action - known.first]:
            raise refused_value(Unfit(shortly(given), "an action that its action_mask allows"), t, agent, "actions")
        return action

    def _read_state(self, t: int, given: Any) -> Array | None:
        if given is None:
            return None
        if not self.contract.state_size:
            raise bad_message(f"there is a state at t = {t}; state_size is 0. Leave it out.", t=t, key="state")
        state: Array = _read(self._state, given, t, None, "state")
        return state


def _seen(agents: Mapping[AgentID, AgentReport]) -> frozenset[AgentID]:
    seen = set()
    for agent, report in agents.items():
        if report.obs is not None:
            seen.add(agent)
    return frozenset(seen)


def _ended(agents: Mapping[AgentID, AgentReport]) -> frozenset[AgentID]:
    ended = set()
    for agent, report in agents.items():
        if report.terminated or report.truncated:
            ended.add(agent)
    return frozenset(ended)


def _wanted(t: int, want: Any) -> frozenset[str]:
    if want is None:
        return frozenset()
    try:
        wanted = frozenset(want)
    except TypeError:
        wanted = frozenset(("nothing that can be listed",))
    if not isinstance(want, list) or not wanted <= DETAILS:
        raise bad_message(
            f"want is {str(want)!s:.80}; expected a list of {', '.join(sorted(DETAILS))}.", t=t, key="want"
        )
    return wanted


def _number(t: int, agent: AgentID, value: Any, key: str) -> float:
    is_number = type(value) in (int, float)
    if not is_number or not -LARGEST_NUMBER <= value <= LARGEST_NUMBER:  # NaN is not between them either
        raise refused_value(Unfit(shortly(value), "a finite number"), t, agent, key)
    return float(value)


def _read(how: Codec, value: Any, t: int, agent: AgentID | None, key: str) -> Any:
    try:
        return how.read(value)
    except Unfit as unfit:
        raise refused_value(unfit, t, agent, key) from None


def _refuse_key(t: int, agent: AgentID, told: Mapping[str, Any]) -> None:
    key = next(iter(told.keys() - REPORT_KEYS))
    raise bad_message(
        f"agent {agent!r} has the key {shortly(key)} at t = {t}. Known: {', '.join(sorted(REPORT_KEYS))}."
        f"{did_you_mean(key, REPORT_KEYS)}",
        agent=agent, t=t, key=shortly(key),
    )  # fmt: skip


def refused_value(unfit: Unfit, t: int, agent: AgentID | None, key: str) -> Refused:
    """A value that is not in its space, told with the agent, t and the key down to the number."""
    whole_key, whose = f"{key}{unfit.key}", ""
    where = {"t": t, "key": whole_key}
    if agent is not None:
        whose, where["agent"] = f" of agent {agent!r}", agent
    message = f"{whole_key}{whose} at t = {t} is {unfit.got}; expected {unfit.expected}."
    return Refused("space", message, where=where, expected=unfit.expected)
