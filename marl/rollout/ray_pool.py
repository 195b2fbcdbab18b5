"""Workers on Ray actors. Ray is imported inside functions only, and never when ``num_workers`` is 0."""

from __future__ import annotations

import logging
import math
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from marl.data.episode import EpisodeStats
from marl.data.task import PolicyID
from marl.envs.batched import State
from marl.envs.tasks import Told
from marl.errors import ResourceError, TrainingError, UserError
from marl.policies.build import weights_of
from marl.policies.policy import Policy
from marl.rollout.config import RolloutConfig, RolloutSpec
from marl.rollout.pool import Round, WorkerPool, share, together
from marl.rollout.worker import RolloutWorker, Weights

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
        self.told: dict[int, list[Told]] = {}  # worker to what its copies were told since its state was taken
        self.weights: Any = None  # reference to the newest weights in the object store
        self.version = -1  # of these weights; the first ones are version 0
        self.replaced = 0
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
        pending = {index: send(actor, index) for index, actor in self.actors.items()}
        return [self._answer(index, pending[index], send) for index in self.indices]

    def _answer(self, index: int, reference: Any, send: Callable[[Any, int], Any]) -> Any:
        import ray

        for attempt in range(TRIES):
            try:
                if attempt:
                    self._replace(index)
                    reference = send(self.actors[index], index)
                return ray.get(reference)
            except ray.exceptions.RayTaskError as error:
                raise _original(error, index) from None
            except ray.exceptions.RayActorError as error:
                if not self.spec.config.recreate_failed_workers:
                    raise TrainingError(
                        f"worker {index} died ({_first_line(error)}) and recreate_failed_workers is false."
                    ) from None
        raise TrainingError(
            f"worker {index} died {TRIES} times in a row. Look at the last lines of Ray's logs; usual reasons are a "
            "crash in the world's own code and too little memory (fewer num_workers or num_envs_per_worker help)."
        )

    def _replace(self, index: int) -> None:
        """A new actor with the newest weights and the state that the last rollout brought along."""
        import ray

        self.replaced += 1
        log.warning("worker %d died and is replaced", index)
        actor = self.actors[index] = self._start(index)
        ray.get(actor.set_weights.remote(self.weights, self.version))
        if index in self.states:
            ray.get(actor.load_state_dict.remote(self.states[index]))
        if self.stage:
            ray.get(actor.enter.remote(self.stage))
        if index in self.told:
            ray.get(actor.tell.remote(self.told[index]))

    # -- the verbs -------------------------------------------------------------------------------------------------

    @property
    def num_healthy_workers(self) -> int:
        import ray

        pings = [actor.ping.remote() for actor in self.actors.values()]
        healthy = 0
        for ping in pings:
            try:
                ray.get(ping)
                healthy += 1
            except ray.exceptions.RayActorError:
                pass
        return healthy

    def start(self) -> None:
        if self._local.has_world:
            self._local.begin()
        self._call(lambda actor, _: actor.begin.remote())

    def collect(self, steps: int) -> Round:
        rollouts = self._call(lambda actor, _: actor.collect.remote(steps, with_state=True))
        self.states = {index: rollout.state for index, rollout in zip(self.indices, rollouts, strict=True)}
        self.told = {}  # the states know it now
        return together(rollouts)

    def evaluate(self, seeds: Sequence[int], explore: bool = False) -> EpisodeStats:
        parts = dict(zip(self.indices, share(seeds, len(self.indices)), strict=True))
        return EpisodeStats.concat(self._call(lambda actor, index: actor.evaluate.remote(parts[index], explore)))

    def _put(self, weights: Weights) -> None:
        import ray

        self.weights, self.version = ray.put(weights), self.version + 1

    def sync_weights(self) -> None:
        self._put(weights_of(self.policies))
        for actor in self.actors.values():
            actor.set_weights.remote(self.weights, self.version)

    def foreach_worker(self, fn: Callable[[RolloutWorker], T]) -> list[T]:
        here = fn(self._local)
        answers = self._call(lambda actor, _: actor.run_noting_tasks.remote(fn))
        self.told |= {i: told for i, (_, told) in zip(self.indices, answers, strict=True) if told is not None}
        return [here, *(answer for answer, _ in answers)]

    def local_worker(self) -> RolloutWorker:
        return self._local

    def state_dict(self) -> State:
        return {"workers": self._call(lambda actor, _: actor.state_dict.remote())}

    def load_state_dict(self, state: State) -> None:
        self.states = dict(zip(self.indices, state["workers"], strict=True))
        self.told = dict(state.get("told", ()))
        self._call(lambda actor, index: actor.load_state_dict.remote(self.states[index]))
        self._catch_up()

    def _catch_up(self) -> None:
        """Bring workers whose state is older than the newest stage or tasks up to date."""
        if self.stage:
            self._call(lambda actor, _: actor.enter.remote(self.stage))
        if self._local.has_world:
            self._local.enter(self.stage)
        if self.told:
            self._call(lambda actor, index: actor.tell.remote(self.told.get(index, [])))

    def stop(self) -> None:
        import ray

        for actor in self.actors.values():
            ray.kill(actor)
        if self.started_ray:
            ray.shutdown()


