"""An episode that clients play: its parties, its steps, and what was answered, so that it can be answered again."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from marl.data.task import AgentID, Array
from marl.envs.external.contract import Contract
from marl.envs.external.steps import AgentReport, OwnAction, Step
from marl.serve.lives import Lives
from marl.serve.messages import Report

KEPT_STEPS = 1_000  # of an open episode, whose messages may be sent again
KEPT_AFTER_END = 8  # of an episode that is over
LONGEST_HISTORY = 10_000  # steps of an episode that a client which was killed can replay

Waiter: TypeAlias = "asyncio.Future[dict[str, Any]]"


@dataclass(slots=True)
class Party:
    """A session that plays in an episode."""

    session: str
    agents: frozenset[str]  # entries of the contract that it plays; empty: all
    next_t: int = 0

    def plays(self, contract: Contract, agent: AgentID) -> bool:
        if not self.agents or agent in self.agents:
            return True
        return any(_covers(name, agent) for name in self.agents if "*" in name)


def _covers(pattern: str, agent: AgentID) -> bool:
    before, _, after = pattern.partition("*")
    return agent.startswith(before) and agent.endswith(after) and len(agent) > len(before) + len(after)


@dataclass(slots=True)
class Sent:
    """What one party sent for a step: enough to know it again."""

    kind: str
    mark: bytes  # fingerprint of its content
    asked: tuple[AgentID, ...]


@dataclass(slots=True)
class StepRecord:
    """Step ``t`` of an episode: who has reported it, and its answer."""

    t: int
    sent: dict[str, Sent] = field(default_factory=dict)  # by session
    agents: dict[AgentID, AgentReport] = field(default_factory=dict)
    own: dict[AgentID, OwnAction] = field(default_factory=dict)
    own_version: int | None = None
    state: Array | None = None
    wanted: frozenset[str] = frozenset()
    ends: bool = False
    answered: bool = False
    actions: dict[AgentID, Any] = field(default_factory=dict)  # as JSON
    version: int = 0
    details: dict[AgentID, Any] = field(default_factory=dict)
    waiters: list[tuple[Waiter, str]] = field(default_factory=list)

    @property
    def asked(self) -> tuple[AgentID, ...]:
        return tuple(agent for sent in self.sent.values() for agent in sent.asked)

    def add(self, session: str, report: Report, mark: bytes) -> None:
        self.sent[session] = Sent(report.kind, mark, report.asked)
        self.agents.update(report.agents)
        self.own.update(report.own or {})
        self.wanted |= report.wanted
        self.ends |= report.kind == "end"
        if report.own_version is not None:
            self.own_version = report.own_version
        if report.state is not None:
            self.state = report.state

    def step(self) -> Step:
        """All that the player gets; what was reported is not needed here any more."""
        own = self.own if any(sent.kind == "log" for sent in self.sent.values()) else None
        step = Step(self.t, self.agents, self.ends, self.state, own, self.own_version, self.wanted)
        self.agents, self.state = {}, None
        return step


class OpenEpisode:
    """Satisfies ``marl.envs.external.steps.Episode``. ``id`` is unique on this server, ``name`` is what clients call it."""

    def __init__(self, id: str, name: str, training: bool, parties: int, contract: Contract) -> None:
        self.id, self.name, self.training, self.parties = id, name, training, parties
        self.contract = contract
        self.members: dict[str, Party] = {}  # by session
        self.inbox: deque[Step] = deque()
        self.begun: Future[int | None] = Future()
        self.seed: int | None = None
        self.slot: str | None = None
        self.version = 0  # of the weights when it began
        self.bound = False  # a player has taken it
        self.records: dict[int, StepRecord] = {}
        self.history: list[dict[AgentID, Any]] | None = []  # actions of each answered step; None: too many
        self.lives = Lives(contract)
        self.length = 0
        self.over: str = ""  # why it is over; empty: it goes on
        self.start_waiters: list[Waiter] = []
        self.touched = 0.0  # when a client last said something

    @property
    def full(self) -> bool:
        return len(self.members) == self.parties

    def take(self, t: int) -> Step | None:
        """Step ``t`` if it has arrived; steps before it are not needed any more. Does not wait."""
        while self.inbox and self.inbox[0].t < t:
            self.inbox.popleft()
        if self.inbox and self.inbox[0].t == t:
            return self.inbox[0]
        return None

    def record(self, t: int) -> StepRecord:
        found = self.records.get(t)
        if found is None:
            found = self.records[t] = StepRecord(t)
            self.records.pop(t - KEPT_STEPS, None)
        return found

    def complete(self, record: StepRecord) -> Step:
        """All parties have reported: the step is the player's now."""
        self.lives.finish_step(record.t)
        self.length = record.t
        step = record.step()
        self.inbox.append(step)
        return step

    def note_answer(
        self, record: StepRecord, actions: dict[AgentID, Any], version: int, details: dict[str, Any]
    ) -> None:
        record.answered, record.actions, record.version, record.details = True, actions, version, details
        if self.history is not None:
            self.history.append(actions)
            if len(self.history) > LONGEST_HISTORY:
                self.history = None

    def end(self, why: str) -> None:
        self.over, self.history = why, None
        for t in list(self.records)[:-KEPT_AFTER_END]:
            if self.records[t].answered:
                del self.records[t]

    def pending(self) -> list[StepRecord]:
        """Steps that the player has and has not answered."""
        return [record for record in self.records.values() if not record.answered and not record.ends and record.sent]
