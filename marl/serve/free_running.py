"""Learning from clients that play on while learners learn.

Every episode that is played at once has a slot in an acting loop (``acting.py``), in a thread of its own and with its own
copies of the policies. A slot hands over a fragment when it has played ``rollout_fragment_length`` rows, and rests while
nobody has taken the one before, so clients never run far ahead of slow learners. Which fragment comes first depends on time,
so runs do not repeat.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

import numpy as np

from marl.data.episode import EpisodeStats
from marl.data.task import PolicyID
from marl.envs.batched import State
from marl.errors import ConfigError, StoppedWaitingError
from marl.policies.build import same_weights, weights_of
from marl.policies.policy import Policy
from marl.rollout.config import RolloutSpec
from marl.rollout.pool import WorkerPool
from marl.rollout.rollout_buffer import Collected
from marl.rollout.worker import RolloutWorker
from marl.scenario.external import strict_policies
from marl.scenario.resolve import Setup
from marl.serve.client_worker import ClientWorker
from marl.serve.fragments import Fragment, without_stale
from marl.serve.free_stage import FreeStage
from marl.serve.service import Service
from marl.serve.training_slot import SlotWorker

T = TypeVar("T")
RECENT = 100  # fragments that the reported lag covers
STOP = "stop"


class DriversWorker(ClientWorker):
    """The worker of the trainer's own process: it evaluates, and has no copy of the clients' env."""

    has_env = False


class FreeRunningPool(WorkerPool):
    """A round is one fragment of one slot, without what the learners cannot use."""

    def __init__(self, setup: Setup, policies: Mapping[PolicyID, Policy], stage: FreeStage, service: Service) -> None:
        super().__init__(setup.rollout, policies)
        self.clients, self.service = stage, service
        self.strict = strict_policies(setup.roles)
        self.version = 0
        self.stale_steps_dropped = 0
        self.lags: deque[int] = deque(maxlen=RECENT)
        self.lives = 0  # how often the run was resumed: its slots then draw other numbers
        self.slots: list[SlotWorker] = []
        self._fragment = setup.fragment
        self._driver = DriversWorker(setup.rollout, 0, policies)
        self._handed: SimpleQueue[Fragment | BaseException | str] = SimpleQueue()
        self._taken: list[bool] = []  # by slot: whether its last fragment was taken
        self._busy: Callable[[str], None] = _tell_nobody
        self._live = False

    # -- serving -----------------------------------------------------------------------------------------------------

    @property
    def num_healthy_workers(self) -> int:
        return 1

    def start(self) -> None:
        """Nobody is waited for yet: where clients are to come is told when the run begins."""

    def opened(self, directory: Path) -> None:
        """Its journal is for the clients: after a restart they are told which of their episodes are over."""
        self.service.directory = directory

    def hear(self, note: Callable[[str], None], busy: Callable[[str], None]) -> None:
        self.service.note, self._busy = note, busy

    def serve(self) -> str:
        """Listen to clients, unless that is done already; returns the server's address."""
        if not self._live:
            self._live = True
            self.clients.renew(self.version, weights_of(self.policies))
            self.clients.loop.on_failure = self._handed.put
            self.clients.loop.start()
            for slot in range(self.spec.config.num_envs_per_worker):
                self._taken.append(True)
                self.clients.loop.spawn(partial(self._play, slot), self._handed.put, f"copy_{slot}")
            self.service.on_failure = self._handed.put
            self.service.start(play_again=False)
        return self.service.url

    def _play(self, slot: int) -> None:
        """The life of one slot, in the loop's thread."""
        # Numbers of workers are part of their seeds and of episodes' ids, so none comes twice in the lives of a run.
        config = self.spec.config.model_copy(update={"num_envs_per_worker": 1})
        index = 1 + slot + self.lives * self.spec.config.num_envs_per_worker
        worker = SlotWorker(replace(self.spec, config=config), index, self.clients.loop, self.service.hub)
        self.slots.append(worker)
        while True:
            fragment = worker.fragment(self._fragment, slot)
            # Its client waits for the next action meanwhile: that is how slow learners slow clients down.
            while not self._taken[slot]:
                self.clients.loop.park()
            self._taken[slot] = False
            self._handed.put(fragment)

    # -- collecting --------------------------------------------------------------------------------------------------

    def collect(self, steps: int) -> Collected:
        del steps  # slots have been told
        self.serve()
        ended: list[EpisodeStats] = []
        lost = 0
        notes: list[str] = []
        while True:
            fragment = self._next_fragment()
            rollout = fragment.rollout
            ended.append(rollout.episodes)
            lost += rollout.decisions_lost
            notes += rollout.notes
            self.lags.append(self.version - fragment.played_by)
            batch, stale = without_stale(fragment, self.version, self.strict)
            self.stale_steps_dropped += stale
            if batch is None:  # nothing of it is of use; episodes that ended in it count all the same
                continue
            batch.first_lane = fragment.slot
            return Collected(
                batch, EpisodeStats.concat(ended), lost, notes, extra=self._extra(), seconds=rollout.seconds
            )

    def _next_fragment(self) -> Fragment:
        if self._handed.empty():
            counters = self.service.hub.counters
            self._busy(
                f"waiting for clients: {counters.open} of {self.spec.config.num_envs_per_worker} episodes are played"
            )
        handed = self._handed.get()
        self._busy("")
        if isinstance(handed, BaseException):  # of a slot, or of the loop: nobody plays any more
            self._handed.put(handed)  # whoever asks again is told the same
            raise handed
        if isinstance(handed, str):
            raise StoppedWaitingError("the run was stopped while it waited for clients.")
        self.clients.loop.call(partial(self._was_taken, handed.slot))
        return handed

    def _was_taken(self, slot: int) -> None:
        """In the loop's thread: the slot may go on."""
        self._taken[slot] = True
        self.clients.loop.wake(f"copy_{slot}")

    def _extra(self) -> dict[str, float]:
        return {
            "policy_lag_mean": float(np.mean(self.lags)),
            "policy_lag_max": float(max(self.lags)),
            "stale_steps_dropped": float(self.stale_steps_dropped),
            "num_clients": float(self.service.hub.counters.sessions),
        }

    def sync_weights(self) -> None:
        """A version is a change of the weights: learners that only gather data make none."""
        newest = weights_of(self.policies)
        if not same_weights(newest, self.clients.weights):
            self.version += 1
            self.clients.renew(self.version, newest)

    def stop_waiting(self) -> bool:
        self._handed.put(STOP)
        return True

    def stop(self) -> None:
        self.service.stop("the run has ended")
        # After the server: what its clients still wait for has been refused, and nothing new arrives.
        if self._live:
            self.clients.loop.stop()
        self._driver.close()

    # -- the other verbs ---------------------------------------------------------------------------------------------

    def evaluate(self, seeds: Sequence[int], explore: bool = False) -> EpisodeStats:
        return self._driver.evaluate(seeds, explore)

    def abandon_evaluation(self) -> None:
        self._driver.drop_evaluator()

    def local_worker(self) -> RolloutWorker:
        return self._driver

    def foreach_worker(self, fn: Callable[[RolloutWorker], T]) -> list[T]:
        """The driver's worker here, those of slots in the loop's thread between two passes."""
        found = [fn(self._driver)]
        if self._live:
            found += self._in_loop(lambda: [fn(worker) for worker in self.slots])
        return found

    def _in_loop(self, job: Callable[[], list[T]]) -> list[T]:
        answer: Future[list[T]] = Future()

        def work() -> None:
            try:
                answer.set_result(job())
            except BaseException as error:  # a failure of the user's function is not the loop's
                answer.set_exception(error)

        self.clients.loop.call(work)
        return answer.result()

    def change_policies(self, spec: RolloutSpec, policies: Mapping[PolicyID, Policy]) -> int:
        del spec, policies
        raise ConfigError(
            "policies cannot be changed while clients play on. Stop the run and start one with the policies that you want, "
            "or use external: {lock_step: true}."
        )

    def state_dict(self) -> State:
        return {"version": self.version, "lives": self.lives, "stale_steps_dropped": self.stale_steps_dropped}

    def saved(self, checkpoint: Path) -> None:
        """A new segment each time, or the journal of a long run would fill the disk."""
        del checkpoint
        if self._live:
            self.service.forget_past()

    def load_state_dict(self, state: State) -> None:
        """Episodes that were open end with the process that played them; their clients begin new ones."""
        self.version = state["version"]
        self.lives = state["lives"] + 1
        self.stale_steps_dropped = state["stale_steps_dropped"]


def _tell_nobody(text: str) -> None:
    del text