def finished(references: Sequence[Any]) -> list[Any]:
    """The calls that have ended, well or badly; waits for the first one where none has."""
    import ray

    ended, _ = ray.wait(references, num_returns=len(references), timeout=0)
    if not ended:
        ended, _ = ray.wait(references, num_returns=1)
    return list(ended)


def answered(ping: Any) -> bool | None:
    """Whether an actor answered (True), is dead (False), or is busy (None); waits for nothing."""
    import ray

    try:
        ray.get(ping, timeout=0)
    except ray.exceptions.GetTimeoutError:
        return None
    except ray.exceptions.RayActorError:
        return False
    return True


def start_ray(config: RolloutConfig, more_cpus: int = 0) -> bool:
    """Join a running cluster, or start Ray on this machine (loopback only, no dashboard) with room for the workers and
    ``more_cpus``. True: it is ours to shut down."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    talks = config.log_level in ("DEBUG", "INFO")  # the workers' lines come to this process
    import ray

    ours = not ray.is_initialized()
    if ours and config.address is not None:
        _knock(config.address)
        try:
            ray.init(address=config.address, log_to_driver=talks, logging_level="ERROR")
        except (ConnectionError, ValueError) as error:
            raise ResourceError(f"cannot join the Ray cluster at {config.address!r}: {_first_line(error)}") from error
    elif ours:
        needed = math.ceil(config.num_workers * config.num_cpus_per_worker) + more_cpus
        ray.init(
            num_cpus=config.ray_num_cpus or max(needed, os.cpu_count() or 1),
            include_dashboard=False,
            log_to_driver=talks,
            logging_level="ERROR",
            _node_ip_address="127.0.0.1",
        )
        log.info("started Ray with %g CPUs", ray.cluster_resources().get("CPU", 0))
    try:
        _check_resources(config, ray.cluster_resources())
    except ResourceError:
        if ours:
            ray.shutdown()
        raise
    return ours


def _knock(address: str) -> None:
    """Ray itself would try for minutes to reach a cluster that is not there."""
    host, _, port = address.rpartition(":")
    if not port.isdigit() or "/" in address:
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise ResourceError(
            f"no Ray cluster answers at {address!r} ({error}). Start one with `ray start --head`, or drop `address`."
        ) from error


def _check_resources(config: RolloutConfig, there: Mapping[str, float]) -> None:
    """Refuse a request that can never fit instead of waiting for ever."""
    per_worker = {
        "CPU": config.num_cpus_per_worker, "GPU": config.num_gpus_per_worker, **config.custom_resources_per_worker,
    }  # fmt: skip
    short = [
        f"{config.num_workers} workers x {amount:g} {name} = {config.num_workers * amount:g}, but there is "
        f"{there.get(name, 0):g}"
        for name, amount in per_worker.items()
        if config.num_workers * amount > there.get(name, 0)
    ]
    if short:
        raise ResourceError(
            f"the run can never start: {'; '.join(short)}. Ask for less, or join a larger cluster by `address`."
        )


def _original(error: Any, index: int) -> Exception:
    """The error as the worker raised it; a user's mistake keeps its own text."""
    cause = error.cause if isinstance(getattr(error, "cause", None), Exception) else error
    if isinstance(cause, UserError):
        return cause
    return TrainingError(f"worker {index} failed: {type(cause).__name__}: {cause}")


def _first_line(error: object) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
