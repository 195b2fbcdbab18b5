"""A hub as its journal tells it: the same sessions, episodes and answers, and all steps that have to be played again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from marl.envs.external.contract import Contract, ExternalAgent
from marl.errors import JournalError
from marl.serve.desk import Desk
from marl.serve.fit import contract_json
from marl.serve.messages import Report, fingerprint
from marl.serve.open_episode import OpenEpisode, StepRecord
from marl.serve.refused import Refused
from marl.serve.snapshot import episode_from
from marl.serve.stepping import ENDED, count_step

Line: TypeAlias = Mapping[str, Any]
BROKEN = (KeyError, TypeError, ValueError, AttributeError, IndexError, Refused)  # a line that tells what cannot be


class Recovery:
    """Applies the lines of a journal to the desk of a new hub, in their order."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self._episodes: dict[str, OpenEpisode] = {}  # all that the journal speaks of
        self._verbs: dict[str, Callable[[Line], None]] = {
            "contract": self._contract, "counters": self._counters, "session": self._session, "bye": self._bye,
            "episode": self._episode, "bindings": self._bindings, "start": self._start, "bind": self._bind,
            "act": self._step, "log": self._step, "end": self._step, "answer": self._answer, "gone": self._gone,
            "left": self._left,
        }  # fmt: skip

    def apply(self, lines: Iterable[Line]) -> None:
        for count, line in enumerate(lines, 1):
            try:
                self._verbs[line["kind"]](line)
            except BROKEN as error:
                raise JournalError(
                    f"the journal's line {count} ({line['kind']}) cannot be: {type(error).__name__}: {error}. It was written "
                    "by another version or with another contract; move its folder away to start without its episodes."
                ) from error
        desk = self.desk
        desk.counters.sessions, desk.counters.open = len(desk.sessions), len(desk.episodes)

    # -- one line each ---------------------------------------------------------------------------------------------

    def _contract(self, line: Line) -> None:
        stage = self.desk.stage
        if stage.contract is None:
            agents = {name: ExternalAgent(**told) for name, told in line["agents"].items()}
            stage.agree(Contract(agents, line["state_size"]))
        elif contract_json(stage.contract) != line["agents"] or stage.contract.state_size != line["state_size"]:
            raise JournalError(
                "the journal was written with other agents or spaces than those that are served now. Serve what it was "
                "written with, or move its folder away to start without its episodes."
            )

    def _counters(self, line: Line) -> None:
        for key, value in line["counters"].items():
            setattr(self.desk.counters, key, int(value))

    def _session(self, line: Line) -> None:
        sessions = self.desk.sessions
        session = sessions.by_id.get(line["session"])
        if session is None:
            session = sessions.add(line["session"], line["name"], self.desk.clock())
        session.agents, session.mode = frozenset(line["agents"]), line["mode"]

    def _bye(self, line: Line) -> None:
        session = self.desk.sessions.by_id.get(line["session"])
        if session is not None:
            self.desk.sessions.forget(session)

    def _episode(self, line: Line) -> None:
        desk = self.desk
        episode = self._episodes[line["episode"]] = episode_from(line, desk.contract)
        episode.touched = desk.clock()
        self._put_steps(episode, line["steps"])
        desk.counters.pending += sum(record.pending for record in episode.records.values())
        for id in episode.members:
            session = desk.sessions.by_id.get(id)
            if session is not None:
                session.episodes[episode.name] = episode
        if episode.over:
            desk.over[episode.id] = episode
            return
        desk.episodes[episode.id] = episode
        if episode.parties > 1:
            desk.shared[episode.name] = episode

    def _put_steps(self, episode: OpenEpisode, lines: Iterable[Line]) -> None:
        """The steps that the player had not left behind; their records are there already."""
        for line in lines:
            episode.sources.setdefault(line["t"], []).append(line)
            record = episode.records[line["t"]]
            record.add(line["session"], self._report(line), record.sent[line["session"]].mark)
        for t in episode.sources:
            record = episode.records[t]
            if record.complete:
                episode.inbox.append(record.step())
            record.journaled |= record.answered and not record.ends
        if episode.gone:
            episode.abandon()

    def _bindings(self, line: Line) -> None:
        for slot, ids in line["slots"].items():
            queue = deque(map(self._episodes.__getitem__, ids))
            self.desk.bindings[slot] = queue

    def _start(self, line: Line) -> None:
        session = self.desk.sessions.by_id[line["session"]]
        episode = self.desk.join(session, line["episode"], line["training"], line["parties"])
        self._episodes[episode.id] = episode

    def _bind(self, line: Line) -> None:
        episode = self._episodes[line["episode"]]
        episode.bind(line["seed"], line["slot"], line["version"])
        episode.begun.set_result(line["seed"])
        self.desk.bindings.setdefault(line["slot"], deque()).append(episode)
        self.desk.counters.begun += 1

    def _step(self, line: Line) -> None:
        episode = self._episodes[line["episode"]]
        report = self._report(line)
        party = episode.members[line["session"]]
        if report.t != party.next_t:
            raise ValueError(f"step {report.t} of {episode.name!r} where {party.next_t} was expected")
        episode.sources.setdefault(report.t, []).append(line)
        record = episode.accept(party, report, fingerprint(report.kind, line["content"]))
        if record.complete:
            count_step(self.desk, record)
            if record.ends:
                self.desk.finish(episode, ENDED)

    def _report(self, line: Line) -> Report:
        return self.desk.reader.read(line["kind"], line["t"], line["content"])

    def _answer(self, line: Line) -> None:
        episode = self._episodes[line["episode"]]
        record: StepRecord = episode.records[line["t"]]
        episode.note_answer(record, line["actions"], line["version"], line["details"])
        record.journaled = True
        self.desk.counters.answered += 1
        self.desk.counters.pending -= 1

    def _left(self, line: Line) -> None:
        episode = self._episodes[line["episode"]]
        record: StepRecord = episode.records[line["t"]]
        record.journaled = True
        self.desk.leave(episode, record, line["why"])

    def _gone(self, line: Line) -> None:
        self.desk.abandon(self._episodes[line["episode"]], line["why"])
