"""Workers behind one set of verbs. This one keeps them in the process; ``ray_pool`` has the same verbs on Ray actors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from marl.data.batch import MultiAgentBatch
from marl.data.episode import EpisodeStats
from marl.data.task import PolicyID
from marl.envs.batched import State
from marl.errors import ConfigError
from marl.log import set_log_level
from marl.policies.policy import Policy
from marl.rollout.ahead import rollout_from, rollout_state
from marl.rollout.config import RolloutSpec
from marl.rollout.rollout_buffer import Collected, Rollout
from marl.rollout.worker import RolloutWorker

T = TypeVar("T")


class WorkerPool(ABC):
    """Collects, evaluates, and lets the user's functions reach every worker."""

    keeps_journal = False  # whether what it collects outlives the process, from the first checkpoint on

    def __init__(self, spec: RolloutSpec, policies: Mapping[PolicyID, Policy]) -> None:
        set_log_level(spec.config.log_level)
        self.spec = spec
        self.policies = policies
        self.indices = range(1, spec.config.num_workers + 1)
        if not self.indices:
            self.indices = range(1)  # no workers beside the trainer: its own one collects
        self.stage = 0  # of the curriculum
        self.ahead: list[Rollout] = []  # by worker: a round that was played before learners asked for it

    @property
    @abstractmethod
    def num_healthy_workers(self) -> int: ...

    @abstractmethod
    def start(self) -> None:
        """Build the envs and begin the first episodes, so that what is wrong with them shows before anything else."""

    @abstractmethod
    def collect(self, steps: int) -> Collected:
        """One round with the current weights."""

    @abstractmethod
    def evaluate(self, seeds: Sequence[int], explore: bool = False) -> EpisodeStats:
        """One episode per seed, spread over the workers; results in the order of the seeds."""

    @abstractmethod
    def sync_weights(self) -> None:
        """Bring the learners' weights to the workers. Until then workers act with the weights they have."""

    @abstractmethod
    def foreach_worker(self, fn: Callable[[RolloutWorker], T]) -> list[T]:
        """Call ``fn`` with every worker: the one of this process first, then the others by index."""

    @abstractmethod
    def local_worker(self) -> RolloutWorker:
        """The worker of this process; its policies are the trainer's own."""

    @abstractmethod
    def change_policies(self, spec: RolloutSpec, policies: Mapping[PolicyID, Policy]) -> int:
        """Play with these policies and this mapper from now on; returns how many running episodes are broken off."""

    @abstractmethod
    def state_dict(self) -> State: ...

    @abstractmethod
    def load_state_dict(self, state: State) -> None: ...

    @abstractmethod
    def abandon_evaluation(self) -> None:
        """An evaluation was broken off in the middle. What was collected and learned is as it was."""

    def foreach_worker_with_index(self, fn: Callable[[RolloutWorker, int], T]) -> list[T]:
        return self.foreach_worker(lambda worker: fn(worker, worker.index))

    def foreach_env(self, fn: Callable[[Any], T]) -> list[list[T]]:
        """Call ``fn`` with every copy of the env; one list per worker that has any."""

        def in_worker(worker: RolloutWorker) -> list[T] | None:
            if not worker.has_env:
                return None
            return worker.foreach_env(fn)

        by_worker = self.foreach_worker(in_worker)
        return [results for results in by_worker if results is not None]

    def enter_stage(self, stage: int) -> int:
        """All copies play this stage of the curriculum from now on; returns how many running episodes are broken off."""

        def enter(worker: RolloutWorker) -> int:
            if not worker.has_env:
                return 0
            return worker.enter(stage)

        self.stage = stage
        return sum(self.foreach_worker(enter))

    def drop_ahead(self) -> None:
        """Learners shall not get what was played ahead of them: others play now, or something else is played."""
        self.ahead = []

    def _take_ahead(self) -> Collected:
        rollouts, self.ahead = self.ahead, []
        return concat_rollouts(rollouts)

    def _ahead_state(self) -> State:
        if not self.ahead:
            return {}
        return {"ahead": [rollout_state(rollout) for rollout in self.ahead]}

    def _load_ahead(self, state: State) -> None:
        """Also where the run does not play ahead any more: nothing that was played is left out."""
        self.ahead = []
        for rollout in state.get("ahead", ()):
            self.ahead.append(rollout_from(rollout, self.spec.task, tuple(self.policies)))

    def opened(self, directory: Path) -> None:
        """The run writes into this directory from now on."""

    def serve(self) -> str:
        """Listen to the clients of an external env, unless that is done already; returns the address."""
        raise ConfigError("only a run with env: external listens to clients; this one plays its env itself.")

    def saved(self, checkpoint: Path) -> None:
        """A checkpoint with the pool's state has been written into the run directory."""

    def hear(self, note: Callable[[str], None], busy: Callable[[str], None]) -> None:
        """Whom to tell what a person should know, and what is being waited for."""

    def stop_waiting(self) -> bool:
        """For a handler of signals: end ``collect`` at once. False: it ends by itself, nobody outside is waited for."""
        return False

    def stop(self) -> None:
        """Free everything. The pool cannot be used afterwards."""


