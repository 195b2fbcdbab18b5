"""Train whatever is still open of a suite: jobs in the order of the file, several at a time where asked for."""

from __future__ import annotations

import _thread
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace

from marl.runs.lock import take_lock
from marl.storage import make_folder
from marl.suite.hosts import Host, InProcess, Processes
from marl.suite.plan import Plan, PlannedCell, check_unchanged, put_aside
from marl.suite.screen import Screen
from marl.suite.train import FAILED, STOPPED, Job, Status
from marl.training.loop import interruptible

POLL_S = 0.2  # seconds between two looks at the jobs


@dataclass(frozen=True)
class How:
    """Options of the command."""

    jobs: int = 1
    ray: str | None = None  # address of a cluster, or local
    minutes: float | None = None
    niceness: int = 0
    again: bool = False  # train cells anew whose keys have changed


@dataclass
class Ran:
    """What one call has done."""

    trained: int = 0  # jobs that reached their end
    failed: dict[str, str] = field(default_factory=dict)  # title to error
    interrupted: bool = False
    time_is_up: bool = False
    open_jobs: int = 0  # that are still to be done


def jobs_of(cells: Sequence[PlannedCell], niceness: int = 0) -> list[Job]:
    """What is still to be trained, in the order of the cells: all open seeds of a stacked cell at once, else one by one."""
    found = []
    for planned in cells:
        seeds = planned.open_seeds()
        rule = planned.cell.early_stop
        assert planned.cell.budget is not None
        whole = Job(
            cell=planned.cell.name,
            folder=str(planned.folder),
            raw=planned.raw,
            seeds=seeds,
            metric=planned.cell.metric,
            budget=planned.cell.budget,
            rule=None if rule is None else asdict(rule),
            niceness=niceness,
        )
        if planned.stacked:
            found += [whole] if seeds else []
        else:
            found += [replace(whole, seeds=[seed]) for seed in seeds]
    return found


def run_suite(plan: Plan, cells: Sequence[PlannedCell], how: How, screen: Screen) -> Ran:
    """Train the open jobs of these cells. A job that fails does not stop the others."""
    if not how.again:
        check_unchanged(cells)
        if not jobs_of(cells):
            return Ran()
    make_folder(plan.folder)
    lock = take_lock(plan.folder)  # before anything is moved: another process may be training these cells
    try:
        for name in put_aside(cells, plan.folder):
            screen.say(f"{name}: its keys have changed; what was there is in {plan.folder / 'replaced'}")
        return _train_open(plan, cells, how, screen)
    finally:
        lock.release()


def _train_open(plan: Plan, cells: Sequence[PlannedCell], how: How, screen: Screen) -> Ran:
    jobs = jobs_of(cells, how.niceness)
    ran = Ran(open_jobs=len(jobs))
    if not jobs:
        return ran
    screen.start(cells, jobs)
    try:
        with _host(how, plan, screen.show) as host:
            screen.watch(host)
            _work(host, deque(jobs), how, screen, ran)
    except KeyboardInterrupt:  # the second Ctrl-C
        ran.interrupted = True
    finally:
        screen.finish()
    return ran


@contextmanager
def _host(how: How, plan: Plan, heard: Callable[[], None]) -> Iterator[Host]:
    host: Host
    if how.ray is not None:
        from marl.suite.ray_host import OnRay

        host = OnRay(how.jobs, how.ray, plan.folder)
    elif how.jobs > 1:
        host = Processes(how.jobs)
    else:
        host = InProcess(heard)
    try:
        yield host
    finally:
        host.close()


def _work(host: Host, waiting: deque[Job], how: How, screen: Screen, ran: Ran) -> None:
    def stop_all() -> None:
        screen.say("stopping: runs end behind their iterations; press Ctrl-C again to stop at once")
        host.stop()

    with interruptible(stop_all) as pressed, _deadline(how.minutes) as time_is_up:
        while waiting or host.running:
            if pressed() or ran.interrupted:
                waiting.clear()  # what has begun ends in order, and nothing more is begun
            _start_or_wait(host, waiting, screen)
            for job, status in host.ended():
                screen.ended(job, status)
                _note(job, status, ran)
            screen.show()
        ran.interrupted = ran.interrupted or pressed()
        ran.time_is_up = time_is_up()


def _start_or_wait(host: Host, waiting: deque[Job], screen: Screen) -> None:
    if waiting and host.free:
        screen.begun(waiting[0])
        host.start(waiting.popleft())
    elif host.running:
        time.sleep(POLL_S)


def _note(job: Job, status: Status, ran: Ran) -> None:
    if status.status == FAILED:
        ran.failed[job.title] = status.error
    elif status.status == STOPPED:
        ran.interrupted = True
    else:
        ran.trained += 1
        ran.open_jobs -= 1


@contextmanager
def _deadline(minutes: float | None) -> Iterator[Callable[[], bool]]:
    """After so many minutes everything ends as by Ctrl-C; gives a function that says whether that has happened."""
    fired = threading.Event()
    if minutes is None:
        yield fired.is_set
        return

    def fire() -> None:
        fired.set()
        _thread.interrupt_main()

    timer = threading.Timer(60.0 * minutes, fire)
    timer.daemon = True
    timer.start()
    try:
        yield fired.is_set
    finally:
        timer.cancel()
