"""What whoever plays says of an episode: where it is played, what its agents do, that it is left or cannot go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from marl.envs.external.steps import Answer, Step
from marl.errors import JournalError
from marl.serve.desk import Desk
from marl.serve.open_episode import OpenEpisode, StepRecord
from marl.serve.refused import Refused, shortly
from marl.serve.starting import started
from marl.serve.stepping import send_answer

NOT_OURS = "the run does not go on from the checkpoint that the journal belongs to"


class Answering:
    """Writes down what the player says, then tells it to the clients that wait."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def begin(self, episode: OpenEpisode, seed: int | None, slot: str) -> None:
        if episode.bound:
            _check_same_place(episode, seed, slot)
            return
        desk, version = self.desk, self.desk.stage.version
        desk.write({"kind": "bind", "episode": episode.id, "seed": seed, "slot": slot, "version": version})
        episode.bind(seed, slot, version)
        episode.touched = desk.clock()
        desk.bind(episode)
        for waiter in episode.start_waiters:
            desk.delivery.send(waiter, started(episode))
        episode.start_waiters.clear()
        episode.begun.set_result(seed)

    def answer(self, episode: OpenEpisode, step: Step, answer: Answer) -> None:
        record = episode.records[step.t]
        chosen = dict(answer.actions)
        for agent, own in (step.own or {}).items():  # what a client did itself stays as it was
            chosen[agent] = own.action
        actions = self.desk.reader.actions(chosen, record.asked)
        if record.answered:
            self._check_same_answer(episode, record, actions)
        else:
            self._answer(episode, record, actions, answer)
        if not step.answer.done():
            step.answer.set_result(answer)

    def _answer(self, episode: OpenEpisode, record: StepRecord, actions: dict[str, Any], answer: Answer) -> None:
        desk, details = self.desk, _plain(answer.details)
        line = {"kind": "answer", "episode": episode.id, "t": record.t, "actions": actions, "version": answer.version}
        desk.write({**line, "details": details})
        episode.note_answer(record, actions, answer.version, details)
        episode.touched = desk.clock()
        desk.counters.answered += 1
        desk.counters.pending -= 1
        send_answer(desk, episode, record)

    def _check_same_answer(self, episode: OpenEpisode, record: StepRecord, actions: dict[str, Any]) -> None:
        """A step of the journal that is played again has to come to the same actions."""
        if not record.journaled:
            self.desk.counters.doubled += 1
            raise JournalError(f"step {record.t} of {episode.name!r} was answered twice.")
        if actions != record.actions:
            raise JournalError(
                f"step {record.t} of {episode.name!r} was answered by {shortly(str(record.actions))} before the restart, and "
                f"is now answered by {shortly(str(actions))}: {NOT_OURS}, or computes otherwise on this machine. Move the "
                "journal's folder away to start without it."
            )
        self._replayed(episode, record)

    def _replayed(self, episode: OpenEpisode, record: StepRecord) -> None:
        record.journaled = False
        self.desk.counters.replayed += 1
        if episode.over:
            episode.end(episode.over)

    def leave(self, episode: OpenEpisode, step: Step, why: str) -> None:
        record = episode.records[step.t]
        if record.journaled:  # it was left here before the restart as well
            self._replayed(episode, record)
            return
        desk = self.desk
        desk.write({"kind": "left", "episode": episode.id, "t": step.t, "why": why})
        desk.leave(episode, record, why)
        send_answer(desk, episode, record)

    def give_up(self, episode: OpenEpisode, why: str, refused: Refused) -> None:
        """An episode that cannot go on: those who wait are refused, the player is told that it is over."""
        if episode.over:
            return
        self.desk.write({"kind": "gone", "episode": episode.id, "why": why})
        with self.desk.counting():
            refuse_waiters(self.desk, episode, refused)
            self.desk.abandon(episode, why)

    def let_go(self, why: str) -> None:
        """No player goes on with what was played before a restart; those who were waiting for it would wait for ever."""
        desk = self.desk
        for episode in list(desk.episodes.values()):
            if episode.bound:
                self.give_up(episode, why, Refused("ended", f"episode {episode.name!r} is over: {why}.", 410))
        desk.bindings.clear()
        for episode in desk.over.values():
            episode.drop_steps()

    def recorded(self, episode: OpenEpisode, t: int) -> Answer | None:
        record = episode.records.get(t)
        if record is None or not record.journaled:
            return None
        chosen = self.desk.reader.chosen(record.actions)
        return Answer(chosen, record.version, record.details)


def refuse_waiters(desk: Desk, episode: OpenEpisode, refused: Refused) -> None:
    waiters = list(episode.start_waiters)
    episode.start_waiters.clear()
    for record in episode.records.values():
        waiters.extend(waiter for waiter, _ in record.waiters)
        record.waiters.clear()
    for waiter in waiters:
        desk.delivery.send(waiter, refused.again())


def _check_same_place(episode: OpenEpisode, seed: int | None, slot: str) -> None:
    if (episode.seed, episode.slot) != (seed, slot):
        raise JournalError(
            f"episode {episode.name!r} was played on slot {episode.slot} with the seed {episode.seed} before the restart, and "
            f"now on slot {slot} with {seed}: {NOT_OURS}."
        )


def _plain(value: Any) -> Any:
    """Details of an answer as JSON."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_plain, value))
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return value
