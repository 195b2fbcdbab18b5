"""Where messages of clients meet whoever plays: sessions, episodes, order, and exactly once.

The network calls ``answer`` on its event loop. The player (``Stage``) gets whole, checked steps and answers them from any
thread. (session, episode, t) names a step: sent again it gets the answer of the first time and is counted once; a gap is
refused with what was expected. With a journal all of this outlives the process.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from marl.envs.external.steps import Answer, Step
from marl.errors import JournalError, StorageError
from marl.serve.answering import Answering, refuse_waiters
from marl.serve.counters import Counters
from marl.serve.desk import Desk, Stage
from marl.serve.greeting import Greeting
from marl.serve.journal import Journal
from marl.serve.limits import Limits
from marl.serve.messages import KINDS
from marl.serve.open_episode import OpenEpisode, Waiter
from marl.serve.recovery import Recovery
from marl.serve.refused import Refused, bad_message, internal, shortly
from marl.serve.snapshot import snapshot
from marl.serve.starting import Starting
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
        self._greeting, self._starting = Greeting(self.desk), Starting(self.desk)
        self._stepping, self._answering = Stepping(self.desk), Answering(self.desk)
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
        with self._counting():
            with self._lock:
                answer = self._dispatch(kind, message)
            if isinstance(answer, dict):
                return answer
            assert not isinstance(answer, Future)
            return await self.desk.delivery.wait(answer)

    def ask(self, kind: str, message: Mapping[str, Any]) -> dict[str, Any]:
        """The same for a program in this process: its thread sleeps until there is an answer."""
        with self._counting():
            with self._lock, self.desk.delivery.to_threads():
                answer = self._dispatch(kind, message)
            if isinstance(answer, Future):
                return answer.result()
            assert isinstance(answer, dict)
            return answer

    @contextmanager
    def _counting(self) -> Iterator[None]:
        try:
            yield
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
        """Whatever goes wrong on our side is told: to all who wait where a message counts already, so that nobody hangs."""
        self.desk.half_done = False
        try:
            yield
        except Refused:
            raise
        except Exception as error:
            if not self.desk.half_done:
                raise _not_taken(error) from error
            self.fail(error)
            assert self._stopped is not None
            raise self._stopped.again() from error

    # -- the player's side, from any thread ------------------------------------------------------------------------

    def began(self, episode: OpenEpisode, seed: int | None, slot: str) -> None:
        """A place was found for the episode: its clients may go on."""
        with self._lock:
            self._answering.begin(episode, seed, slot)

    def answered(self, episode: OpenEpisode, step: Step, answer: Answer) -> None:
        """What agents do in this step: written down first, then sent."""
        with self._lock:
            self._answering.answer(episode, step, answer)

    def left(self, episode: OpenEpisode, step: Step, why: str) -> None:
        """The player ends the episode by itself (a horizon): its clients are told instead of an answer to this step."""
        with self._lock:
            self._answering.leave(episode, step, why)

    def failed(self, episode: OpenEpisode, error: BaseException) -> None:
        """This one episode cannot be played on: its clients are told why, and all others go on."""
        why = f"it could not be played on ({error})"
        with self._lock:
            self._answering.give_up(
                episode, why, Refused("episode_failed", f"episode {episode.name!r} is over: {why}.", 500)
            )

    def replace_stage(self, stage: Stage) -> list[OpenEpisode]:
        """Another stage plays from now on; returns the episodes that no player has taken yet."""
        with self._lock:
            self.desk.stage = stage
            return self.desk.unbegun()

    def keep_journal(self, journal: Journal) -> None:
        """Write everything down from now on: ``recover`` comes next."""
        with self._lock:
            self.desk.journal = journal

    def recorded(self, episode: OpenEpisode, t: int) -> Answer | None:
        """What was answered at ``t`` before a restart, for a player that would choose anew; None where nothing was."""
        with self._lock:
            return self._answering.recorded(episode, t)

    def fail(self, error: BaseException) -> None:
        """Whoever played has failed: nobody is left waiting for it, and nothing new is taken."""
        told = f"{type(error).__name__}: {error}"
        self._stop(Refused("failed", f"the server cannot play any more ({told}). See its log.", 500))

    # -- after a restart -------------------------------------------------------------------------------------------

    def mark(self) -> int:
        """A new segment of the journal that begins with all that is open now; its number belongs into the checkpoint."""
        journal = self._journal()
        with self._lock:
            return journal.mark(snapshot(self.desk))

    def recover(self, segment: int | None = None, play_again: bool = True) -> dict[str, list[OpenEpisode]]:
        """All that the journal tells since a mark (default: since its oldest segment).

        Without ``play_again`` nobody goes on with the episodes that were played: they are over, and their clients are told.

        Gives what each slot was playing at the mark and has played since, in order; steps since the mark are in the episodes'
        inboxes. Episodes that nobody had begun are given to the stage anew.
        """
        journal = self._journal()
        with self._lock:
            Recovery(self.desk).apply(journal.read(segment))
            if not play_again:
                self._answering.let_go("the run that played it was started again")
            if journal.segment is None:  # there is nothing yet
                self.mark()
            for episode in self.desk.unbegun():
                self.stage.begin(episode)
            slots = {}
            for slot, queue in self.desk.bindings.items():
                slots[slot] = list(queue)
            return slots

    def _journal(self) -> Journal:
        if self.desk.journal is None:
            raise JournalError("this server has no journal.")
        return self.desk.journal

    def episode(self, id: str) -> OpenEpisode | None:
        """An episode that is open, or that a slot still has to play again."""
        with self._lock:
            known = {**self.desk.over, **self.desk.episodes}
            for queue in self.desk.bindings.values():
                for episode in queue:
                    known[episode.id] = episode
            return known.get(id)

    def next_bound(self, slot: str, after: str | None) -> OpenEpisode | None:
        """The episode that a slot played next before the restart; None: it has played them all again, and is live.

        ``after`` is the id of the one that it has just played; None: it has played none since the mark.
        """
        with self._lock:
            queue = self.desk.bindings.get(slot, deque())
            place = 0
            ids = [episode.id for episode in queue]
            if after in ids:
                place = 1
                while queue[0].id != after:  # those before it are done
                    queue.popleft()
            if place < len(queue):
                return queue[place]
            return None

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
                refuse_waiters(self.desk, episode, refused)

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
        self._answering.give_up(episode, why, Refused("ended", f"episode {episode.name!r} is over: {why}.", 410))
        with self.desk.counting():
            if episode.bound:
                self.stage.arrived(episode)


def _not_taken(error: Exception) -> Refused:
    """Nothing has changed, so it is the trouble of this message alone; it may be sent again."""
    if isinstance(error, StorageError):
        return Refused("storage", f"the journal cannot be written: {error}", 507, retry_after=5.0)
    return internal(error)


def _waits_for_us(episode: OpenEpisode) -> bool:
    """The silence is the player's, not the clients'."""
    if not episode.bound:
        return episode.full
    newest = episode.records.get(episode.next_t - 1)
    return newest is not None and newest.pending