def split_seeds(seeds: Sequence[int], workers: int) -> list[list[int]]:
    """Seeds in equal runs, one per worker."""
    return [part.tolist() for part in np.array_split(np.asarray(seeds, np.int64), workers)]


def concat_rollouts(rollouts: Sequence[Rollout]) -> Collected:
    """Side by side, in the order of the workers."""
    joined = Collected(
        MultiAgentBatch.concat([rollout.batch for rollout in rollouts]),
        EpisodeStats.concat([rollout.episodes for rollout in rollouts]),
    )
    for rollout in rollouts:
        joined.decisions_lost += rollout.decisions_lost
        joined.notes += rollout.notes
        for activity, seconds in rollout.seconds.items():
            joined.seconds[activity] = joined.seconds.get(activity, 0.0) + seconds
    return joined


class InProcessPool(WorkerPool):
    """The reference: the same workers with the same numbers, one after the other, acting with the trainer's own policies."""

    def __init__(self, spec: RolloutSpec, policies: Mapping[PolicyID, Policy]) -> None:
        super().__init__(spec, policies)
        self.workers = self._make_workers()

    def _make_workers(self) -> Sequence[RolloutWorker]:
        return [RolloutWorker(self.spec, index, self.policies) for index in self.indices]

    @property
    def num_healthy_workers(self) -> int:
        return len(self.workers)

    def start(self) -> None:
        for worker in self.workers:
            worker.begin()

    def collect(self, steps: int) -> Collected:
        if self.ahead:  # from the checkpoint of a run that played ahead
            return self._take_ahead()
        if len(self.workers) == 1:
            return self.workers[0].collect(steps)
        return concat_rollouts(self._play(steps))

    def _play(self, steps: int) -> list[Rollout]:
        return [worker.collect(steps) for worker in self.workers]

    def evaluate(self, seeds: Sequence[int], explore: bool = False) -> EpisodeStats:
        parts = zip(self.workers, split_seeds(seeds, len(self.workers)), strict=True)
        return EpisodeStats.concat([worker.evaluate(part, explore) for worker, part in parts])

    def abandon_evaluation(self) -> None:
        for worker in self.workers:
            worker.drop_evaluator()

    def sync_weights(self) -> None:
        """Nothing to do: workers act with the trainer's own policies."""

    def foreach_worker(self, fn: Callable[[RolloutWorker], T]) -> list[T]:
        return [fn(worker) for worker in self.workers]

    def local_worker(self) -> RolloutWorker:
        return self.workers[0]

    def change_policies(self, spec: RolloutSpec, policies: Mapping[PolicyID, Policy]) -> int:
        self.spec, self.policies = spec, policies
        return sum(worker.change_policies(spec, policies) for worker in self.workers)

    def state_dict(self) -> State:
        return {"workers": [worker.state_dict() for worker in self.workers], **self._ahead_state()}

    def load_state_dict(self, state: State) -> None:
        self._load_ahead(state)
        for worker, saved in zip(self.workers, state["workers"], strict=True):
            worker.load_state_dict(saved)

    def stop(self) -> None:
        for worker in self.workers:
            worker.close()
