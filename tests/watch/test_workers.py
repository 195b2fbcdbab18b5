"""Processes that do tasks for the page: one at a time, in order, and none takes another along."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from marl.errors import ConfigError
from marl.serve.refused import Refused
from marl.watch import workers
from marl.watch.jobs import MOST, Jobs
from marl.watch.workers import Worker
from tests.watch import tasks

HERE = "tests.watch.test_workers"


def echo(arguments: dict[str, Any], tell: Any) -> Any:
    tell(1, 2, "half")
    return {"pid": os.getpid(), **arguments}


def refuse(arguments: dict[str, Any], tell: Any) -> Any:
    raise ConfigError("that is not to be had. Take something else.")


def fail(arguments: dict[str, Any], tell: Any) -> Any:
    raise ZeroDivisionError("a mistake of ours")


def die(arguments: dict[str, Any], tell: Any) -> Any:
    os._exit(3)


def wait_for_ever(arguments: dict[str, Any], tell: Any) -> Any:
    tell(0, None, "waiting")
    time.sleep(1000)


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker("test")
    yield worker
    worker.close()


@pytest.fixture
def quick_worker(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> Worker:
    """Its processes import no networks, and are there at once."""
    monkeypatch.setattr(workers, "work", tasks.work)
    return worker


@pytest.mark.slow
def test_tasks_are_done_and_mistakes_told(quick_worker: Worker) -> None:
    worker = quick_worker
    told: list[tuple[float, float | None, str]] = []
    first = worker.call_now(f"{HERE}:echo", {"a": 1}, lambda *progress: told.append(progress))
    assert first["a"] == 1
    assert first["pid"] != os.getpid()
    assert told == [(1, 2, "half")]
    with pytest.raises(Refused, match="Take something else"):
        worker.call_now(f"{HERE}:refuse", {})
    with pytest.raises(Refused, match="not your mistake"):
        worker.call_now(f"{HERE}:fail", {})
    assert worker.call_now(f"{HERE}:echo", {})["pid"] == first["pid"]
    with pytest.raises(Refused, match=r"could not be read or written \(No such file or directory: 'params.json'\)"):
        worker.call_now(f"{HERE}:lose", {})
    with pytest.raises(Refused, match="exit code 3"):
        worker.call_now(f"{HERE}:die", {})
    assert worker.call_now(f"{HERE}:echo", {})["pid"] != first["pid"]


@pytest.mark.slow
def test_one_that_waits_leaves_the_queue_and_the_one_before_goes_on(quick_worker: Worker) -> None:
    worker = quick_worker

    async def play() -> None:
        jobs = Jobs()
        long = jobs.start(worker, f"{HERE}:wait_for_ever", {})
        waiting = jobs.start(worker, f"{HERE}:echo", {})
        while jobs.get(long)["text"] != "waiting":
            await asyncio.sleep(0.01)
        jobs.stop(waiting)
        await asyncio.sleep(0.1)
        assert jobs.get(long)["state"] == "running"
        last = jobs.start(worker, f"{HERE}:echo", {"b": 2})
        jobs.stop(long)
        while (told := jobs.get(last))["state"] != "done":
            await asyncio.sleep(0.01)
        assert told["result"]["b"] == 2

    asyncio.run(asyncio.wait_for(play(), 60))


def fork_and_wait(arguments: dict[str, Any], tell: Any) -> Any:
    """As an env does that plays in processes of its own: they hold copies of all pipes."""
    child = os.fork()
    if child:
        tell(0, None, str(child))
    if child and arguments["dies"]:
        os._exit(4)
    time.sleep(1000)


def lose(arguments: dict[str, Any], tell: Any) -> Any:
    Path("/no/such/folder/params.json").read_text()


def unfit(arguments: dict[str, Any], tell: Any) -> Any:
    return lambda: None


def is_gone(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.slow
def test_a_process_ends_with_all_that_its_env_has_forked(quick_worker: Worker) -> None:
    children: list[int] = []

    def note(done: float, total: float | None, text: str) -> None:
        children.append(int(text))

    with pytest.raises(Refused, match="exit code 4"):
        quick_worker.call_now(f"{HERE}:fork_and_wait", {"dies": True}, note)
    quick_worker.call_now(f"{HERE}:echo", {})  # everything is imported, so the next one does begin in its time
    with pytest.raises(Refused, match="did not end within 1 seconds"):
        quick_worker.call_now(f"{HERE}:fork_and_wait", {"dies": False}, note, limit_s=1.0)
    assert quick_worker.call_now(f"{HERE}:echo", {"a": 1}, limit_s=60.0)["a"] == 1
    with pytest.raises(Refused, match="not your mistake"):
        quick_worker.call_now(f"{HERE}:unfit", {})
    assert len(children) == 2
    deadline = time.monotonic() + 10.0
    while not all(map(is_gone, children)):
        assert time.monotonic() < deadline, "they play on for nobody"
        time.sleep(0.02)


@pytest.mark.slow
def test_work_that_nobody_asks_about_ends_and_lets_others_go_on(
    quick_worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("marl.watch.jobs.UNASKED_S", 1.0)

    async def play() -> None:
        jobs = Jobs()
        left = jobs.start(quick_worker, f"{HERE}:wait_for_ever", {})
        last = jobs.start(quick_worker, f"{HERE}:echo", {"b": 2})
        while (told := jobs.get(last))["state"] != "done":  # asks about the one, not about the other
            await asyncio.sleep(0.05)
        assert told["result"]["b"] == 2
        with pytest.raises(Refused, match="no piece of work"):
            jobs.get(left)

    asyncio.run(asyncio.wait_for(play(), 60))


@pytest.mark.slow
def test_stopping_work_that_has_ended_does_not_end_the_next(quick_worker: Worker) -> None:
    """What has ended in the process may not have been told to the loop yet, and looks as if it ran."""

    async def play() -> None:
        jobs = Jobs()
        numbers = [jobs.start(quick_worker, f"{HERE}:echo", {"number": number}) for number in range(30)]
        found: dict[int, Any] = {}
        for number in numbers:
            while (told := jobs.get(number))["state"] not in ("done", "failed"):
                time.sleep(0.005)  # the loop is busy: many may end meanwhile
                for other in [one for one in numbers if jobs._jobs.get(one) and one < number]:
                    jobs.stop(other)
                await asyncio.sleep(0)
            found[number] = told
        assert [told["state"] for told in found.values()] == ["done"] * 30

    asyncio.run(asyncio.wait_for(play(), 60))


@pytest.mark.slow
def test_a_storm_of_starts_and_stops_leaves_a_worker_that_works(quick_worker: Worker) -> None:
    async def play() -> None:
        jobs = Jobs()
        for wave in range(6):
            numbers = [jobs.start(quick_worker, f"{HERE}:wait_for_ever", {}) for _ in range(20)]
            await asyncio.sleep(0.02 * wave)  # in the middle of starting a process, too
            for number in numbers:
                jobs.stop(number)
        last = jobs.start(quick_worker, f"{HERE}:echo", {"b": 2})
        while (told := jobs.get(last))["state"] not in ("done", "failed"):
            await asyncio.sleep(0.01)
        assert told["state"] == "done", told

    asyncio.run(asyncio.wait_for(play(), 60))


@pytest.mark.slow
def test_results_that_nobody_fetches_are_in_nobodys_way(quick_worker: Worker) -> None:
    async def play() -> None:
        jobs = Jobs()
        for _ in range(3):
            numbers = [jobs.start(quick_worker, f"{HERE}:echo", {}) for _ in range(MOST)]
            with pytest.raises(Refused, match="under way"):
                jobs.start(quick_worker, f"{HERE}:echo", {})
            while jobs.get(numbers[-1])["state"] != "done":
                await asyncio.sleep(0.01)
        assert len(jobs._jobs) <= 2 * MOST

    asyncio.run(asyncio.wait_for(play(), 60))


def test_a_worker_that_was_closed_starts_nothing_more() -> None:
    worker = Worker("test")
    worker.close()
    with pytest.raises(Refused, match="ending"):
        worker.call_now(f"{HERE}:echo", {})
    with pytest.raises(Refused, match="ending"):
        asyncio.run(worker.call(f"{HERE}:echo", {}))
