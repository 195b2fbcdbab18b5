"""One thread in which many episodes are played at once.

Every episode is played in a *slot*, a greenlet: ordinary code that waits where it needs a client's message or a policy's
decision, and lets the others play meanwhile. When all have gone as far as they can, the decisions that they wait for are made
together, one forward pass per policy. What a slot does is its own matter; the loop only knows what it waits for.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
import torch

from marl.data.task import Array, Floats, PolicyID
from marl.envs.external.steps import Episode
from marl.errors import PolicyError
from marl.policies.policy import Decision, Inputs, Policy
from marl.serve.passes import Detail, Explain, Request, decide
from marl.serve.slots import Body, Failed, SharedPolicy, Slot

_log = logging.getLogger(__name__)


def _explain_nothing(policy: Policy, request: Request) -> list[Detail]:
    del policy, request
    return []


class ActingLoop:
    """Plays slots in a thread of its own. ``policies`` belong to it from now on: only its thread touches them.

    ``grow`` is called in the loop's thread when an episode is offered and all slots are taken: it may ``spawn`` one more.
    """

    def __init__(
        self, policies: Mapping[PolicyID, Policy], *, max_wait_ms: float = 2.0, seed: int | None = None,
        version: int = 0, explain: Explain = _explain_nothing, torch_threads: int | None = 1,
    ) -> None:  # fmt: skip
        self._real = dict(policies)
        self.policies: dict[PolicyID, Policy] = {
            name: SharedPolicy(name, policy, self) for name, policy in self._real.items()
        }
        self.version = version
        self.grow: Callable[[], None] | None = None
        self.on_failure: Failed | None = None
        self.failure: BaseException | None = None
        self.passes = self.rows = 0  # forward passes, and decisions that were made in them
        self.on_pass: Callable[[float], None] | None = None  # hears how many decisions each pass made
        self._max_wait = max_wait_ms / 1000.0
        self._explain, self._torch_threads = explain, torch_threads
        self._rng = np.random.default_rng(seed)
        # Other threads ask for something by a letter: a method of the loop and what to call it with.
        self._letters: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._sleeping, self._enough = False, 1  # letters that are worth to be woken up for
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._numbers = itertools.count()
        self._slots: set[Slot] = set()
        self._ready: deque[Slot] = deque()
        self._idle: list[Slot] = []  # wait for an episode
        self._offered: deque[Episode] = deque()  # wait for a slot
        self._player_of: dict[str, Slot] = {}
        self._asked: list[tuple[Slot, PolicyID, Request]] = []
        self._asked_since = 0.0
        self._stopping = False
        self._playing: Slot | None = None
        self._thread = threading.Thread(target=self._run, name="marl acting loop", daemon=True)

    # -- for other threads -----------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def spawn(self, body: Body, failed: Failed, name: str | None = None) -> None:
        """One more slot, which plays ``body``. ``failed`` hears of what it raises, in the loop's thread."""
        self._post(self._welcome, (name or f"slot_{next(self._numbers)}", body, failed))

    def offer(self, episode: Episode) -> None:
        """Somebody wants to play this episode: the next free slot takes it."""
        self._post(self._seat, episode)

    def arrived(self, episode: Episode) -> None:
        """A message has come for this episode: its slot looks again."""
        self._letters.append((self._stir, episode))
        # To wake the loop costs as much as a decision: a batch that waits is told once, when all have come.
        if self._sleeping and len(self._letters) >= self._enough:
            self._ring()

    def set_weights(self, version: int, weights: Mapping[PolicyID, Mapping[str, Array]]) -> None:
        """Decide with these from the next pass on."""
        self._post(self._take_weights, (version, weights))

    def call(self, job: Callable[[], None]) -> None:
        """Have something done in the loop's thread, between two passes."""
        self._post(_do, job)

    def wake(self, name: str) -> None:
        """In the loop's thread: the slot of this name looks again what there is for it."""
        self._ready.extend(slot for slot in self._slots if slot.name == name)

    def stop(self, timeout: float | None = 10.0) -> None:
        """End all slots where they wait, and the thread."""
        self._post(self._stop, None)
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    @property
    def running(self) -> bool:
        return self._thread.is_alive() and self.failure is None

    @property
    def open_episodes(self) -> int:
        return len(self._player_of)

    # -- for slots -------------------------------------------------------------------------------------------------

    def ask(self, policy: PolicyID, inputs: Inputs, carry: Floats, explore: bool) -> Decision:
        """Wait for a decision of a policy."""
        slot = self.current
        request = Request(inputs, carry, explore, slot.wanted)
        if not self._asked:
            self._asked_since = time.monotonic()
        self._asked.append((slot, policy, request))
        while request.decision is None:  # a slot is also woken by messages that come before their turn
            if request.error is not None:
                raise request.error
            self.park()
        # Where several policies decide in one step, new weights may come between them: the oldest is told.
        if slot.version is None:
            slot.version = request.version
        slot.decided.append((policy, request))
        return request.decision

    def park(self) -> None:
        """Let the others play until there is something new for this slot."""
        self.current.park()

    @property
    def current(self) -> Slot:
        """The slot in which the caller runs."""
        assert self._playing is not None, "only what is played in a slot of the loop can wait here"
        return self._playing

    def wait_for_episode(self) -> Episode:
        """The next episode that is offered; this slot has none until then."""
        slot = self.current
        self._leave(slot)
        self._idle.append(slot)
        if self._offered:
            self._hand_out()
        while slot.episode is None:
            self.park()
        return slot.episode

    def adopt(self, episode: Episode) -> None:
        """Play an episode in this slot that was not offered: one that goes on after a restart."""
        slot = self.current
        self._leave(slot)
        slot.episode, slot.has_played = episode, True
        self._player_of[episode.id] = slot

    def _leave(self, slot: Slot) -> None:
        if slot.episode is not None:
            self._player_of.pop(slot.episode.id, None)
        slot.episode, slot.version, slot.wanted, slot.decided = None, None, frozenset(), []

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            if self._torch_threads is not None:
                torch.set_num_threads(self._torch_threads)
            while not self._stopping:
                self._listen()
                self._play_ready()
                if self._asked and self._patience() == 0.0:
                    self._decide()
            self._end_slots()
        except BaseException as error:  # nobody else would hear of it: a thread dies in silence
            self._fail(error)

    def _post(self, verb: Callable[[Any], None], subject: Any) -> None:
        """Called by other threads."""
        self._letters.append((verb, subject))
        if self._sleeping:
            self._ring()

    def _ring(self) -> None:
        self._sleeping = False
        self._bell.put(None)

    def _listen(self) -> None:
        """Read all letters; wait for some where there is nothing else to do."""
        patience = self._patience()
        if not self._ready and patience != 0.0:
            self._sleep(patience)
        while self._letters:
            verb, subject = self._letters.popleft()
            verb(subject)

    def _sleep(self, patience: float | None) -> None:
        self._enough = 1
        if self._asked:  # a batch waits: it can go when everybody else who plays has written
            self._enough = len(self._player_of) - len(self._asked)
        self._sleeping = True
        # Looked at after the flag was set: what is written from now on rings the bell.
        if len(self._letters) < self._enough:
            with suppress(Empty):
                self._bell.get(timeout=patience)
        self._sleeping = False

    def _patience(self) -> float | None:
        """Seconds that those who wait for a decision may wait for others to join; None: nobody waits."""
        if not self._asked:
            return None
        # Everybody who plays is here, so nobody can join.
        if len(self._asked) >= len(self._player_of):
            return 0.0
        return max(0.0, self._asked_since + self._max_wait - time.monotonic())

    def _play_ready(self) -> None:
        """Let every slot that has something new go on until it waits again."""
        ready = self._ready
        while ready:
            slot = self._playing = ready.popleft()
            if not slot.dead:
                slot.go_on()
            if slot.dead:
                self._forget(slot)
        self._playing = None
        # Only now, when all who could become free are free.
        if self.grow is not None:
            for _ in self._offered:
                self.grow()

    def _forget(self, slot: Slot) -> None:
        self._leave(slot)
        self._slots.discard(slot)
        if slot in self._idle:
            self._idle.remove(slot)
        if slot.error is not None and not slot.has_played:
            raise slot.error  # the next one would not come further: better an end than trying for ever

    def _decide(self) -> None:
        asked, self._asked = self._asked, []
        by_policy: dict[PolicyID, list[Request]] = {}
        for _, policy, request in asked:
            by_policy.setdefault(policy, []).append(request)
            request.version = self.version
        for name, requests in by_policy.items():
            decide(self._real[name], requests, self._rng, self._explain)
            rows = sum(len(request.inputs) for request in requests)
            self.passes += 1
            self.rows += rows
            if self.on_pass is not None:
                self.on_pass(rows)
        self._ready.extend(slot for slot, _, _ in asked)

    # -- letters ---------------------------------------------------------------------------------------------------

    def _welcome(self, given: tuple[str, Body, Failed]) -> None:
        slot = Slot(*given)  # made here: a greenlet belongs to the thread that makes it
        self._slots.add(slot)
        self._ready.append(slot)

    def _seat(self, episode: Episode) -> None:
        self._offered.append(episode)
        self._hand_out()

    def _hand_out(self) -> None:
        while self._offered and self._idle:
            slot = self._idle.pop()
            slot.episode, slot.has_played = self._offered.popleft(), True
            self._player_of[slot.episode.id] = slot
            self._ready.append(slot)

    def _stir(self, episode: Episode) -> None:
        slot = self._player_of.get(episode.id)
        if slot is not None:
            self._ready.append(slot)

    def _take_weights(self, given: tuple[int, Mapping[PolicyID, Mapping[str, Array]]]) -> None:
        version, weights = given
        for name, arrays in weights.items():
            self._real[name].set_weights(dict(arrays))
        self.version = version

    def _stop(self, _: None) -> None:
        self._stopping = True

    def _end_slots(self) -> None:
        for slot in list(self._slots):
            self._playing = slot
            slot.end()
        self._slots.clear()

    def _fail(self, error: BaseException) -> None:
        self.failure = error
        told = PolicyError(
            f"the server cannot answer any more: its acting loop failed ({type(error).__name__}: {error}). Start it again."
        )
        told.__cause__ = error
        hear = [slot.failed for slot in self._slots]
        # The owner first: it tells all clients, also those of slots that cannot be told any more.
        if self.on_failure is not None:
            hear.insert(0, self.on_failure)
        for failed in hear:
            try:
                failed(told)
            except Exception as another:
                _log.error("a failure could not be told", exc_info=another)


def _do(job: Callable[[], None]) -> None:
    job()
