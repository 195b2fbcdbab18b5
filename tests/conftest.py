"""Shared builders and the one Ray of the test session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

torch.set_num_threads(1)


def start_ray(**resources: Any) -> None:
    """A local Ray with two CPUs, or other resources."""
    from marl.rollout.ray_instance import start_own_ray

    start_own_ray(**{"num_cpus": 2, **resources}, log_to_driver=False, object_store_memory=200 * 2**20)


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """One local Ray for all tests that need it."""
    from marl.rollout.ray_instance import stop_ray

    start_ray()
    yield
    stop_ray()
