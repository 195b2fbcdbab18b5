"""Workers on Ray actors. Ray is imported inside functions only, and never when ``num_workers`` is 0."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from marl.data.episode import EpisodeStats
from marl.data.task import PolicyID
from marl.envs.batched import State
from marl.envs.tasks import TaskMemory
from marl.errors import TrainingError, UserError
from marl.policies.build import weights_of
from marl.policies.policy import Policy
from marl.rollout.config import RolloutSpec
from marl.rollout.pool import WorkerPool, concat_rollouts, split_seeds
from marl.rollout.ray_instance import (
    check_ray,
    first_line,
    get,
    keep_logs,
    put,
    ray_is_lost,
    start_ray,
    stop_ray,
    wait_for_one,
)
from marl.rollout.rollout_buffer import Collected
from marl.rollout.worker import RolloutWorker
from marl.rollout.worker_policies import Weights

T = TypeVar("T")
log = logging.getLogger(__name__)
TRIES = 3  # replacements of one worker in one call before the run gives up


class RayPool(WorkerPool):
    """One actor per worker. Weights go out once per round through the object store; fragments come back in the order
    of the workers' index. Every rollout carries its worker's state, so an actor that dies is replaced and repeats the
    same numbers."""

    def __init__(self, spec: RolloutSpec, policies: Mapping[PolicyID, Policy]) -> None:
        super().__init__(spec, policies)
        self.started_ray = start_ray(spec.config)
        self._local = RolloutWorker(spec, 0, policies)
        self.states: dict[int, State] = {}
        self.tasks: dict[int, list[TaskMemory]] = {}  # worker to what its copies were told since its state was taken
        self.weights: Any = None  # reference to the newest weights in the object store
        self.version = -1  # of these weights; the first ones are version 0
        self.replaced = 0
        self._ended = False  # whether all actors were ended since the last rollouts
        self._pings: dict[int, Any] = {}  # worker to a ping that it has not answered yet
        self.actors = {index: self._start(index) for index in self.indices}
        self.sync_weights()

    def _start(self, index: int) -> Any:
        import ray

        config = self.spec.config
        actor = ray.remote(RolloutWorker).options(
            num_cpus=config.num_cpus_per_worker,
            num_gpus=config.num_gpus_per_worker,
            resources=config.custom_resources_per_worker,
            max_restarts=0,
        )
        return actor.remote(self.spec, index)

    # -- calls that survive the death of an actor ------------------------------------------------------------------

    def _call(self, send: Callable[[Any, int], Any]) -> list[Any]:
        """Call every actor at once and gather the answers by index; actors that died are replaced and asked again."""
        check_ray()
        pending = {index: send(actor, index) for index, actor in self.actors.items()}
        return [self._answer(index, pending[index], send) for index in self.indices]

    def _answer(self, index: int, reference: Any, send: Callable[[Any, int], Any]) -> Any:
        import ray

        for attempt in range(TRIES):
            try:
                if attempt:
                    self._replace(index)
                    reference = send(self.actors[index], index)
                return get(reference)
            except ray.exceptions.RayTaskError as error:
                raise _original(error, index) from None
            except ray.exceptions.RayActorError as error:
                if not self.spec.config.recreate_failed_workers:
                    raise TrainingError(
                        f"worker {index} died ({first_line(error)}) and recreate_failed_workers is false."
                    ) from None
        raise TrainingError(
            f"worker {index} died {TRIES} times in a row. Usual reasons are a crash in the env's own code and too "
            "little memory (fewer num_workers or num_envs_per_worker help). Look at the last lines of Ray's logs: "
            f"{keep_logs()}"
        )

    def _replace(self, index: int) -> None:
        """A new actor with the newest weights and the state that the last rollout brought along."""
        self.replaced += 1
        log.warning("worker %d died and is replaced", index)
        actor = self.actors[index] = self._start(index)
        self._pings.pop(index, None)
        get(actor.set_weights.remote(self.weights, self.version))
        if index in self.states:
            get(actor.load_state_dict.remote(self.states[index]))
        if self.stage:
            get(actor.enter.remote(self.stage))
        if index in self.tasks:
            get(actor.tell.remote(self.tasks[index]))

    # -- the verbs -------------------------------------------------------------------------------------------------

    @property
    def num_healthy_workers(self) -> int:
        import ray

        pings = [actor.ping.remote() for actor in self.actors.values()]
        healthy = 0
        for ping in pings:
            try:
                get(ping)
                healthy += 1
            except ray.exceptions.RayActorError:
                pass
        return healthy

    def _healthy_without_waiting(self) -> int:
        """The same where workers are busy, which counts as healthy; one ping at a time waits behind what they do."""
        healthy = 0
        for index in self.indices:
            ping = self._pings.pop(index, None) or self.actors[index].ping.remote()
            alive = answered(ping)
            healthy += alive is not False
            if alive is None:
                self._pings[index] = ping
        return healthy

    def start(self) -> None:
        if self._local.has_env:
            self._local.begin()
        self._call(lambda actor, _: actor.begin.remote())

    def collect(self, steps: int) -> Collected:
        if self.ahead:  # from the checkpoint of a run that played ahead
            return self._take_ahead()
        rollouts = self._call(lambda actor, _: actor.collect.remote(steps, with_state=True))
        self.states = {index: rollout.state for index, rollout in zip(self.indices, rollouts, strict=True)}
        self.tasks = {}  # the states know it now
        self._ended = False
        return concat_rollouts(rollouts)

    def evaluate(self, seeds: Sequence[int], explore: bool = False) -> EpisodeStats:
        parts = dict(zip(self.indices, split_seeds(seeds, len(self.indices)), strict=True))
        return EpisodeStats.concat(self._call(lambda actor, index: actor.evaluate.remote(parts[index], explore)))

    def abandon_evaluation(self) -> None:
        """Actors play on and hear nothing meanwhile: they are ended. Whoever calls them again gets new ones, with the states
        that the last rollouts brought along."""
        import ray

        self._ended = True
        for actor in self.actors.values():
            ray.kill(actor)

    def _put(self, weights: Weights) -> None:
        self.weights, self.version = put(weights), self.version + 1

    def sync_weights(self) -> None:
        self._put(weights_of(self.policies))
        self._tell_weights()

    def _tell_weights(self) -> None:
        for actor in self.actors.values():
            actor.set_weights.remote(self.weights, self.version)

    def foreach_worker(self, fn: Callable[[RolloutWorker], T]) -> list[T]:
        here = fn(self._local)
        answers = self._call(lambda actor, _: actor.run_noting_tasks.remote(fn))
        results = [here]
        for index, (answer, tasks) in zip(self.indices, answers, strict=True):
            results.append(answer)
            if tasks is not None:
                self.tasks[index] = tasks
        return results

    def local_worker(self) -> RolloutWorker:
        return self._local

    def change_policies(self, spec: RolloutSpec, policies: Mapping[PolicyID, Policy]) -> int:
        self._local.change_policies(spec, policies)
        cut = self._call(lambda actor, _: actor.change_policies.remote(spec))
        self.spec, self.policies = spec, policies
        self.sync_weights()
        # With these a worker that dies begins with the new policies; the old states know other ones.
        states = self._call(lambda actor, _: actor.state_dict.remote())
        self.states = dict(zip(self.indices, states, strict=True))
        return sum(cut)

    def state_dict(self) -> State:
        known = len(self.states) == len(self.indices)
        if self._ended and known:  # a checkpoint at the end of a run does not wait for new actors
            states = [self.states[index] for index in self.indices]
            return {"workers": states, "told": list(self.tasks.items()), **self._ahead_state()}
        return {"workers": self._call(lambda actor, _: actor.state_dict.remote()), **self._ahead_state()}

    def load_state_dict(self, state: State) -> None:
        self._load_ahead(state)
        self.states = dict(zip(self.indices, state["workers"], strict=True))
        self.tasks = dict(state.get("told", ()))
        self._call(lambda actor, index: actor.load_state_dict.remote(self.states[index]))
        self._catch_up()

    def _catch_up(self) -> None:
        """Bring workers whose state is older than the newest stage or tasks up to date."""
        if self.stage:
            self._call(lambda actor, _: actor.enter.remote(self.stage))
        if self._local.has_env:
            self._local.enter(self.stage)
        if self.tasks:
            self._call(lambda actor, index: actor.tell.remote(self.tasks.get(index, [])))

    def stop(self) -> None:
        import ray

        if not ray_is_lost():
            for actor in self.actors.values():
                ray.kill(actor)
        if self.started_ray:
            stop_ray()


def finished(references: Sequence[Any]) -> list[Any]:
    """The calls that have ended, well or badly; waits for the first one where none has."""
    import ray

    check_ray()
    ended, _ = ray.wait(references, num_returns=len(references), timeout=0)
    return list(ended) or wait_for_one(list(references))


def answered(ping: Any) -> bool | None:
    """Whether an actor answered (True), is dead (False), or is busy (None); waits for nothing."""
    import ray

    try:
        get(ping, timeout=0)
    except ray.exceptions.GetTimeoutError:
        return None
    except ray.exceptions.RayActorError:
        return False
    return True


def _original(error: Any, index: int) -> Exception:
    """The error as the worker raised it; a user's mistake keeps its own text."""
    cause = error.cause if isinstance(getattr(error, "cause", None), Exception) else error
    if isinstance(cause, UserError):
        return cause
    return TrainingError(f"worker {index} failed: {type(cause).__name__}: {cause}")
