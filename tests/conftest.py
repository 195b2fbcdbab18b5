"""Shared builders and the one Ray of the test session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

torch.set_num_threads(1)


def start_ray(**resources: Any) -> None:
    """A local Ray with two CPUs, or other resources."""
    import ray

    ray.init(
        **{"num_cpus": 2, **resources},
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        _node_ip_address="127.0.0.1",
        object_store_memory=200 * 2**20,
    )


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """One local Ray for all tests that need it."""
    import ray

    start_ray()
    yield
    ray.shutdown()
