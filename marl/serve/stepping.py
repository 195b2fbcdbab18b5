"""The messages act, log and end: each step once, in order, and the same answer however often it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marl.serve.desk import Choosy, Desk
from marl.serve.messages import CONTENT, Report, fingerprint, whole
from marl.serve.open_episode import OpenEpisode, Party, StepRecord, Waiter
from marl.serve.refused import Refused, out_of_order

ENDED = "its client ended it"


class Stepping:
    """Answers act, log and end."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def answer(self, kind: str, message: Mapping[str, Any]) -> dict[str, Any] | Waiter:
        desk = self.desk
        now = desk.clock()
        session = desk.sessions.find(message.get("session"), now)
        name = message.get("episode")
        episode = None
        if isinstance(name, str):
            episode = session.episodes.get(name)
        if episode is None:
            raise Refused(
                "unknown_episode", "this session has no such episode. Start it first.", 404, where={"key": "episode"}
            )
        party = episode.members[session.id]
        t = whole(kind, message, "t", 0)
        episode.touched = now
        if t < party.next_t:
            return self._again(kind, message, episode, party)
        self._check_turn(kind, episode, party, t)
        desk.check_room(desk.counters.pending)
        report = desk.reader.read(kind, t, message)
        self._check_report(report, episode, party)
        return self._accept(report, message, episode, party)

    def _check_turn(self, kind: str, episode: OpenEpisode, party: Party, t: int) -> None:
        if episode.over:
            raise _over(episode, t)
        if not episode.bound:
            raise out_of_order(f"start of {episode.name!r} has not been answered yet.", 0, t=t)
        if t > party.next_t:
            raise out_of_order(f"{kind} has t = {t}; expected {party.next_t}.", party.next_t, t=t)
        # What a client did itself may be sent ahead; an action that was asked for has to be known first.
        may_be_ahead = episode.parties == 1 and party.sent_last == "log"
        if not may_be_ahead and episode.waits_for_answer(t - 1):
            raise out_of_order(f"t = {t - 1} has not been answered yet.", t - 1, t=t)

    def _check_report(self, report: Report, episode: OpenEpisode, party: Party) -> None:
        for agent in report.agents:
            if not party.plays(agent):
                raise Refused(
                    "unknown_agent",
                    f"agent {agent!r} at t = {report.t} is not one that this session plays, by its hello.",
                    where={"agent": agent, "t": report.t},
                    expected=sorted(party.agents),
                )
        if report.kind == "log" and episode.training:
            self._check_learnable(report)
        record = episode.records.get(report.t)
        reported = 0 if record is None else len(record.sent)
        completes = reported + 1 == episode.parties
        episode.lives.check(report, completes)
        if completes and report.kind != "end":
            self._check_state(report, record)

    def _check_learnable(self, report: Report) -> None:
        """What a client did itself has to be of use to those who learn here."""
        stage = self.desk.stage
        if stage.no_log:
            raise Refused("not_learnable", stage.no_log, 409, where={"t": report.t})
        if not isinstance(stage, Choosy):
            return
        missing = []
        if any(own.logp is None for own in (report.own or {}).values()):
            missing.append("logp")
        if report.own_version is None:
            missing.append("version")
        for key in missing:
            if key in stage.own_needs:
                raise Refused(
                    "not_learnable",
                    f"log has no {key}, and {stage.own_why}. Send logp and version of the policies that you have downloaded "
                    "from here, use act, or let the run learn by an algorithm with a replay such as dqn.",
                    409,
                    where={"t": report.t, "key": key},
                )

    def _check_state(self, report: Report, record: StepRecord | None) -> None:
        """One of the parties has to send the global state."""
        size = self.desk.contract.state_size
        sent_by_other = record is not None and record.state is not None
        if size and report.state is None and not sent_by_other:
            raise Refused(
                "space",
                f"{report.kind} has no state at t = {report.t}; expected {size} numbers.",
                where={"t": report.t, "key": "state"},
                expected=size,
            )

    def _accept(
        self, report: Report, message: Mapping[str, Any], episode: OpenEpisode, party: Party
    ) -> dict[str, Any] | Waiter:
        """From here on the message counts, and it is in the journal first."""
        desk = self.desk
        mark = fingerprint(report.kind, message)
        line = None
        if desk.journal is not None:
            line = step_line(report.kind, episode, party, report.t, message)
            desk.write(line)
        with desk.counting():
            if line is not None:
                episode.note_source(report.t, line)
            record = episode.accept(party, report, mark)
            if record.complete:
                self._complete(episode, record)
        if record.answered:
            return told(episode, party, record)
        return self._wait(party, record)

    def _complete(self, episode: OpenEpisode, record: StepRecord) -> None:
        count_step(self.desk, record)
        if record.ends:
            send_answer(self.desk, episode, record)
            self.desk.finish(episode, ENDED)
        self.desk.stage.arrived(episode)

    def _again(
        self, kind: str, message: Mapping[str, Any], episode: OpenEpisode, party: Party
    ) -> dict[str, Any] | Waiter:
        t = message["t"]
        record = episode.records.get(t)
        if record is None and episode.gone:
            raise _over(episode, t)
        if record is None:
            text = f"t = {t} is too long ago to be sent again; expected {party.next_t}."
            raise Refused("too_old", text, 409, where={"t": t})
        if record.sent[party.session].mark != fingerprint(kind, message):
            raise Refused(
                "conflict",
                f"t = {t} was sent before with other content; expected {party.next_t}.",
                409,
                where={"t": t},
                expected=party.next_t,
            )
        if not record.answered:
            self.desk.check_room()
        self.desk.counters.repeated += 1
        if record.answered:
            return told(episode, party, record)
        return self._wait(party, record)

    def _wait(self, party: Party, record: StepRecord) -> Waiter:
        waiter = self.desk.delivery.waiter()
        # Those who hung up are forgotten: a client may do so, and ask again, as often as it likes.
        record.waiters = [known for known in record.waiters if not known[0].done()]
        record.waiters.append((waiter, party.session))
        return waiter


