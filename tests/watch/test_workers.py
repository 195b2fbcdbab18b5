"""Processes that do tasks for the page: one at a time, in order, and none takes another along."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest

from marl.errors import ConfigError
from marl.serve.refused import Refused
from marl.watch.jobs import Jobs
from marl.watch.workers import Worker

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
    import time

    tell(0, None, "waiting")
    time.sleep(1000)


@pytest.fixture
def worker() -> Iterator[Worker]:
    worker = Worker("test")
    yield worker
    worker.close()


@pytest.mark.slow
def test_tasks_are_done_and_mistakes_told(worker: Worker) -> None:
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
    with pytest.raises(Refused, match="exit code 3"):
        worker.call_now(f"{HERE}:die", {})
    assert worker.call_now(f"{HERE}:echo", {})["pid"] != first["pid"]


@pytest.mark.slow
def test_one_that_waits_leaves_the_queue_and_the_one_before_goes_on(worker: Worker) -> None:
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
