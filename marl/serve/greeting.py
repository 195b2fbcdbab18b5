"""The message hello: who a client is, whether its spaces fit, and which of its episodes are still running."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marl.envs.external.contract import Contract
from marl.serve.desk import Desk
from marl.serve.fit import check_fit, contract_json, new_contract
from marl.serve.messages import HELLO_KEYS, PROTOCOL, check_keys, text
from marl.serve.open_episode import OpenEpisode
from marl.serve.refused import Refused, bad_message, shortly
from marl.serve.sessions import Session


class Greeting:
    """Answers hello."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        self._check(message)
        desk = self.desk
        if desk.stage.contract is None:
            contract = new_contract(message, desk.limits.max_depth)
            desk.write(contract_line(contract))
            with desk.counting():
                desk.stage.agree(contract)
        agents = check_fit(desk.contract, message, desk.limits.max_depth)
        return self._welcome(self._session(message, agents))

    def _check(self, message: Mapping[str, Any]) -> None:
        check_keys("hello", message, HELLO_KEYS)
        if message.get("protocol") != PROTOCOL:
            raise Refused(
                "protocol",
                f"protocol is {shortly(message.get('protocol'))}; this server speaks {PROTOCOL}.",
                where={"key": "protocol"},
                expected=PROTOCOL,
            )
        mode = message.get("mode")
        if mode is not None and mode not in ("remote", "local"):
            raise bad_message(f"mode is {shortly(mode)}; expected remote or local.", key="mode")

    def _session(self, message: Mapping[str, Any], agents: frozenset[str]) -> Session:
        """The session that a client goes on with, or a new one."""
        desk, name = self.desk, None
        if message.get("name") is not None:
            name = text("hello", message, "name")
        session = desk.sessions.named(name)
        if message.get("session") is not None:
            session = desk.sessions.find(message["session"], desk.clock())
        if session is None:
            return self._new_session(name, agents, message.get("mode") or "remote")
        session.touched = desk.clock()
        if agents:
            self._change_agents(session, agents)
        return session

    def _change_agents(self, session: Session, agents: frozenset[str]) -> None:
        if agents == session.agents:
            return
        if session.open_episodes():
            raise Refused(
                "conflict",
                "this session has open episodes with other agents. End them first.",
                409,
            )
        self.desk.write(session_line(session.id, session.name, agents, session.mode))
        session.agents = agents

    def _new_session(self, name: str | None, agents: frozenset[str], mode: str) -> Session:
        desk = self.desk
        desk.sessions.check_room()
        id = desk.sessions.new_id()
        desk.write(session_line(id, name, agents, mode))
        with desk.counting():
            session = desk.sessions.add(id, name, desk.clock())
            session.agents, session.mode = agents, mode
        desk.counters.sessions = len(desk.sessions)
        return session

    def _welcome(self, session: Session) -> dict[str, Any]:
        stage, contract = self.desk.stage, self.desk.contract
        return {
            "session": session.id,
            "protocol": PROTOCOL,
            "policies": stage.policies(),
            "agents": contract_json(contract),
            "state_size": contract.state_size,
            "version": stage.version,
            "lock_step": stage.lock_step,
            "training": stage.training,
            "limits": self.desk.limits.model_dump(),
            "open": [_running(session, episode) for episode in session.open_episodes()],
        }


def contract_line(contract: Contract) -> dict[str, Any]:
    return {"kind": "contract", "agents": contract_json(contract), "state_size": contract.state_size}


def session_line(id: str, name: str | None, agents: frozenset[str], mode: str) -> dict[str, Any]:
    return {"kind": "session", "session": id, "name": name, "agents": sorted(agents), "mode": mode}


def _running(session: Session, episode: OpenEpisode) -> dict[str, Any]:
    """What a client that was killed needs to replay its simulator up to the step that it has to send next."""
    party = episode.members[session.id]
    t, actions = party.next_t, None
    if episode.history is not None:
        t = len(episode.history)
        actions = [episode.part_of(party, step) for step in episode.history]
    return {
        "episode": episode.name,
        "begun": episode.bound,
        "t": t,
        "seed": episode.seed,
        "training": episode.training,
        "parties": episode.parties,
        "actions": actions,
    }
