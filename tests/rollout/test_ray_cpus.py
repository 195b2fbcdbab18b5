"""What a Ray of our own is started with, and what is told of its errors. No Ray is needed to know it."""

from __future__ import annotations

import os

import pytest

from marl.rollout.config import RolloutConfig
from marl.rollout.ray_instance import cpus_to_start_with, first_line


@pytest.mark.parametrize(
    ("keys", "more", "machine", "expected"),
    [
        ({"num_workers": 3, "num_cpus_per_worker": 1.5}, 0, 2, 5),  # 4.5 rounded up
        ({"num_workers": 3, "num_cpus_per_worker": 1.5}, 2, 2, 7),
        ({"num_workers": 1, "num_cpus_per_worker": 1}, 1, 8, 8),  # the whole machine
        ({"num_workers": 4, "num_cpus_per_worker": 1, "ray_num_cpus": 3}, 5, 8, 3),  # the user knows better
        ({"num_workers": 1, "num_cpus_per_worker": 0.25}, 0, None, 1),  # a machine that does not tell
        ({"num_workers": 0, "num_cpus_per_worker": 1}, 0, None, 1),
    ],
)
def test_a_local_ray_has_room_for_the_workers_and_at_least_the_machine(
    keys: dict[str, float], more: int, machine: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: machine)
    assert cpus_to_start_with(RolloutConfig(**keys), more) == expected


def test_an_error_is_told_in_its_first_line() -> None:
    assert first_line(RuntimeError("\n  no memory \n in worker 3\n")) == "no memory "
    assert first_line(RuntimeError("one\ntwo\nthree")) == "one"
    assert first_line(KeyError()) == "KeyError"
    assert first_line(ValueError(" \n ")) == "ValueError"
