"""Trials of a population on Ray: processes that stay, each of which trains one trial after the other.

Ray Tune starts a process per trial and lets it run to its end; here trials wait for each other at every generation. So a
*host* takes a trial from its checkpoint, trains it until the generation ends, writes a checkpoint, and takes the next one.
Ray is imported inside functions only.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from marl.registry import registrations
from marl.training.loop import interruptible
from marl.trust import under
from marl.tune.journal import ERROR, PENDING, RUNNING, TERMINATED, Journal
from marl.tune.plan import Planned
from marl.tune.play_population import play_population
from marl.tune.ray_trials import Job, sendable
from marl.tune.resources import Bundle, total
from marl.tune.table import Screen
from marl.tune.trial import RunningTrial, read_error

STOPPING = "stopping all trials after their iteration; press Ctrl-C again to stop at once"
ARRIVED = "arrived"  # in what a host tells: the trial is where its generation ends


class TrialActor:
    """The process of a host."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.running: RunningTrial | None = None

    def advance(self, trial: Planned, until: float) -> dict[str, Any]:
        """One iteration of a trial, which is begun if it is not the one at hand; it is put down where it has to wait."""
        if self.running is None:
            self.running = self.job.with_trial(trial).begin(trial.index)
            if self.running.arrived(until):
                self.put_down(draw=False)
                return {ARRIVED: True, "done": False}
        try:
            told = self.job.step(self.running)
        except Exception:
            self.put_down()
            raise
        told[ARRIVED] = self.running.arrived(until)
        if told["done"] or told[ARRIVED]:
            self.put_down(draw=told["done"])
        return told

    def put_down(self, draw: bool = True) -> None:
        """Leave a checkpoint of the trial at hand, if there is one."""
        running, self.running = self.running, None
        if running is not None:
            running.close(draw)


@dataclass
class Host:
    """A place for one trial at a time: what it holds of Ray, and whom it trains."""

    group: Any  # the placement group
    actor: Any = None  # None until the group has its resources
    trial: Planned | None = None


class OnRay:
    """Trains trials on hosts, as many at a time as there is room for."""

    def __init__(self, journal: Journal, there: Mapping[str, float], screen: Screen) -> None:
        plan = journal.plan
        self.journal, self.screen = journal, screen
        self.stopped: Callable[[], bool] = lambda: False
        self._bundles = plan.trials[0].bundles
        self._job = Job(plan, journal.directory.resolve(), sendable(registrations()))
        room = places(self._bundles, there)
        count = min(room, len(journal.open_trials), plan.options.max_concurrent_trials or room)
        self._hosts = [self._new_host() for _ in range(count)]

    def play(self, trials: Sequence[Planned], until: float) -> None:
        """Until the clock shows ``until``, the trial ends or fails, or Ctrl-C."""
        from marl.rollout.ray_instance import wait_for_one

        waiting = deque(trials)
        calls: dict[Any, Host] = {}
        for host in self._hosts:
            call = self._next_call(host, waiting, until)
            if call is not None:
                calls[call] = host
        while calls:
            (ended,) = wait_for_one(list(calls))
            host = calls.pop(ended)
            self._take_in(host, ended)
            call = self._next_call(host, waiting, until)
            if call is not None:
                calls[call] = host

    def _next_call(self, host: Host, waiting: deque[Planned], until: float) -> Any:
        """What a host does next; None where there is nothing left for it to do."""
        if host.actor is None:
            if not waiting or self.stopped():
                return None
            return host.group.ready()
        if self.stopped():
            if host.trial is None:
                return None
            host.trial = None
            return host.actor.put_down.remote()
        if host.trial is None:
            if not waiting:
                return None
            host.trial = waiting.popleft()
            self._note(host.trial, RUNNING)
        return host.actor.advance.remote(host.trial, until)

    def _take_in(self, host: Host, call: Any) -> None:
        """What a call of a host has brought."""
        from ray.exceptions import RayActorError, RayError

        from marl.rollout.ray_instance import check_ray, get

        trial = host.trial
        try:
            told = get(call)
        except RayError as error:
            check_ray()  # a trial that went down with Ray has not failed
            if isinstance(error, RayActorError):
                self._replace(host)
            if trial is not None:
                self._note(trial, ERROR, read_error(self.journal.directory_of(trial)))
            host.trial = None
            return
        if host.actor is None:
            host.actor = self._start(host.group)
        elif trial is not None and told is not None:
            self._take_result(host, trial, told)

    def _take_result(self, host: Host, trial: Planned, told: Mapping[str, Any]) -> None:
        if "shown" in told:
            self.screen.result(trial.index, told)
        if told["done"]:
            self._note(trial, TERMINATED)
            host.trial = None
        elif told[ARRIVED]:
            # It waits for the others. Without a line for each: a search has many generations.
            self.journal.status[trial.index] = self.screen.board.rows[trial.index].status = PENDING
            host.trial = None

    def _note(self, trial: Planned, status: str, why: str = "") -> None:
        row = self.screen.board.rows[trial.index]
        if status == RUNNING and row.shown:  # again, in another generation: nothing new
            row.status = RUNNING
        self.journal.note(trial.index, status, why)
        self.screen.status(trial.index, status, why)

    def _new_host(self) -> Host:
        from ray.util.placement_group import placement_group

        return Host(placement_group(self._bundles))

    def _replace(self, host: Host) -> None:
        """The process of a host died; another one takes its place."""
        self._end(host)
        fresh = self._new_host()
        host.group, host.actor = fresh.group, None

    def _start(self, group: Any) -> Any:
        import ray
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        # Workers of the trial are children of this process, and find their resources in the same group.
        strategy = PlacementGroupSchedulingStrategy(
            group, placement_group_bundle_index=0, placement_group_capture_child_tasks=True
        )
        own = dict(self._bundles[0])
        options = {"num_cpus": own.pop("CPU", 0.0), "num_gpus": own.pop("GPU", 0.0), "resources": own}
        actor = ray.remote(TrialActor)
        return actor.options(scheduling_strategy=strategy, max_restarts=0, **options).remote(self._job)

    def _end(self, host: Host) -> None:
        import ray
        from ray.util.placement_group import remove_placement_group

        with suppress(Exception):  # whatever is gone already, or goes with Ray
            if host.actor is not None:
                ray.kill(host.actor)
            remove_placement_group(host.group)

    def close(self) -> None:
        for host in self._hosts:
            self._end(host)


def places(bundles: Sequence[Bundle], there: Mapping[str, float]) -> int:
    """For how many trials there is room; at least one, as was checked before."""
    room = math.inf
    for name, amount in total(bundles).items():
        if amount > 0:
            room = min(room, there.get(name, 0.0) / amount + 1e-9)  # sums of fractions are rounded
    if room == math.inf:  # trials that ask for nothing
        room = there.get("CPU", 1.0)
    return max(1, int(room))


def play_on_ray(journal: Journal, there: Mapping[str, float], screen: Screen) -> None:
    """Play a population to its end, or until Ctrl-C."""
    with (
        _hosts(journal, there, screen) as hosts,
        under(journal.plan.trust),
        interruptible(lambda: screen.note(STOPPING)) as stopped,
    ):
        hosts.stopped = stopped
        play_population(journal, hosts, screen)


@contextmanager
def _hosts(journal: Journal, there: Mapping[str, float], screen: Screen) -> Iterator[OnRay]:
    hosts = OnRay(journal, there, screen)
    try:
        yield hosts
    finally:
        hosts.close()
