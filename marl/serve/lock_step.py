"""Learning from clients in lock-step: the trainer's own thread collects as always, and every copy waits for its client.

A client gets its next action when all copies have reported, and after an update only when that is done. So the run equals one
in which the same env is played in this process, bit for bit, whoever is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from marl.data.task import PolicyID
from marl.envs.batched import BatchedEnv, State
from marl.envs.vector.vector_env import DictVector
from marl.errors import StoppedWaitingError
from marl.policies.build import same_weights, weights_of
from marl.policies.policy import Policy
from marl.rollout.config import RolloutSpec
from marl.rollout.pool import InProcessPool
from marl.rollout.rollout_buffer import Collected
from marl.rollout.worker import RolloutWorker
from marl.serve.ahead import SteppedTogether
from marl.serve.client_worker import ClientWorker
from marl.serve.service import Service
from marl.serve.thread_line import ThreadLine, WaitingStage


class LockStepWorker(ClientWorker):
    """All its copies get their actions before any is waited for."""

    def _together(self, env: BatchedEnv) -> BatchedEnv:
        assert isinstance(env, DictVector)
        return SteppedTogether(env.envs, env.name, self.index, env.with_state)


class LockStepPool(InProcessPool):
    """The one worker of a run in lock-step. It begins to serve when it is first asked to collect, or by ``serve``.

    A checkpoint that is written after the run was stopped in the middle of a round holds the worker as it was before the
    round; what clients reported since is in the journal.
    """

    keeps_journal = True

    def __init__(
        self, spec: RolloutSpec, policies: Mapping[PolicyID, Policy], stage: WaitingStage, service: Service
    ) -> None:
        self.clients, self.service = stage, service
        stage.hub = service.hub
        self._live = False
        self._marked: int | None = 0  # the segment of the journal that the newest checkpoint goes on from
        self._newest = weights_of(policies)
        self._saved: State = None  # of a checkpoint, put to use when there is a server
        self._before_round: State = None
        self._broken_off = False
        super().__init__(spec, policies)

    def _make_workers(self) -> list[RolloutWorker]:
        worker = LockStepWorker(self.spec, 0, self.policies)
        worker.lines = lambda env_id: ThreadLine(self.clients, f"copy_{env_id}")
        return [worker]

    # -- serving -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Nobody is waited for yet: where clients are to come is told when the run begins."""

    def opened(self, directory: Path) -> None:
        self.service.directory = directory

    def hear(self, note: Callable[[str], None], busy: Callable[[str], None]) -> None:
        copies = self.spec.config.num_envs_per_worker

        def tell(waiting: int) -> None:
            told = ""
            if waiting:
                told = f"waiting for clients: {copies - waiting} of {copies} episodes are played"
            busy(told)

        self.clients.changed = tell
        self.service.note = note

    def serve(self) -> str:
        """Listen to clients, unless that is done already; returns the server's address."""
        # Not when the pool is built: a journal has its place only when the run has a directory.
        if not self._live:
            self._live = True
            saved, self._saved = self._saved, None
            if saved is None:
                self.service.start()
            else:
                self._go_on(saved)
        return self.service.url

    def _go_on(self, saved: State) -> None:
        """What clients have reported since the checkpoint is played again from the journal, then they are waited for."""
        self.clients.version = saved["version"]
        self.service.start(saved["segment"])
        if saved["workers"] is not None:
            super().load_state_dict(saved)

    def collect(self, steps: int) -> Collected:
        self.serve()
        # A wait may be broken off anywhere in the round, where the worker's state is that of no moment.
        self._before_round = self._state_now(self.service.segment)
        try:
            return super().collect(steps)
        except StoppedWaitingError:
            self._broken_off = True
            raise

    def sync_weights(self) -> None:
        """A version is a change of the weights: learners that only gather data make none."""
        newest = weights_of(self.policies)
        if not same_weights(newest, self._newest):
            self._newest = newest
            self.clients.version += 1

    def stop_waiting(self) -> bool:
        self.clients.stop()
        return True

    def stop(self) -> None:
        self.clients.stop()
        self.service.stop("the run has ended")
        super().stop()

    # -- state -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        if self._broken_off:
            self._marked = self._before_round["segment"]
            return self._before_round
        if not self._live:
            return self._saved or {"workers": None, "version": self.clients.version, "segment": 0}
        self._marked = self.service.mark()
        return self._state_now(self._marked)

    def saved(self, checkpoint: Path) -> None:
        self.service.saved(checkpoint, self._marked)

    def _state_now(self, segment: int | None) -> State:
        workers: list[Any] | None = None
        worker = self.workers[0]
        # Asked for its state, a worker would begin its first episodes, and wait for clients that may never come.
        if isinstance(worker, ClientWorker) and worker.has_begun:
            workers = [worker.state_dict() for worker in self.workers]
        return {"workers": workers, "version": self.clients.version, "segment": segment}

    def load_state_dict(self, state: State) -> None:
        # Put to use by `serve`: episodes are rejoined through the hub, which has to know its journal first.
        self._saved = state
