"""Where messages of clients meet whoever plays: sessions, episodes, order, and exactly once.

The network calls ``answer`` on its event loop. The player (``Stage``) gets whole, checked steps and answers them from any
thread. (session, episode, t) names a step: sent again it gets the answer of the first time and is counted once; a gap is
refused with what was expected. With a journal all of this outlives the process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from marl.envs.external.steps import Answer, Step
from marl.errors import JournalError, StorageError
from marl.serve.counters import Counters
from marl.serve.desk import Desk, Stage
from marl.serve.greeting import Greeting
from marl.serve.journal import Journal
from marl.serve.limits import Limits
from marl.serve.messages import KINDS
from marl.serve.open_episode import OpenEpisode, StepRecord, Waiter
from marl.serve.recovery import Recovery
from marl.serve.refused import Refused, bad_message, shortly
from marl.serve.snapshot import snapshot
from marl.serve.starting import Starting, started
from marl.serve.stepping import Stepping

__all__ = ["Counters", "Hub", "Journal", "Limits", "OpenEpisode", "Refused", "Stage"]


class Hub:
    """Sessions and episodes of one server.

    With a journal ``recover`` comes before the first message. Whoever plays calls ``began``, ``answered`` and, when it cannot
    go on, ``fail``, each from any thread.
    """

    def __init__(
        self,
        stage: Stage,
        limits: Limits,
        journal: Journal | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.desk = Desk(stage, limits, clock, journal)
        self._greeting, self._starting, self._stepping = Greeting(self.desk), Starting(self.desk), Stepping(self.desk)
        self._lock = threading.RLock()
        self._stopped: Refused | None = None  # what everybody is told since

    @property
    def stage(self) -> Stage:
        return self.desk.stage

    @property
    def limits(self) -> Limits:
        return self.desk.limits

    @property
    def journal(self) -> Journal | None:
        return self.desk.journal

    @property
    def counters(self) -> Counters:
        return self.desk.counters

    # -- the network's side ----------------------------------------------------------------------------------------

    async def answer(self, kind: str, message: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one message, as soon as there is one; raises ``Refused``."""
        try:
            with self._lock:
                answer = self._dispatch(kind, message)
            if isinstance(answer, dict):
                return answer
            return await self.desk.delivery.wait(answer)
        except Refused as refused:
            self.counters.refused[refused.code] += 1
            if refused.code == "out_of_order":
                self.counters.gaps += 1
            raise

    def _dispatch(self, kind: str, message: Mapping[str, Any]) -> dict[str, Any] | Waiter:
        if self._stopped is not None:
            raise self._stopped.again()
        if not isinstance(message, dict):
            raise bad_message(f"the message is {shortly(message)}; expected an object.")
        if not isinstance(kind, str) or kind not in KINDS:
            raise bad_message(f"the type {shortly(kind)} is unknown. Known: {', '.join(KINDS)}.", key="type")
        with self._failing():
            if kind == "hello":
                return self._greeting.answer(message)
            if kind == "start":
                return self._starting.answer(message)
            return self._stepping.answer(kind, message)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Whatever goes wrong on our side is told to the client at hand and to all who wait: nobody hangs."""
        try:
            yield
        except Refused:
            raise
        except StorageError as error:  # the message was not written, so it does not count; it may be sent again
            raise Refused("storage", f"the journal cannot be written: {error}", 507, retry_after=5.0) from error
        except Exception as error:
            self.fail(error)
            assert self._stopped is not None
            raise self._stopped.again() from error

    # -- the player's side, from any thread ------------------------------------------------------------------------

    def began(self, episode: OpenEpisode, seed: int | None, slot: str) -> None:
        """A place was found for the episode: its clients may go on."""
        with self._lock:
            if episode.bound:
                self._check_same_place(episode, seed, slot)
                return
            version = self.stage.version
            line = {"kind": "bind", "episode": episode.id, "seed": seed, "slot": slot, "version": version}
            self.desk.write(line)
            episode.bind(seed, slot, version)
            episode.touched = self.desk.clock()
            self.desk.bind(episode)
            for waiter in episode.start_waiters:
                self.desk.delivery.send(waiter, started(episode))
            episode.start_waiters.clear()
        episode.begun.set_result(seed)

    def _check_same_place(self, episode: OpenEpisode, seed: int | None, slot: str) -> None:
        if (episode.seed, episode.slot) != (seed, slot):
            raise JournalError(
                f"episode {episode.name!r} was played on slot {episode.slot} with the seed {episode.seed} before the restart, "
                f"and now on slot {slot} with {seed}: the run does not go on from the checkpoint that the journal belongs to."
            )

    def answered(self, episode: OpenEpisode, step: Step, answer: Answer) -> None:
        """What agents do in this step: written down first, then sent."""
        with self._lock:
            record = episode.records[step.t]
            own = {agent: done.action for agent, done in record.own.items()}
            actions = self.desk.reader.actions({**answer.actions, **own}, record.asked)
            if record.answered:
                self._check_same_answer(episode, record, actions)
            else:
                self._answer(episode, record, actions, answer)
        if not step.answer.done():
            step.answer.set_result(answer)

    def _answer(self, episode: OpenEpisode, record: StepRecord, actions: dict[str, Any], answer: Answer) -> None:
        details = {agent: _plain(answer.details[agent]) for agent in record.asked if agent in answer.details}
        line = {"kind": "answer", "episode": episode.id, "t": record.t, "actions": actions, "version": answer.version}
        self.desk.write({**line, "details": details})
        episode.note_answer(record, actions, answer.version, details)
        episode.touched = self.desk.clock()
        self.counters.answered += 1
        self.counters.pending -= 1
        self._stepping.send(episode, record)

    def _check_same_answer(self, episode: OpenEpisode, record: StepRecord, actions: dict[str, Any]) -> None:
        """A step of the journal that is played again has to come to the same actions."""
        if not record.journaled:
            self.counters.doubled += 1
            raise JournalError(f"step {record.t} of {episode.name!r} was answered twice.")
        if actions != record.actions:
            raise JournalError(
                f"step {record.t} of {episode.name!r} was answered by {shortly(str(record.actions))} before the restart, and "
                f"is now answered by {shortly(str(actions))}: the run does not go on from the checkpoint that the journal "
                "belongs to, or computes otherwise on this machine. Move the journal's folder away to start without it."
            )
        record.journaled = False
        self.counters.replayed += 1
        if episode.over:
            episode.end(episode.over)

    def left(self, episode: OpenEpisode, step: Step, why: str) -> None:
        """The player ends the episode by itself (a horizon): its clients are told instead of an answer to this step."""
        with self._lock:
            record = episode.records[step.t]
            if record.journaled:  # it was left here before the restart as well
                record.journaled = False
                self.counters.replayed += 1
                return
            self.desk.write({"kind": "left", "episode": episode.id, "t": step.t, "why": why})
            self.desk.leave(episode, record, why)
            self._stepping.send(episode, record)

    def failed(self, episode: OpenEpisode, error: BaseException) -> None:
        """This one episode cannot be played on: its clients are told, and all others go on."""
        with self._lock:
            if episode.over:
                return
            why = "it could not be played on"
            self.desk.write({"kind": "gone", "episode": episode.id, "why": why})
            refused = Refused("failed", f"episode {episode.name!r} cannot be played on: {error}", 500)
            self._refuse_waiters(episode, refused)
            waiting = sum(record.pending for record in episode.records.values())
            self.counters.pending -= waiting
            self.counters.answered += waiting  # by the refusal
            self.desk.abandon(episode, why)

    def replace_stage(self, stage: Stage) -> list[OpenEpisode]:
        """Another stage plays from now on; returns the episodes that no player has taken yet."""
        with self._lock:
            self.desk.stage = stage
            return [episode for episode in self.desk.episodes.values() if episode.full and not episode.bound]

    def keep_journal(self, journal: Journal) -> None:
        """Write everything down from now on: ``recover`` comes next."""
        with self._lock:
            self.desk.journal = journal

    def recorded(self, episode: OpenEpisode, t: int) -> Answer | None:
        """What was answered at ``t`` before a restart, for a player that would choose anew; None where nothing was."""
        with self._lock:
            record = episode.records.get(t)
            if record is None or not record.journaled:
                return None
            return Answer(self.desk.reader.chosen(record.actions), record.version, record.details)

    def fail(self, error: BaseException) -> None:
        """Whoever played has failed: nobody is left waiting for it, and nothing new is taken."""
        told = f"{type(error).__name__}: {error}"
        self._stop(Refused("failed", f"the server cannot play any more ({told}). See its log.", 500))

    def failed(self, episode: OpenEpisode, error: BaseException) -> None:
        """This one episode cannot be played on: its clients are told why, and all others go on."""
        with self._lock:
            if episode.over:
                return
            why = f"it could not be played on ({error})"
            self.desk.write({"kind": "gone", "episode": episode.id, "why": why})
            self._refuse_waiters(episode, Refused("failed", f"episode {episode.name!r} is over: {why}.", 500))
            unanswered = sum(record.pending for record in episode.records.values())
            self.counters.pending -= unanswered
            self.counters.dropped += unanswered
            self.desk.abandon(episode, why)

    # -- after a restart -------------------------------------------------------------------------------------------

    def mark(self) -> int:
        """A new segment of the journal that begins with all that is open now; its number belongs into the checkpoint."""
        journal = self._journal()
        with self._lock:
            return journal.mark(snapshot(self.desk))

    def recover(self, segment: int | None = None) -> dict[str, list[OpenEpisode]]:
        """All that the journal tells since a mark (default: since its oldest segment).

        Gives what each slot was playing at the mark and has played since, in order; steps since the mark are in the episodes'
        inboxes. Episodes that nobody had begun are given to the stage anew.
        """
        journal = self._journal()
        with self._lock:
            Recovery(self.desk).apply(journal.read(segment))
            if journal.segment is None:  # there is nothing yet
                self.mark()
            for episode in list(self.desk.episodes.values()):
                if episode.full and not episode.bound:
                    self.stage.begin(episode)
            return {slot: list(queue) for slot, queue in self.desk.bindings.items()}

    def _journal(self) -> Journal:
        if self.desk.journal is None:
            raise JournalError("this server has no journal.")
        return self.desk.journal

    def episode(self, id: str) -> OpenEpisode | None:
        """An episode that is open, or that a slot still has to play again."""
        with self._lock:
            found = self.desk.episodes.get(id) or self.desk.over.get(id)
            for queue in self.desk.bindings.values():
                for episode in queue:
                    if episode.id == id:
                        return episode
            return found

    def next_bound(self, slot: str, after: str | None) -> OpenEpisode | None:
        """The episode that a slot played next before the restart; None: it has played them all again, and is live.

        ``after`` is the id of the one that it has just played; None: it has played none since the mark.
        """
        with self._lock:
            queue = self.desk.bindings.get(slot)
            if not queue:
                return None
            ids = [episode.id for episode in queue]
            if after in ids:
                for _ in range(ids.index(after)):
                    queue.popleft()
                return queue[1] if len(queue) > 1 else None
            return queue[0]

    # -- the end ---------------------------------------------------------------------------------------------------

    def close(self, reason: str) -> None:
        """Everything that waits is refused, and all that comes from now on: the server stops."""
        self._stop(Refused("closing", f"the server stops: {reason}. Come again later.", 503, retry_after=1.0))

    def _stop(self, refused: Refused) -> None:
        with self._lock:
            if self._stopped is not None:
                return
            self._stopped = refused
            for episode in (*self.desk.episodes.values(), *self.desk.over.values()):
                self._refuse_waiters(episode, refused)

    def _refuse_waiters(self, episode: OpenEpisode, refused: Refused) -> None:
        waiters = list(episode.start_waiters)
        episode.start_waiters.clear()
        for record in episode.records.values():
            waiters += [waiter for waiter, _ in record.waiters]
            record.waiters.clear()
        for waiter in waiters:
            self.desk.delivery.send(waiter, refused.again())

    def sweep(self) -> None:
        """Episodes and sessions that have been silent for too long end."""
        with self._lock, self._failing():
            if self._stopped is not None:
                return
            now, desk = self.desk.clock(), self.desk
            for episode in list(desk.episodes.values()):
                if now - episode.touched > desk.limits.episode_timeout_s and not _waits_for_us(episode):
                    self._abandon(episode)
            for session in desk.sessions.silent(now):
                desk.write({"kind": "bye", "session": session.id})
                desk.sessions.forget(session)
            desk.counters.sessions = len(desk.sessions)

    def _abandon(self, episode: OpenEpisode) -> None:
        why = f"its clients were silent for more than {self.limits.episode_timeout_s:g} seconds"
        self.desk.write({"kind": "gone", "episode": episode.id, "why": why})
        self._refuse_waiters(episode, Refused("ended", f"episode {episode.name!r} is over: {why}.", 410))
        self.desk.abandon(episode, why)
        if episode.bound:
            self.stage.arrived(episode)


def _waits_for_us(episode: OpenEpisode) -> bool:
    """The silence is the player's, not the clients'."""
    unbegun = episode.full and not episode.bound
    return unbegun or any(record.pending for record in episode.records.values())


def _plain(value: Any) -> Any:
    """Details of an answer as JSON."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return value
