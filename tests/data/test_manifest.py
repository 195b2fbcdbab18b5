"""What a directory of recordings says about itself, and whose recordings are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from marl.data.task import AgentType, Task
from marl.errors import DataError
from marl.offline.manifest import MANIFEST, check_fits, read_manifest, write_manifest

SIGHT = spaces.Box(-1, 1, (3,), np.float32)
HALF_BOUNDED = spaces.Box(np.array([-1, -np.inf], np.float32), np.array([np.inf, 5], np.float32))


def task(*kinds: AgentType, state_size: int = 4) -> Task:
    return Task(kinds or (AgentType("walker", ("a_0", "a_1"), SIGHT, HALF_BOUNDED), picker()), state_size)


def picker(**changed: Any) -> AgentType:
    plain: dict[str, Any] = {
        "observation_space": spaces.Discrete(7),
        "action_space": spaces.MultiDiscrete([2, 3]),
        "masked": True,
    }
    return AgentType("picker", ("b",), first_seat=2, **(plain | changed))


def test_the_manifest_tells_agents_spaces_and_policies(tmp_path: Path) -> None:
    write_manifest(tmp_path, task(), "my_env", ["p", "q"], normalized=True)
    plain = json.loads((tmp_path / MANIFEST).read_text(), parse_constant=lambda text: pytest.fail(f"{text} is no JSON"))
    assert plain == read_manifest(tmp_path)
    assert {key: plain[key] for key in ("version", "env", "policies", "normalized_actions", "state_size")} == {
        "version": 1, "env": "my_env", "policies": ["p", "q"], "normalized_actions": True, "state_size": 4,
    }  # fmt: skip
    walker, chooser = plain["kinds"]
    assert walker["agents"] == ["a_0", "a_1"]
    assert (walker["masked"], chooser["masked"]) == (False, True)
    assert (walker["obs"], chooser["obs"]) == ([3, "float32"], [1, "int64"])
    assert (walker["actions"]["low"], walker["actions"]["high"]) == ([-1.0, None], [None, 5.0])
    assert chooser["actions"]["sizes"] == [2, 3]
    assert not list(tmp_path.glob(".*.tmp"))


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (picker(masked=False), "differ from this run's in masked"),
        (picker(observation_space=spaces.Box(0, 1, (2,))), "differ from this run's in obs"),
        (picker(action_space=spaces.MultiDiscrete([3, 2])), "differ from this run's in actions"),
        (replace(picker(), agents=("c",)), "differ from this run's in agents"),
    ],
)
def test_recordings_of_other_agents_are_refused(tmp_path: Path, other: AgentType, told: str) -> None:
    write_manifest(tmp_path, task(), "my_env", ["p"], normalized=False)
    recorded = read_manifest(tmp_path)
    check_fits(recorded, task(), tmp_path, needs_state=True)
    with pytest.raises(DataError, match=told):
        check_fits(recorded, task(task().kinds[0], other), tmp_path, needs_state=False)


def test_recordings_with_fewer_kinds_or_another_state_are_refused(tmp_path: Path) -> None:
    write_manifest(tmp_path, task(), "my_env", ["p"], normalized=False)
    recorded = read_manifest(tmp_path)
    with pytest.raises(DataError, match=r"with 2 kinds of agents \(walker, picker\); this run has 1"):
        check_fits(recorded, task(task().kinds[0]), tmp_path, needs_state=False)
    check_fits(recorded, task(*task().kinds, state_size=5), tmp_path, needs_state=False)
    with pytest.raises(DataError, match="global state of 4 numbers, and this run needs 5"):
        check_fits(recorded, task(*task().kinds, state_size=5), tmp_path, needs_state=True)


@pytest.mark.parametrize(
    ("write", "told"),
    [
        (lambda file: None, "has no trajectories.json"),
        (lambda file: file.write_text("{"), "cannot be read"),
        (lambda file: file.write_text("[]"), "cannot be read"),
        (lambda file: file.write_text("{}"), "cannot be read"),
        (lambda file: file.write_text('{"version": 2}'), "has version 2; this marl reads version 1"),
    ],
)
def test_a_manifest_that_is_none_is_named(tmp_path: Path, write: Callable[[Path], object], told: str) -> None:
    write(tmp_path / MANIFEST)
    with pytest.raises(DataError, match=told):
        read_manifest(tmp_path)
