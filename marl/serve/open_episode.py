"""An episode that clients play: its parties, its steps, and what was answered, so that it can be answered again."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from marl.data.task import AgentID, Array
from marl.envs.external.contract import Contract
from marl.envs.external.steps import AgentReport, OwnAction, Step
from marl.serve.lives import Lives
from marl.serve.messages import Report

KEPT_STEPS = 1_000  # of an open episode, whose messages may be sent again
KEPT_AFTER_END = 4  # of an episode that is over
LONGEST_HISTORY = 10_000  # steps of an episode that a client which was killed can replay

Waiter: TypeAlias = "asyncio.Future[dict[str, Any]] | Future[dict[str, Any]]"
"""Who waits for an answer: a coroutine of the network's loop, or a thread of this process."""


@dataclass(slots=True)
class Party:
    """A session that plays in an episode."""

    session: str
    agents: frozenset[str]  # agents and patterns that it plays; empty: all
    next_t: int = 0
    sent_last: str = ""  # the kind of its last message

    def plays(self, agent: AgentID) -> bool:
        if not self.agents:
            return True
        return any(covers(name, agent) for name in self.agents)


def covers(pattern: str, agent: AgentID) -> bool:
    """Whether an agent, or a whole pattern, is the one that is named, or lies within a pattern such as ``car_*``."""
    if pattern == agent:
        return True
    before, star, after = pattern.partition("*")
    is_longer = len(agent) > len(before) + len(after)
    begins, ends = agent.startswith(before), agent.endswith(after)
    return all((star, is_longer, begins, ends))


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
    complete: bool = False  # all parties have reported it
    answered: bool = False
    journaled: bool = False  # answered before a restart; whoever plays it again has to come to the same answer
    actions: dict[AgentID, Any] = field(default_factory=dict)  # as JSON
    version: int = 0
    details: dict[AgentID, Any] = field(default_factory=dict)
    waiters: list[tuple[Waiter, str]] = field(default_factory=list)

    @property
    def asked(self) -> tuple[AgentID, ...]:
        asked: tuple[AgentID, ...] = ()
        for sent in self.sent.values():
            asked += sent.asked
        return asked

    @property
    def pending(self) -> bool:
        """The player has it and has not answered it."""
        return self.complete and not self.answered

    @property
    def done(self) -> bool:
        """Nobody has to answer it any more."""
        return self.answered and not self.journaled

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
        """All that the player gets; what agents saw is not needed here any more."""
        kinds = {sent.kind for sent in self.sent.values()}
        own = self.own if "log" in kinds else None
        # An episode that its player leaves also ends here, but not by what was reported.
        step = Step(self.t, self.agents, "end" in kinds, self.state, own, self.own_version, self.wanted)
        self.agents, self.state = {}, None
        return step


