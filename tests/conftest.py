"""Shared builders and the one Ray of the test session."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

torch.set_num_threads(1)
os.environ.setdefault(
    "RAY_worker_niceness", "0"
)  # on a busy machine Ray's workers, at 15, would wait for everybody else

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # A shell makes what it starts in the background deaf to Ctrl-C, and all that is started from there.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def start_ray(**resources: Any) -> None:
    """A local Ray with two CPUs, or other resources."""
    from marl.rollout import ray_instance

    ray_instance.start_own_ray(**{"num_cpus": 2, **resources}, log_to_driver=False, object_store_memory=200 * 2**20)


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """One local Ray for all tests that need it."""
    from marl.rollout.ray_instance import stop_ray
    from tests.warm_ray import start_server, use_warm_workers

    use_warm_workers(start_server())
    start_ray()
    yield
    stop_ray()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take longest first: processes take a file at a time, and short ones fill up the end of all."""
    weights: Counter[Path] = Counter()
    for item in items:
        weights[item.path] += 4 if item.get_closest_marker("ray") else 2 if item.get_closest_marker("slow") else 0
    items.sort(key=lambda item: -weights[item.path])
