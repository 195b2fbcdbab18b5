"""All that is open on a hub, as lines of a journal, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from marl.envs.external.contract import Contract
from marl.serve.desk import Desk
from marl.serve.greeting import contract_line, session_line
from marl.serve.open_episode import OpenEpisode, Party, Sent, StepRecord


def snapshot(desk: Desk) -> Iterator[dict[str, Any]]:
    """Contract, counters, sessions, episodes, and which slot plays which of them."""
    if desk.stage.contract is not None:
        yield contract_line(desk.stage.contract)
    yield {"kind": "counters", "counters": desk.counters.kept()}
    for session in desk.sessions.by_id.values():
        yield session_line(session.id, session.name, session.agents, session.mode)
    # Those that are over come first, as they were first. A slot may still have to play one of them.
    episodes = dict(desk.over)
    slots: dict[str, list[str]] = {}
    for slot, queue in desk.bindings.items():
        played = {episode.id: episode for episode in queue}
        slots[slot] = list(played)
        episodes.update(played)
    episodes.update(desk.episodes)
    yield from map(episode_line, episodes.values())
    yield {"kind": "bindings", "slots": slots}


def episode_line(episode: OpenEpisode) -> dict[str, Any]:
    lives, first = episode.lives, episode.first_kept
    steps: list[Mapping[str, Any]] = []
    for t, lines in episode.sources.items():
        if t >= first and t in episode.records:
            steps += lines
    return {
        "kind": "episode",
        "episode": episode.id,
        "name": episode.name,
        "training": episode.training,
        "parties": episode.parties,
        "members": list(map(_party, episode.members.values())),
        "bound": episode.bound,
        "seed": episode.seed,
        "slot": episode.slot,
        "version": episode.version,
        "next_t": episode.next_t,
        "over": episode.over,
        "gone": episode.gone,
        "history": episode.history,
        "alive": sorted(lives.alive),
        "seated": sorted(lives.seated),
        "returns": lives.returns,
        "empty": lives.empty,
        "records": [_record(record) for record in episode.records.values()],
        "steps": steps,
    }


def _party(party: Party) -> list[Any]:
    return [party.session, sorted(party.agents), party.next_t, party.sent_last]


def _record(record: StepRecord) -> dict[str, Any]:
    sent = {session: [one.kind, one.mark.hex(), list(one.asked)] for session, one in record.sent.items()}
    return {
        "t": record.t,
        "sent": sent,
        "ends": record.ends,
        "complete": record.complete,
        "answered": record.answered,
        "journaled": record.journaled,
        "actions": record.actions,
        "version": record.version,
        "details": record.details,
    }


def episode_from(line: Mapping[str, Any], contract: Contract) -> OpenEpisode:
    """The episode of an ``episode_line``, without the steps that its player has yet to see."""
    episode = OpenEpisode(line["episode"], line["name"], line["training"], line["parties"], contract)
    for session, agents, next_t, sent_last in line["members"]:
        episode.members[session] = Party(session, frozenset(agents), next_t, sent_last)
    if line["bound"]:
        episode.bind(line["seed"], line["slot"], line["version"])
        episode.begun.set_result(line["seed"])
    episode.next_t, episode.over, episode.gone = line["next_t"], line["over"], line["gone"]
    episode.history = line["history"]
    lives = episode.lives
    lives.alive, lives.seated = set(line["alive"]), set(line["seated"])
    lives.returns, lives.empty = dict(line["returns"]), line["empty"]
    for told in line["records"]:
        record = _record_from(told)
        episode.records[record.t] = record
    episode.oldest = min(episode.records, default=0)
    return episode


def _record_from(told: Mapping[str, Any]) -> StepRecord:
    record = StepRecord(told["t"])
    for session, (kind, mark, asked) in told["sent"].items():
        record.sent[session] = Sent(kind, bytes.fromhex(mark), tuple(asked))
    record.ends, record.complete, record.answered = told["ends"], told["complete"], told["answered"]
    record.journaled = told["journaled"]
    record.actions, record.version, record.details = told["actions"], told["version"], told["details"]
    return record