class OpenEpisode:
    """Satisfies ``marl.envs.external.steps.Episode``. ``id`` is unique on this server, ``name`` is what clients call it."""

    def __init__(self, id: str, name: str, training: bool, parties: int, contract: Contract) -> None:
        self.id, self.name, self.training, self.parties = id, name, training, parties
        self.members: dict[str, Party] = {}  # by session
        self.inbox: deque[Step] = deque()
        self.begun: Future[int | None] = Future()
        self.bound = False  # a player has taken it
        self.seed: int | None = None
        self.slot: str | None = None
        self.version = 0  # of the weights when it began
        self.records: dict[int, StepRecord] = {}
        self.oldest = 0  # no record is older
        self.sources: dict[
            int, list[Mapping[str, Any]]
        ] = {}  # journal lines of steps that the player may ask for again
        self.history: list[dict[AgentID, Any]] | None = []  # actions of each answered step; None: too many
        self.lives = Lives(contract)
        self.next_t = 0  # the first step that is not complete
        self.over = ""  # why it is over; empty: it goes on
        self.gone = False  # over because its clients were silent
        self.consumed = False  # the player knows that it is over
        self.start_waiters: list[Waiter] = []
        self.touched = 0.0  # when a client was last heard, or got its answer

    @property
    def full(self) -> bool:
        return len(self.members) == self.parties

    @property
    def length(self) -> int:
        """Steps that were played: the first report only shows where it begins."""
        return max(0, self.next_t - 1)

    def take(self, t: int) -> Step | None:
        """Step ``t`` if it has arrived; steps before it are not needed any more. Does not wait."""
        inbox = self.inbox
        while inbox and inbox[0].t < t:
            inbox.popleft()
        if not inbox or inbox[0].t > t:
            return None
        step = inbox[0]
        self.consumed |= step.ends
        return step

    def bind(self, seed: int | None, slot: str, version: int) -> None:
        self.seed, self.slot, self.version, self.bound = seed, slot, version, True

    def waits_for_answer(self, t: int) -> bool:
        record = self.records.get(t)
        return record is not None and not record.answered

    def accept(self, party: Party, report: Report, mark: bytes) -> StepRecord:
        """A report counts from here on; its step is complete when it was the last one missing."""
        record = self.records.get(report.t)
        if record is None:
            record = self.records[report.t] = StepRecord(report.t)
            self.trim(KEPT_STEPS)
        record.add(party.session, report, mark)
        party.next_t, party.sent_last = report.t + 1, report.kind
        self.lives.apply(report)
        if len(record.sent) == self.parties:
            self._complete(record)
        return record

    def _complete(self, record: StepRecord) -> None:
        record.complete = True
        self.lives.finish_step(record.t)
        self.next_t = record.t + 1
        self.inbox.append(record.step())
        if record.ends:  # nobody has to act any more: it is its own answer
            record.answered = True

    def abandon(self) -> int:
        """The player is told that it is over. Steps that lack an answer or a party never were; how many had no answer."""
        unanswered = 0
        for record in list(self.records.values()):
            if not record.answered:
                unanswered += record.complete
                del self.records[record.t]
                self.sources.pop(record.t, None)
        self.inbox.append(Step(self.next_t, {}, ends=True))
        self.gone = True
        return unanswered

    def drop_steps(self) -> None:
        """Nobody plays it again: only what was answered is kept, for those who ask once more."""
        self.inbox.clear()
        self.sources.clear()
        for record in self.records.values():
            record.journaled = False
        self.trim(KEPT_AFTER_END)

    def note_answer(
        self, record: StepRecord, actions: dict[AgentID, Any], version: int, details: dict[str, Any]
    ) -> None:
        record.answered, record.actions, record.version, record.details = True, actions, version, details
        record.own = {}
        if self.history is not None:
            self.history.append(actions)
            if len(self.history) > LONGEST_HISTORY:
                self.history = None

    def end(self, why: str) -> None:
        self.over, self.history = why, None
        self.trim(KEPT_AFTER_END)

    def trim(self, kept: int) -> None:
        """Forget the oldest steps; not those that wait for an answer, or have to be played again."""
        while len(self.records) > kept:
            record = self.records.get(self.oldest)
            if record is not None and not record.done:
                return
            self.records.pop(self.oldest, None)
            self.oldest += 1

    def note_source(self, t: int, line: Mapping[str, Any]) -> None:
        """Keep a step's messages while its player may need them after a restart: until it asks for a later step."""
        self.sources.setdefault(t, []).append(line)
        first = self.first_kept
        while min(self.sources) < first:
            del self.sources[min(self.sources)]

    @property
    def first_kept(self) -> int:
        """The first step that ``take`` can still give."""
        try:
            return self.inbox[0].t
        except IndexError:
            return self.next_t

    def part_of(self, party: Party, by_agent: Mapping[AgentID, Any]) -> dict[AgentID, Any]:
        """What concerns the agents of a party."""
        part = dict(by_agent)
        if self.parties > 1:
            for agent in by_agent:
                if not party.plays(agent):
                    del part[agent]
        return part
