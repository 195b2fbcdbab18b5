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
from marl.serve.space_codec import Read, Unfit, reader, writer

OBSERVATION = "observation"
LARGEST_NUMBER = float(np.finfo(np.float32).max)  # rewards are stored as float32


class AgentCodec:
    """How values of one agent, or of all agents of a pattern, are read and written."""

    def __init__(self, contract: Contract, name: str) -> None:
        agent = contract.agents[name]
        seen, self.done = contract.observation_space(name), contract.action_space(name)
        self.masked = agent.action_mask and hasattr(self.done, "n")
        self.first = 0
        if self.masked:
            self.read_mask = reader(seen[MASK])  # type: ignore[index]
            seen = seen[OBSERVATION]  # type: ignore[index]
            self.first = int(self.done.start)  # type: ignore[attr-defined]
        self.options = int(getattr(self.done, "n", 0)) if self.masked else 0
        self.read_obs, self.read_action, self.write_action = reader(seen), reader(self.done), writer(self.done)


class StepReader:
    """Reads act, log and end of a contract."""

    def __init__(self, contract: Contract, max_depth: int) -> None:
        self.contract, self.max_depth = contract, max_depth
        self._read_state: Read | None = None
        if contract.state_size:
            self._read_state = reader(spaces.Box(-np.inf, np.inf, (contract.state_size,), np.float32))
        self._codecs = {name: AgentCodec(contract, name) for name in contract.agents}

    def codec(self, agent: AgentID) -> AgentCodec | None:
        found = self._codecs.get(agent)
        if found is None:
            name = self.contract.name_of(agent)
            if name is not None:
                found = self._codecs[name]
        return found

    def read(self, kind: str, t: int, message: Mapping[str, Any]) -> Report:
        check_keys(kind, message, KEYS_OF[kind])
        agents, asked = self._agents(kind, t, message.get("agents"))
        own, version = None, None
        if kind == "log":
            own = self._own(t, message, agents, asked)
            if message.get("version") is not None:
                version = whole(kind, message, "version", 0)
        state = self._state(kind, t, message.get("state"))
        return Report(kind, t, agents, asked, state, own, version, self._wanted(t, message.get("want")))

    def actions(self, chosen: Mapping[AgentID, Any], asked: Iterable[AgentID]) -> dict[AgentID, Any]:
        """What the asked agents do, as JSON."""
        written: dict[AgentID, Any] = {}
        for agent in asked:
            codec = self.codec(agent)
            assert codec is not None  # it was known when it was asked
            written[agent] = codec.write_action(chosen[agent])
        return written

    def chosen(self, written: Mapping[AgentID, Any]) -> dict[AgentID, Any]:
        """The inverse of ``actions``."""
        found: dict[AgentID, Any] = {}
        for agent, action in written.items():
            codec = self.codec(agent)
            assert codec is not None
            found[agent] = codec.read_action(action)
        return found

    # -- parts of a message ----------------------------------------------------------------------------------------

    def _agents(self, kind: str, t: int, given: Any) -> tuple[dict[AgentID, AgentReport], tuple[AgentID, ...]]:
        if given is None and kind == "end":
            given = {}
        if not isinstance(given, dict):
            raise bad_message(
                f"agents of {kind} is {shortly(given)}; expected {{agent: {{obs, ...}}}}.", t=t, key="agents"
            )
        agents: dict[AgentID, AgentReport] = {}
        asked: list[AgentID] = []
        for agent, told in given.items():
            report = agents[agent] = self._agent(t, agent, told)
            goes_on = not (report.terminated or report.truncated)
            if goes_on and report.obs is not None and kind != "end":
                asked.append(agent)
        return agents, tuple(asked)

    def _agent(self, t: int, agent: AgentID, told: Any) -> AgentReport:
        codec = self._known(t, agent)
        if not isinstance(told, dict):
            raise bad_message(f"agent {agent!r} is {shortly(told)}; expected {{obs, reward, ...}}.", agent=agent, t=t)
        if not told.keys() <= REPORT_KEYS:
            self._refuse_key(t, agent, told)
        reward = self._number(t, agent, told.get("reward", 0.0), "reward")
        terminated = flag(told.get("terminated"), False, agent=agent, t=t, key="terminated")
        truncated = flag(told.get("truncated"), False, agent=agent, t=t, key="truncated")
        if t == 0 and (reward or terminated or truncated):
            raise bad_message(
                f"agent {agent!r} has a reward or a flag at t = 0; they come with the step after an action.",
                agent=agent,
                t=t,
            )
        obs = self._obs(t, agent, codec, told, asked=not (terminated or truncated))
        return AgentReport(obs, reward, terminated, truncated, self._info(t, agent, told.get("info")))

    def _known(self, t: int, agent: AgentID) -> AgentCodec:
        codec = None
        if isinstance(agent, str) and agent != ALL and len(agent) <= LONGEST_NAME:
            codec = self.codec(agent)
        if codec is None or "*" in agent:
            known = list(self.contract.agents)
            raise Refused(
                "unknown_agent",
                f"agent {shortly(agent)} is unknown at t = {t}. Known: {', '.join(known)}.{did_you_mean(agent, known)}",
                where={"agent": shortly(agent), "t": t},
                expected=known,
            )
        return codec

    def _refuse_key(self, t: int, agent: AgentID, told: Mapping[str, Any]) -> None:
        key = next(key for key in told if key not in REPORT_KEYS)
        raise bad_message(
            f"agent {agent!r} has the key {shortly(key)} at t = {t}. Known: {', '.join(sorted(REPORT_KEYS))}."
            f"{did_you_mean(key, REPORT_KEYS)}",
            agent=agent, t=t, key=shortly(key),
        )  # fmt: skip

    def _obs(self, t: int, agent: AgentID, codec: AgentCodec, told: Mapping[str, Any], asked: bool) -> Any:
        given, mask = told.get("obs"), told.get(MASK)
        if mask is not None and not codec.masked:
            raise bad_message(
                f"agent {agent!r} has an action_mask at t = {t}, which its entry does not announce. Leave it out, or say "
                "action_mask: true of this agent.",
                agent=agent, t=t, key=MASK,
            )  # fmt: skip
        if given is None:
            return None
        try:
            obs = codec.read_obs(given)
        except Unfit as unfit:
            raise _unfit(unfit, t, agent, "obs") from None
        if not codec.masked:
            return obs
        return {OBSERVATION: obs, MASK: self._mask(t, agent, codec, mask, asked)}

    def _mask(self, t: int, agent: AgentID, codec: AgentCodec, mask: Any, asked: bool) -> Array:
        if mask is None and not asked:  # an agent that ended chooses nothing any more
            return np.ones(codec.options, np.int8)
        try:
            found: Array = codec.read_mask(mask)
        except Unfit as unfit:
            raise _unfit(unfit, t, agent, MASK) from None
        if asked and not found.any():
            raise _unfit(Unfit("only zeros", "at least one allowed action, or the end of the agent"), t, agent, MASK)
        return found

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
            got = sorted(map(shortly, actions)) if isinstance(actions, dict) else shortly(actions)
            raise bad_message(
                f"actions of log are of {got} at t = {t}; expected one for each of {sorted(asked)}: those with an obs "
                "that have not ended.",
                t=t, key="actions",
            )  # fmt: skip
        if not isinstance(logp, dict) or not logp.keys() <= actions.keys():
            raise bad_message(f"logp of log is {shortly(logp)}; expected {{agent: number}}.", t=t, key="logp")
        return {agent: self._own_action(t, agent, agents[agent], actions[agent], logp.get(agent)) for agent in asked}

    def _own_action(self, t: int, agent: AgentID, report: AgentReport, given: Any, logp: Any) -> OwnAction:
        codec = self._known(t, agent)
        try:
            action = codec.read_action(given)
        except Unfit as unfit:
            raise _unfit(unfit, t, agent, "actions") from None
        if codec.masked and not report.obs[MASK][action - codec.first]:
            raise _unfit(Unfit(shortly(given), "an action that its action_mask allows"), t, agent, "actions")
        if logp is not None:
            logp = self._number(t, agent, logp, "logp")
        return OwnAction(action, logp)

    def _number(self, t: int, agent: AgentID, value: Any, key: str) -> float:
        fits = type(value) in (int, float) and -LARGEST_NUMBER <= value <= LARGEST_NUMBER
        if not fits:
            raise _unfit(Unfit(shortly(value), "a finite number"), t, agent, key)
        return float(value)

    def _state(self, kind: str, t: int, given: Any) -> Array | None:
        if given is None:
            return None
        if self._read_state is None:
            raise bad_message(f"{kind} has a state at t = {t}; state_size is 0. Leave it out.", t=t, key="state")
        try:
            state: Array = self._read_state(given)
        except Unfit as unfit:
            raise _unfit(unfit, t, None, "state") from None
        return state

    def _wanted(self, t: int, want: Any) -> frozenset[str]:
        if want is None:
            return frozenset()
        fits = isinstance(want, list) and all(isinstance(item, str) and item in DETAILS for item in want)
        if not fits:
            raise bad_message(
                f"want is {shortly(want)}; expected a list of {', '.join(sorted(DETAILS))}.", t=t, key="want"
            )
        return frozenset(want)


def _unfit(unfit: Unfit, t: int, agent: AgentID | None, key: str) -> Refused:
    whole_key = f"{key}{unfit.key}"
    whose = "" if agent is None else f" of agent {agent!r}"
    where = {"t": t, "key": whole_key}
    if agent is not None:
        where["agent"] = agent
    message = f"{whole_key}{whose} at t = {t} is {unfit.got}; expected {unfit.expected}."
    return Refused("space", message, where=where, expected=unfit.expected)