def send_answer(desk: Desk, episode: OpenEpisode, record: StepRecord) -> None:
    """The answer of a step to all who wait for it."""
    for waiter, session in record.waiters:
        desk.delivery.send(waiter, told(episode, episode.members[session], record))
    record.waiters.clear()


def _over(episode: OpenEpisode, t: int) -> Refused:
    return Refused("ended", f"episode {episode.name!r} is over: {episode.over}.", 410, where={"t": t})


def step_line(kind: str, episode: OpenEpisode, party: Party, t: int, message: Mapping[str, Any]) -> dict[str, Any]:
    content = {}
    for key in CONTENT:
        if key in message:
            content[key] = message[key]
    return {
        "kind": kind,
        "episode": episode.id,
        "session": party.session,
        "t": t,
        "content": content,
    }


def count_step(desk: Desk, record: StepRecord) -> None:
    """A complete step in the counters; an end is its own answer."""
    if record.ends:
        desk.counters.ended += 1
        return
    desk.counters.accepted += 1
    desk.counters.pending += 1


def told(episode: OpenEpisode, party: Party, record: StepRecord) -> dict[str, Any]:
    """The answer to a step, the same each time."""
    kind = record.sent[party.session].kind
    answer: dict[str, Any] = {"episode": episode.name, "t": record.t}
    if record.ends:
        answer["returns"] = episode.part_of(party, episode.lives.returns)
        answer["length"] = episode.length
        if kind != "end":  # another party has ended it
            answer["ended"] = True
            answer["actions"] = {}
        return answer
    answer["version"] = record.version
    if kind == "act":
        answer["actions"] = episode.part_of(party, record.actions)
        if record.details:
            answer["details"] = episode.part_of(party, record.details)
    return answer
